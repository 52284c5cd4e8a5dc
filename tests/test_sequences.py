"""Token-id sequences: fairseq's files without fairseq, keys of rows, and fingerprints."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.corpus.dictionary import read_dictionary
from fairseq_seg.corpus.sequences import ROW_BLOCK, Sequences, fingerprint, row_keys
from tests.corpus import SOURCE, SPLITS, TARGET, binarize


def sequences(rows) -> Sequences:
    return Sequences.from_rows(rows)


def read_with_fairseq(folder: Path, split: str, side: str) -> list[list[int]]:
    """Read a side of a split with fairseq's own reader, eos included."""
    import bitarray.util
    from fairseq.data import Dictionary, data_utils

    # fairseq's Huffman reader asks bitarray for what its newer versions do not have.
    bitarray.util.rindex = lambda bits, value: bits.index(value, right=True)
    dictionary = Dictionary.load(str(folder / f"dict.{side}.txt"))
    dataset = data_utils.load_indexed_dataset(str(folder / f"{split}.{NAME}.{side}"), dictionary)
    if dataset.supports_prefetch:
        dataset.prefetch(range(len(dataset)))
    return [dataset[row].tolist() for row in range(len(dataset))]


NAME = f"{SOURCE}-{TARGET}"


@pytest.fixture(scope="module", params=["mmap", "cached", "lazy", "raw", "huffman"])
def folder(request, data_bin, tmp_path_factory) -> Path:
    """Return the corpus in each format of fairseq, with an empty line and a word that is not in the dictionary."""
    text = shutil.copytree(data_bin.with_name("text"), tmp_path_factory.mktemp(request.param) / "text")
    for side in (SOURCE, TARGET):
        with open(text / f"valid.{side}", "a", encoding="utf-8") as file:
            file.write("\nxyzzy the\n")
    binarize(text, text.parent / "data-bin", request.param)
    return text.parent / "data-bin"


@pytest.mark.parametrize("side", [SOURCE, TARGET])
@pytest.mark.parametrize("split", SPLITS)
def test_every_format_is_read_as_fairseq_reads_it(folder: Path, split: str, side: str):
    expected = read_with_fairseq(folder, split, side)
    prefix = folder / f"{split}.{NAME}.{side}"
    if prefix.exists():
        found = Sequences.from_text(prefix, read_dictionary(folder / f"dict.{side}.txt"))
    else:
        found = Sequences.from_index(prefix)
    assert [[*row.tolist(), 2] for row in found] == expected and len(expected) >= 40
    assert found.lengths.tolist() == [len(row) - 1 for row in expected]


def test_the_fingerprint_of_every_format_is_the_same(folder: Path, tmp_path: Path):
    sides = [read_with_fairseq(folder, "train", side) for side in (SOURCE, TARGET)]
    prefixes = [folder / f"train.{NAME}.{side}" for side in (SOURCE, TARGET)]
    if prefixes[0].exists():
        read = [Sequences.from_text(p, read_dictionary(folder / f"dict.{p.suffix[1:]}.txt")) for p in prefixes]
    else:
        read = [Sequences.from_index(prefix) for prefix in prefixes]
    assert fingerprint(*read) == fingerprint(*map(sequences, sides))


def test_fasta_is_read_as_fairseq_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from fairseq.data import Dictionary, data_utils

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # fairseq runs tqdm
    (tmp_path / "dict.txt").write_text("A 1\nC 1\nG 1\n")
    path = tmp_path / "train.fasta"
    path.write_text(">first\nACG\nGA\n>second, empty\n>third > one\n CA \n")
    dataset = data_utils.load_indexed_dataset(str(tmp_path / "train"), Dictionary.load(str(tmp_path / "dict.txt")))
    found = Sequences.from_fasta(path, read_dictionary(tmp_path / "dict.txt"))
    assert [[*row.tolist(), 2] for row in found] == [row.tolist() for row in dataset]
    assert [len(row) for row in found] == [5, 0, 2]
    path.write_text(">one\nXA\n")  # fairseq would add X to the dictionary, and the model would have no embedding for it
    assert Sequences.from_fasta(path, read_dictionary(tmp_path / "dict.txt"))[0].tolist() == [3, 4]
    path.write_text("")
    assert len(Sequences.from_fasta(path, [])) == 0


@pytest.mark.parametrize("impl", ["mmap", "cached"])
def test_no_sentence_at_all(data_bin, tmp_path: Path, impl: str):
    text = shutil.copytree(data_bin.with_name("text"), tmp_path / "text")
    for side in (SOURCE, TARGET):
        (text / f"test.{side}").write_text("")
    binarize(text, tmp_path / "data-bin", impl)
    assert len(Sequences.from_index(tmp_path / "data-bin" / f"test.{NAME}.{SOURCE}")) == 0


@pytest.mark.parametrize("impl", ["mmap", "cached", "huffman"])
@pytest.mark.parametrize("cut", [".idx", ".bin"])
def test_files_that_are_cut_off_are_noticed(data_bin, tmp_path: Path, impl: str, cut: str):
    binarize(data_bin.with_name("text"), tmp_path / "data-bin", impl)
    prefix = tmp_path / "data-bin" / f"valid.{NAME}.{SOURCE}"
    path = prefix.with_name(prefix.name + cut)
    content = path.read_bytes()
    for end in (-1, -9, 20) if cut == ".idx" else (-1,):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match="is truncated"):
            Sequences.from_index(prefix)
    path.write_bytes(b"something else entirely" if cut == ".idx" else b"")
    with pytest.raises(ValueError, match="is not in one of the formats" if cut == ".idx" else "is truncated"):
        Sequences.from_index(prefix)


def test_the_fingerprint_is_of_the_token_ids():
    source, target = [[4, 5, 2], [6, 2]], [[7, 2], [2]]
    expected = fingerprint(sequences(source), sequences(target))
    assert fingerprint(sequences([[4, 5], [6]]), sequences([[7], []])) == expected
    others = [
        ([[4, 5], [9]], [[7], []]),
        ([[6], [4, 5]], [[7], []]),  # another order
        ([[4], [5, 6]], [[7], []]),  # another cut
        ([[7], []], [[4, 5], [6]]),  # the other direction
        ([[4, 5], [6], [7]], [[]]),
        ([[4, 5]], [[7]]),
    ]
    found = {fingerprint(*map(sequences, other)) for other in others}
    assert len({expected, *found}) == 1 + len(others)


def test_row_keys_tell_sides_apart():
    left = row_keys(sequences([[4, 5]]), sequences([[6]]))
    right = row_keys(sequences([[4]]), sequences([[5, 6]]))
    assert left != right
    with_eos = row_keys(sequences([[4, 5, 2]]), sequences([[6, 2]]))
    assert left == with_eos


def test_row_keys_of_blocks_are_those_of_each_row():
    generator = np.random.default_rng(1)
    rows = [generator.integers(4, 9, generator.integers(0, 4)).tolist() for _ in range(2 * ROW_BLOCK + 3)]
    key_of: dict[tuple, int] = {}
    for row, key in zip(map(tuple, rows), row_keys(sequences(rows)).tolist(), strict=True):
        assert key_of.setdefault(row, key) == key
    assert len(set(key_of.values())) == len(key_of)
