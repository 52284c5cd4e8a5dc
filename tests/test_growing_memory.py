"""The example that translates a document and lets the memory grow with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.store.store import TranslationMemory
from tests.corpus import SOURCE, TARGET, Corpus, Pair

TRANSLATE = Path(__file__).resolve().parent.parent / "examples" / "growing_memory" / "translate.py"


@pytest.fixture(scope="module")
def model(bpe_data_bin: Path, bpe_trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model of subwords."""
    attach = [Path(sys.executable).with_name("seg-attach"), bpe_data_bin, "--splits", "train"]
    subprocess.run(attach, check=True, capture_output=True, timeout=300)
    subwords = bpe_data_bin.with_name("joint.model")
    path, checkpoint = tmp_path_factory.mktemp("growing") / "model", bpe_trained / "checkpoint_last.pt"
    options = {"beam": 2, "max_len_a": 0, "max_len_b": 20, "cpu": True}
    return ModelFolder.create(path, DataBin(bpe_data_bin), checkpoint, (subwords, subwords), options).path


@pytest.fixture
def pairs(corpus: Corpus, tmp_path: Path) -> list[Pair]:
    """Write a document of three sentences, of which the last repeats the first."""
    pairs = [corpus.test[0], corpus.test[1], corpus.test[0]]
    for language, side in ((SOURCE, "source"), (TARGET, "target")):
        (tmp_path / f"document.{language}").write_text("".join(getattr(pair, side) + "\n" for pair in pairs))
    return pairs


def test_each_confirmed_translation_goes_into_the_memory(pairs: list[Pair], model: Path, tmp_path: Path):
    command = [sys.executable, TRANSLATE, tmp_path, tmp_path / "out", "--model", model]
    output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "| memory | all 3 sentences | the 2 that repeat no other |" in output
    for name in ("none", "frozen", "growing"):
        assert f"| {name} | " in output
        assert len((tmp_path / "out" / f"{name}.{TARGET}").read_text().splitlines()) == 3
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    with TranslationMemory(tmp_path / "out" / "growing.mem") as memory:
        assert [(entry.source, entry.unit) for entry in memory.pairs()] == [
            (pairs[0].source, "1"),
            (pairs[1].source, "2"),
        ]
    # A second run scores what is there.
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == output


def test_bad_input_is_one_sentence(pairs: list[Pair], model: Path, tmp_path: Path):
    command = [sys.executable, TRANSLATE, tmp_path, tmp_path / "out", "--model"]
    missing = subprocess.run([*command, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 1 and missing.stderr.startswith("The model folder")
    (tmp_path / f"document.{TARGET}").write_text("one\n")
    uneven = subprocess.run([*command, model], capture_output=True, text=True, timeout=60)
    assert uneven.returncode == 1 and uneven.stderr == f"{tmp_path} has 3 sentences and 1 references.\n"
