"""The attached file: what is written is read, and only with the data that it was made from."""

import json

import numpy as np
import pytest

from fairseq_seg.corpus.attached import AttachedError, AttachedPairs, attached_path, write_attached
from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.corpus.selection import Selection

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
    """Return a file that was written in two parts."""
    rows = [(np.array(ids, int), np.array(scores, np.float32), np.array(marks, bool)) for ids, scores, marks in ROWS]
    parts = map(RankedPairs.from_rows, (rows[:1], rows[1:]))
    write_attached(tmp_path / "train.en-fr.memory", HEADER, parts)
    return tmp_path / "train.en-fr.memory"


def test_round_trip(path):
    attached = AttachedPairs.load(path)
    assert len(attached) == 3
    assert (attached.signature, attached.kept, attached.memory_data) == ("engine:none", 3, None)
    for (ids, scores, marks), stored in zip(ROWS, attached.ranked, strict=True):
        assert stored[0].tolist() == ids
        np.testing.assert_array_equal(stored[1], np.array(scores, np.float32))
        assert stored[2].tolist() == marks
    assert isinstance(attached.ranked.ids, np.memmap)
    assert [path.name for path in path.parent.iterdir()] == ["train.en-fr.memory"]


def test_no_example_at_all(tmp_path):
    write_attached(tmp_path / "test.en-fr.memory", HEADER, [])
    attached = AttachedPairs.load(tmp_path / "test.en-fr.memory")
    assert len(attached) == 0
    assert attached.select(Selection(2)).starts.tolist() == [0]


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(0), [[], [], []]),
        (Selection(1), [[7], [], [1]]),
        (Selection(2), [[7, 2], [], [1]]),
        (Selection(3), [[7, 2, 9], [], [1]]),
        (Selection(3, "topk", 0.6), [[7], [], []]),
        (Selection(2, "topk", 0.5), [[7, 2], [], []]),
        (Selection(1, "adaptive"), [[7, 9, 4], [], [1]]),
        (Selection(0, "adaptive", 0.2), [[7, 9], [], [1]]),
    ],
)
def test_selection(path, selection, ids):
    selected = AttachedPairs.load(path).select(selection)
    assert [found.tolist() for found, _, _ in selected] == ids


def test_more_pairs_than_were_kept_are_refused(path):
    attached = AttachedPairs.load(path)
    sentence = "--memory-k 4 needs more pairs than the 3 that were kept: run seg-attach again with --keep 4"
    with pytest.raises(AttachedError, match=sentence):
        attached.select(Selection(4))
    assert len(attached.select(Selection(4, "adaptive"))) == 3  # which does not count them


def test_the_fingerprint_is_of_the_pairs_and_of_what_they_are(path, tmp_path):
    fingerprint = AttachedPairs.load(path).fingerprint
    ranked = AttachedPairs.load(path).ranked
    variants = [
        (HEADER | {"kept": 9, "signature": "another"}, ranked),
        (HEADER | {"memory_fingerprint": "cc"}, ranked),
        (HEADER, ranked.select(Selection(2))),
        (HEADER, RankedPairs(ranked.starts, ranked.ids[::-1], ranked.scores, ranked.covering)),
        (HEADER, RankedPairs(ranked.starts, ranked.ids, ranked.scores, 1 - ranked.covering)),
    ]
    found = []
    for number, (header, pairs) in enumerate(variants):
        write_attached(tmp_path / str(number), header, [pairs])
        found.append(AttachedPairs.load(tmp_path / str(number)).fingerprint)
    assert found[0] == fingerprint and len({fingerprint, *found}) == 5


def test_a_stopped_write_leaves_what_was_there(path):
    before = path.read_bytes()

    def stopped():
        yield AttachedPairs.load(path).ranked
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_attached(path, HEADER, stopped())
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1


def test_bad_files_are_refused_in_a_sentence(path):
    with pytest.raises(AttachedError, match="does not exist: run seg-attach"):
        AttachedPairs.load(path.with_name("valid.en-fr.memory"))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(AttachedError, match="is truncated"):
        AttachedPairs.load(path)
    path.write_bytes(content[:30])
    with pytest.raises(AttachedError, match="cannot be read"):
        AttachedPairs.load(path)
    path.write_bytes(b"other" + content)
    with pytest.raises(AttachedError, match="is not an attached file"):
        AttachedPairs.load(path)


def test_other_data_is_refused_in_a_sentence(path):
    attached = AttachedPairs.load(path)
    attached.check("bb", "aa")
    with pytest.raises(AttachedError, match="not made from this split .* run seg-attach again"):
        attached.check("cc", "aa")
    with pytest.raises(AttachedError, match="not made from the memory's pairs .* run seg-attach again"):
        attached.check("bb", "cc")


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


def test_a_damaged_byte_is_noticed(path):
    content = path.read_bytes()
    start = content.index(b"\n", len(b"SEGMEM2\n")) + 1
    for place in range(start, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :])
        with pytest.raises(AttachedError, match="is damaged: run seg-attach again"):
            AttachedPairs.load(path)


def test_a_header_that_lacks_a_field_is_refused(path):
    magic, line, arrays = path.read_bytes().split(b"\n", 2)
    header = json.loads(line)
    for name in sorted(set(header) - {"memory_data"}):
        for wrong in ({k: v for k, v in header.items() if k != name}, header | {name: None}, [header]):
            path.write_bytes(b"\n".join([magic, json.dumps(wrong).encode(), arrays]))
            with pytest.raises(AttachedError, match="has a damaged header: run seg-attach again"):
                AttachedPairs.load(path)
