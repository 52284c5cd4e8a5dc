"""The example that translates a document and lets the memory grow with it."""

import subprocess
import sys
from pathlib import Path

from fairseq_seg.store.store import TranslationMemory
from tests.corpus import SOURCE, TARGET, Corpus

TRANSLATE = Path(__file__).resolve().parent.parent / "examples" / "growing_memory" / "translate.py"


def test_each_confirmed_translation_goes_into_the_memory(
    corpus: Corpus, bpe_data_bin: Path, bpe_trained: Path, tmp_path: Path
):
    pairs = [corpus.test[0], corpus.test[1], corpus.test[0]]
    for language, side in ((SOURCE, "source"), (TARGET, "target")):
        (tmp_path / f"document.{language}").write_text("".join(getattr(pair, side) + "\n" for pair in pairs))
    model = bpe_data_bin.with_name("joint.model")
    command = [sys.executable, TRANSLATE, tmp_path, tmp_path / "out", "--data-bin", bpe_data_bin, "-s", SOURCE]
    command += [
        "-t",
        TARGET,
        "--path",
        bpe_trained / "checkpoint_last.pt",
        "--spm-source",
        model,
        "--spm-target",
        model,
    ]

    output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "| memory | all 3 sentences | the 2 that repeat no other |" in output
    for name in ("none", "frozen", "growing"):
        assert f"| {name} | " in output
        assert len((tmp_path / "out" / f"{name}.{TARGET}").read_text().splitlines()) == 3
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    with TranslationMemory(tmp_path / "out" / "growing.mem") as memory:
        assert [(entry.source, entry.unit) for entry in memory.entries()] == [
            (pairs[0].source, "1"),
            (pairs[1].source, "2"),
        ]
    # A second run scores what is there.
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == output
