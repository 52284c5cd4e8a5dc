"""A data-bin read without fairseq: its splits, sides, dictionaries and fingerprints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.corpus import databin
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import dictionary_fingerprint
from fairseq_seg.corpus.sequences import fingerprint
from fairseq_seg.errors import SegError
from tests.corpus import SOURCE, TARGET, Corpus, binarize

NAME = f"{SOURCE}-{TARGET}"


@pytest.fixture
def folder(data_bin: Path, tmp_path: Path) -> Path:
    return shutil.copytree(data_bin, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*.memory", "index.*"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list:
    """Record what is fingerprinted during a test."""
    made = []

    def counted(*sides):
        made.append(sides)
        return fingerprint(*sides)

    monkeypatch.setattr(databin, "fingerprint", counted)
    return made


def test_sides_and_dictionaries_are_those_of_the_corpus(folder: Path, corpus: Corpus):
    data = DataBin(folder)
    assert (data.source_lang, data.target_lang, data.splits()) == (SOURCE, TARGET, ["train", "valid", "test"])
    for split, pairs in corpus.splits():
        texts = [
            [spelling.text(row) for row in side]
            for spelling, side in zip(data.spellings, data.pair(split), strict=True)
        ]
        assert texts == [[pair.source for pair in pairs], [pair.target for pair in pairs]]
    assert data.table().text(3) == (corpus.train[3].source, corpus.train[3].target)
    assert data.dictionary_fingerprints == tuple(map(dictionary_fingerprint, data.dictionaries))
    assert data.attached_path("test") == folder / f"test.{NAME}.memory"


def test_dictionaries_are_those_of_fairseq(folder: Path):
    from fairseq.data import Dictionary

    for lang, symbols in zip((SOURCE, TARGET), DataBin(folder).dictionaries, strict=True):
        assert symbols == Dictionary.load(str(folder / f"dict.{lang}.txt")).symbols


def test_the_other_direction(folder: Path):
    forward, backward = DataBin(folder), DataBin(folder, TARGET, SOURCE)
    assert [side[0].tolist() for side in backward.pair("test")] == [
        side[0].tolist() for side in reversed(forward.pair("test"))
    ]
    assert backward.fingerprint("test") != forward.fingerprint("test")
    assert backward.attached_path("test").name == f"test.{NAME}.reversed.memory"


def test_a_split_is_read_and_fingerprinted_once_per_process(folder: Path, calls: list):
    first = DataBin(folder)
    fingerprints = {first.fingerprint("train"), DataBin(folder, SOURCE, TARGET).fingerprint("train")}
    assert len(fingerprints) == len(calls) == 1
    assert DataBin(str(folder)).pair("train")[0] is first.pair("train")[0]
    first.fingerprint("valid")
    DataBin(folder).fingerprint("valid")
    assert len(calls) == 2


def test_a_changed_file_is_read_again(folder: Path, calls: list):
    data = DataBin(folder)
    before = data.fingerprint("valid")
    for path in folder.glob(f"test.{NAME}.*.*"):
        shutil.copy(path, folder / path.name.replace("test.", "valid."))
    assert data.fingerprint("valid") == DataBin(folder).fingerprint("test") != before
    # A touched file may be another one, whatever its size.
    os.utime(folder / f"valid.{NAME}.{SOURCE}.bin", ns=(1, 1))
    data.fingerprint("valid")
    assert len(calls) == 4


def test_parts_of_the_training_set_are_one(folder: Path):
    for path in folder.glob(f"test.{NAME}.*.*"):
        shutil.copy(path, folder / path.name.replace("test.", "train1."))
        shutil.copy(path, folder / path.name.replace("test.", "train3."))  # fairseq stops at the first gap
        shutil.copy(path, folder / path.name.replace("test.", "test1."))
    data = DataBin(folder)
    assert data.splits() == ["train", "valid", "test", "test1"] and data.parts("train") == ["train", "train1"]
    sizes = [len(DataBin(folder).pair(split)[0]) for split in ("train", "test")]
    assert data.part_sizes("train") == [sizes[0] - sizes[1], sizes[1]] and data.part_sizes("test") == sizes[1:]
    assert data.pair("train")[0][-1].tolist() == data.pair("test")[0][-1].tolist()
    assert data.parts("test") == ["test"]


def test_a_split_without_a_target(folder: Path):
    for ending in (".idx", ".bin"):
        (folder / f"test.{NAME}.{TARGET}{ending}").unlink()
    data = DataBin(folder)
    source, target = data.sides("test")
    assert len(source) == 40 and target is None
    with pytest.raises(SegError, match=f"test.{NAME}.{TARGET}.idx is missing: run fairseq-preprocess again"):
        data.pair("test")


@pytest.mark.parametrize("impl", ["raw", "cached", "huffman"])
def test_other_formats_have_the_same_fingerprint(data_bin: Path, tmp_path: Path, impl: str):
    binarize(data_bin.with_name("text"), tmp_path / "data-bin", impl)
    other = DataBin(tmp_path / "data-bin")
    assert other.splits() == ["train", "valid", "test"]
    assert other.fingerprint("train") == DataBin(data_bin).fingerprint("train")


def test_a_damaged_huffman_file_is_refused_in_a_sentence(data_bin: Path, tmp_path: Path):
    binarize(data_bin.with_name("text"), tmp_path / "data-bin", "huffman")
    prefix = tmp_path / "data-bin" / f"valid.{NAME}.{SOURCE}"
    content = Path(f"{prefix}.bin").read_bytes()
    for damaged in (bytes(len(content)), b"\xff" * len(content)):
        Path(f"{prefix}.bin").write_bytes(damaged)
        with pytest.raises(SegError, match=f"{prefix}.bin is damaged: run fairseq-preprocess again"):
            DataBin(tmp_path / "data-bin").pair("valid")
    Path(f"{prefix}.vocab").unlink()
    with pytest.raises(SegError, match="vocab cannot be read .No such file"):
        DataBin(tmp_path / "data-bin").pair("valid")


def test_what_is_wrong_is_said_in_a_sentence(folder: Path):
    data = DataBin(folder)
    with pytest.raises(SegError, match="has no split 'dev', only train, valid, test"):
        data.pair("dev")
    index = folder / f"valid.{NAME}.{SOURCE}.idx"
    index.write_bytes(index.read_bytes()[:30])
    with pytest.raises(SegError, match="is truncated.*: run fairseq-preprocess again"):
        data.pair("valid")
    for path in folder.glob(f"test.{NAME}.{TARGET}.*"):
        shutil.copy(path.with_name(path.name.replace("test", "train")), path)
    with pytest.raises(SegError, match="test of .* has 40 sentences in en and 400 in fr: make both files equally long"):
        data.pair("test")
    (folder / f"dict.{TARGET}.txt").unlink()
    with pytest.raises(SegError, match="dict.fr.txt is missing: run fairseq-preprocess again"):
        _ = DataBin(folder).dictionaries


def test_reading_imports_neither_torch_nor_fairseq(folder: Path):
    code = (
        "import sys; from fairseq_seg.corpus.databin import DataBin\n"
        f"DataBin({str(folder)!r}).fingerprint('train')\n"
        "heavy = {'torch', 'fairseq', 'pandas', 'jnius'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
