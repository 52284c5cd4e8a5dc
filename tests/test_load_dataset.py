"""The task's splits: the sentences that fairseq's own loader would give, from files that are opened once."""

import re
import shutil
import string
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.tasks.translation import load_langpair_dataset

from fairseq_seg.data.seg_dataset import SegDataset
from fairseq_seg.errors import SegError
from fairseq_seg.tasks.seg_translation import SegTranslationConfig, SegTranslationTask
from tests.attached_corpus import PLUGIN
from tests.corpus import SOURCE, SPLITS, TARGET, binarize
from tests.stock import TRAINING

NAME = f"{SOURCE}-{TARGET}"
# Notes every file of the data-bin that a process opens, also in the processes that it forks.
NOTING = """
import sys
folder, log = sys.argv[1:3]
def note(event, arguments):
    if event == "open" and str(arguments[0]).startswith(folder):
        print(arguments[0], file=stream, flush=True)
stream = open(log, "a")
sys.addaudithook(note)
sys.argv = ["fairseq-train", folder, *sys.argv[3:]]
from fairseq_cli.train import cli_main
cli_main()
"""


@pytest.fixture
def parts(data_bin: Path, tmp_path: Path) -> Path:
    """Return a data-bin whose training set has two parts."""
    folder = shutil.copytree(data_bin, tmp_path / "parts", ignore=shutil.ignore_patterns("*.memory", "index.*"))
    for path in folder.glob(f"valid.{NAME}.*"):
        shutil.copy(path, folder / path.name.replace("valid", "train1"))
    return folder


def load(folder: Path, split: str, combine: bool, **options) -> SegDataset:
    task = SegTranslationTask.setup_task(SegTranslationConfig(data=str(folder), memory_k=0, **options))
    task.load_dataset(split, combine=combine)
    return task.dataset(split)


def load_with_fairseq(folder: Path, split: str, combine: bool, **options):
    dictionaries = [Dictionary.load(str(folder / f"dict.{lang}.txt")) for lang in (SOURCE, TARGET)]
    values = {"upsample_primary": 1, "max_source_positions": 1024, "dataset_impl": "mmap"} | options
    sides = (SOURCE, dictionaries[0], TARGET, dictionaries[1], combine)
    fixed = {"left_pad_source": False, "left_pad_target": False, "max_target_positions": 1024}
    return load_langpair_dataset(str(folder), split, *sides, **fixed, **values)


@pytest.mark.parametrize(
    ("split", "combine", "options"),
    [
        ("train", True, {}),
        ("train", False, {}),
        ("train", True, {"upsample_primary": 3}),
        ("valid", False, {"truncate_source": True, "max_source_positions": 4}),
        ("test", False, {"upsample_primary": 2}),
    ],
)
def test_the_sentences_are_those_of_fairseqs_loader(parts: Path, split: str, combine: bool, options: dict):
    ours, theirs = load(parts, split, combine, **options), load_with_fairseq(parts, split, combine, **options)
    assert len(ours) == len(theirs)
    for index in range(len(theirs)):
        for side in ("source", "target"):
            assert ours[index][side].tolist() == theirs[index][side].tolist()
    assert [ours.src_sizes[index] for index in range(len(ours))] == [len(ours[i]["source"]) for i in range(len(ours))]
    if "truncate_source" in options:
        assert max(ours.src_sizes) == 4
    else:
        assert ours.sizes.tolist() == theirs.sizes.tolist()


def test_parts_of_a_training_set_with_another_name(parts: Path):
    for path in parts.glob(f"train*.{NAME}.*"):
        path.rename(path.with_name(path.name.replace("train", "mine")))
    for path in parts.glob(f"valid.{NAME}.*"):
        shutil.copy(path, path.with_name(path.name.replace("valid", "train")))
    ours = load(parts, "mine", True, train_subset="mine")
    assert len(ours) == len(load_with_fairseq(parts, "mine", True)) == len(load(parts, "mine", False)) + 40


def test_only_raw_data_has_the_words_of_the_source(parts: Path, data_bin: Path, tmp_path: Path):
    text = data_bin.with_name("text")
    binarize(text, tmp_path / "raw", "raw")
    lines = (text / f"valid.{SOURCE}").read_text(encoding="utf-8").splitlines()
    source = load(tmp_path / "raw", "valid", False).src
    assert [source.get_original_text(index) for index in range(len(source))] == lines
    with pytest.raises(SegError, match="--replace-unk needs the words of the source: use .* --dataset-impl raw"):
        load(parts, "valid", False).src.get_original_text(0)


def test_alignments_are_loaded(parts: Path):
    for ending in ("idx", "bin"):
        shutil.copy(parts / f"valid.{NAME}.{SOURCE}.{ending}", parts / f"valid.align.{NAME}.{ending}")
    ours = load(parts, "valid", False, load_alignments=True)
    assert ours[3]["alignment"].tolist() == ours[3]["source"].tolist()
    assert load(parts, "test", False, load_alignments=True).align_dataset is None


def write_fasta(text: Path, data_bin: Path) -> None:
    """Write each sentence as a FASTA record of its letters."""
    data_bin.mkdir()
    letters = "".join(f"{letter} 1\n" for letter in string.ascii_letters)
    for lang in (SOURCE, TARGET):
        (data_bin / f"dict.{lang}.txt").write_text(letters)
        for split in SPLITS:
            lines = (text / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()
            records = (f">{number}\n{line.replace(' ', '')[:20]}\n" for number, line in enumerate(lines))
            (data_bin / f"{split}.{NAME}.{lang}.fasta").write_text("".join(records), encoding="utf-8")


@pytest.mark.parametrize(
    ("impl", "endings"),
    {
        "mmap": (".idx", ".bin"),
        "cached": (".idx", ".bin"),
        "raw": ("",),
        "huffman": (".idx", ".bin", ".vocab"),
        "fasta": (".fasta",),
    }.items(),
)
def test_every_format_can_be_attached_and_training_opens_every_file_once(
    data_bin: Path, tmp_path: Path, impl: str, endings: tuple
):
    folder, text = tmp_path / "data-bin", data_bin.with_name("text")
    write_fasta(text, folder) if impl == "fasta" else binarize(text, folder, impl)
    attach = [Path(sys.executable).with_name("seg-attach"), folder, "--splits", "train,valid", "--processes", "1"]
    options = [*PLUGIN, *TRAINING, "--max-update", 1, "--save-dir", tmp_path, "--memory-k", 2, "--num-workers", 1]
    train = [sys.executable, "-c", NOTING, folder, tmp_path / "opened", *map(str, options)]
    for command in (attach, train):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    opened = Counter(Path(line).name for line in (tmp_path / "opened").read_text().splitlines())
    files = {name: times for name, times in opened.items() if re.match(rf"(train|valid)\.{NAME}\.", name)}
    sides = [f"{split}.{NAME}.{lang}" for split in ("train", "valid") for lang in (SOURCE, TARGET)]
    attached = [f"{split}.{NAME}.memory" for split in ("train", "valid")]
    assert files == dict.fromkeys([*(side + ending for side in sides for ending in endings), *attached], 1)
