"""The attached file: what is written is read, and only with the data that it was made from."""

import numpy as np
import pytest

from fairseq_seg.corpus.attached import AttachedError, AttachedPairs, attached_path, fingerprint, write_attached
from fairseq_seg.corpus.sequences import Sequences
from tests.corpus import SOURCE, TARGET, binarize

HEADER = {
    "signature": "engine:none",
    "kept": 3,
    "memory_fingerprint": "aa",
    "split_fingerprint": "bb",
    "memory_data": None,
    "settings": {},
}
ROWS = [
    ([7, 2, 9, 4], [0.9, 0.5, 0.5, 0.1], [True, False, True, True]),
    ([], [], []),
    ([1], [0.25], [True]),
]


@pytest.fixture
def path(tmp_path):
    rows = [(np.array(ids, int), np.array(scores, np.float32), np.array(marks, bool)) for ids, scores, marks in ROWS]
    write_attached(tmp_path / "train.en-fr.memory", HEADER, rows)
    return tmp_path / "train.en-fr.memory"


def test_round_trip(path):
    attached = AttachedPairs.load(path)
    assert len(attached) == 3
    assert (attached.signature, attached.kept, attached.memory_data) == ("engine:none", 3, None)
    for index, (ids, scores, marks) in enumerate(ROWS):
        stored = attached.row(index)
        assert stored[0].tolist() == ids
        np.testing.assert_array_equal(stored[1], np.array(scores, np.float32))
        assert stored[2].tolist() == marks
    assert [path.name for path in path.parent.iterdir()] == ["train.en-fr.memory"]


def test_no_example_at_all(tmp_path):
    write_attached(tmp_path / "test.en-fr.memory", HEADER, [])
    attached = AttachedPairs.load(tmp_path / "test.en-fr.memory")
    assert len(attached) == 0
    assert attached.select_all(2)[0].tolist() == [0]


@pytest.mark.parametrize("arguments", [(0,), (1,), (3,), (2, "topk", 0.5), (0, "adaptive"), (0, "adaptive", 0.2)])
def test_selection_of_all_is_that_of_each(path, arguments):
    attached = AttachedPairs.load(path)
    starts, ids = attached.select_all(*arguments)
    each = [attached.select(index, *arguments)[0].tolist() for index in range(3)]
    assert [ids[start:stop].tolist() for start, stop in zip(starts, starts[1:], strict=False)] == each


def test_selection(path):
    attached = AttachedPairs.load(path)
    assert attached.select(0, 2)[0].tolist() == [7, 2]
    assert attached.select(0, 1, "adaptive")[0].tolist() == [7, 9, 4]
    assert attached.select(0, 3, min_score=0.6)[0].tolist() == [7]
    with pytest.raises(
        AttachedError, match="4 pairs are asked for but 3 were kept; run seg-attach again with --keep 4"
    ):
        attached.select(0, 4)


def test_bad_files_are_refused_in_a_sentence(path):
    with pytest.raises(AttachedError, match="does not exist; run seg-attach"):
        AttachedPairs.load(path.with_name("valid.en-fr.memory"))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(AttachedError, match="is cut off"):
        AttachedPairs.load(path)
    path.write_bytes(content[:30])
    with pytest.raises(AttachedError, match="cannot be read"):
        AttachedPairs.load(path)
    path.write_bytes(b"other" + content)
    with pytest.raises(AttachedError, match="is not an attached memory"):
        AttachedPairs.load(path)


def test_other_data_is_refused_in_a_sentence(path):
    attached = AttachedPairs.load(path)
    attached.check("bb", "aa")
    with pytest.raises(AttachedError, match="other data than this split .* run seg-attach again"):
        attached.check("cc", "aa")
    with pytest.raises(AttachedError, match="other data than the memory's pairs .* run seg-attach again"):
        attached.check("bb", "cc")


def test_fingerprint_is_that_of_the_token_ids():
    source, target = [[4, 5, 2], [6, 2]], [[7, 2], [2]]
    expected = fingerprint(source, target)
    assert fingerprint([[4, 5], [6]], [[7], []]) == expected
    assert fingerprint(Sequences.from_rows(source), Sequences.from_rows(target)) == expected
    others = [
        ([[4, 5], [9]], [[7], []]),
        ([[6], [4, 5]], [[7], []]),  # another order
        ([[4], [5, 6]], [[7], []]),  # another cut
        ([[7], []], [[4, 5], [6]]),  # the other direction
        ([[4, 5], [6], [7]], [[]]),
        ([[4, 5]], [[7]]),
    ]
    assert len({expected, *(fingerprint(*other) for other in others)}) == 1 + len(others)


def test_fingerprint_of_every_format_is_the_same(data_bin, tmp_path):
    from fairseq.data import Dictionary, data_utils

    def read(folder, side):
        dictionary = Dictionary.load(str(folder / f"dict.{side}.txt"))
        return data_utils.load_indexed_dataset(str(folder / f"valid.{SOURCE}-{TARGET}.{side}"), dictionary)

    binarize(data_bin.with_name("text"), tmp_path / "raw", "raw")
    prefixes = [data_bin / f"valid.{SOURCE}-{TARGET}.{side}" for side in (SOURCE, TARGET)]
    expected = fingerprint(*map(Sequences.from_mmap, prefixes))
    for folder in (data_bin, tmp_path / "raw"):
        assert fingerprint(read(folder, SOURCE), read(folder, TARGET)) == expected


def test_names_never_mislead_fairseq(tmp_path):
    from fairseq.data.data_utils import infer_language_pair

    for language in ("en", "fr"):
        (tmp_path / f"train.en-fr.{language}.idx").touch()
    assert attached_path(tmp_path, "train", "en", "fr").name == "train.en-fr.memory"
    backward = attached_path(tmp_path, "train", "fr", "en")
    # The file of the backward direction, alone in a folder, still tells the languages of the data-bin.
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / backward.name).touch()
    assert infer_language_pair(tmp_path / "other") == ["en", "fr"]


def test_mmap_files_that_are_cut_off_are_noticed(data_bin, tmp_path):
    prefix = data_bin / f"valid.{SOURCE}-{TARGET}.{SOURCE}"
    for ending in (".idx", ".bin"):
        for name in (".idx", ".bin"):
            content = prefix.with_name(prefix.name + name).read_bytes()
            (tmp_path / f"side{name}").write_bytes(content[:-1] if name == ending else content)
        with pytest.raises(ValueError, match="is cut off"):
            Sequences.from_mmap(tmp_path / "side")
