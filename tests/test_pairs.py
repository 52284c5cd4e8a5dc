"""RankedPairs and PairTable against literal loops over the pairs of each sentence."""

import random

import numpy as np
import pytest

from fairseq_seg.corpus.pairs import PairTable, RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SELECTIONS = [
    Selection(k, mode, limit) for k in (0, 1, 3, 99) for mode in ("topk", "adaptive") for limit in (0.0, 0.7, 1.0)
]


def random_rows(seed: int, count: int = 30) -> list[list[tuple[int, float, bool]]]:
    """Pairs (id, score, covering) of sentences, best first; some sentences have none."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        scores = sorted((rng.choice([0.2, 0.5, 0.7, 0.71, 1.0]) for _ in range(rng.randrange(6))), reverse=True)
        rows.append([(rng.randrange(100), float(np.float32(score)), rng.random() < 0.5) for score in scores])
    return rows


def ranked(rows: list[list[tuple[int, float, bool]]]) -> RankedPairs:
    return RankedPairs.from_rows(
        (
            np.array([id for id, _, _ in row], dtype=np.int32),
            np.array([score for _, score, _ in row], dtype=np.float32),
            np.array([covering for _, _, covering in row], dtype=bool),
        )
        for row in rows
    )


def literal(pairs: RankedPairs) -> list[list[tuple[int, float, bool]]]:
    return [list(zip(*(column.tolist() for column in row), strict=True)) for row in pairs]


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_back(seed: int):
    rows = random_rows(seed)
    pairs = ranked(rows)
    assert literal(pairs) == rows and len(pairs) == len(rows)
    assert pairs.counts.tolist() == [len(row) for row in rows]
    assert pairs.ranks.tolist() == [rank for row in rows for rank in range(len(row))]
    assert literal(ranked([])) == [] and len(ranked([])) == 0 and literal(ranked([[], []])) == [[], []]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_selection_is_that_of_each_sentence(selection: Selection):
    rows = random_rows(4)
    expected = []
    for row in rows:
        # A minimum score leaves pairs out first; what remains is selected from as if nothing else were there.
        left = [pair for pair in row if np.float32(pair[1]) >= np.float32(selection.min_score)]
        expected.append(left[: selection.k] if selection.mode == "topk" else [pair for pair in left if pair[2]])
    assert literal(ranked(rows).select(selection)) == expected


def test_a_score_of_the_limit_passes_it():
    """0.7 is not exact in float32, and must pass a limit of 0.7 all the same."""
    pairs = ranked([[(4, np.float32(0.7), True)]])
    assert pairs.select(Selection(1, "topk", 0.7)).ids.tolist() == [4]


def test_another_selection_is_refused():
    with pytest.raises(ValueError, match="choose topk or adaptive"):
        ranked([]).select(Selection(1, "best"))


@pytest.mark.parametrize(
    "wanted", [slice(0, 5), slice(3, 3), slice(7, None), slice(None), slice(28, 99), slice(-4, -1)]
)
def test_some_rows(wanted: slice):
    rows = random_rows(5)
    assert literal(ranked(rows).rows(wanted)) == rows[wanted]


def test_some_pairs():
    rows = random_rows(6)
    wanted = [pair[0] % 2 == 0 for row in rows for pair in row]
    found = ranked(rows).keep(np.array(wanted))
    assert literal(found) == [[pair for pair in row if pair[0] % 2 == 0] for row in rows]


def test_the_table_stays_with_its_pairs():
    table = PairTable(*(Sequences.from_rows([[4], [5]]),) * 2, (Spelling([*SPECIAL, "a", "b"]),) * 2)
    row = np.array([1, 0]), np.ones(2, np.float32), np.ones(2, bool)
    pairs = RankedPairs.from_rows([row], table)
    for derived in (pairs, pairs.rows(slice(0, 1)), pairs.select(Selection(1)), pairs.keep(np.array([True, False]))):
        assert derived.table is table and derived.ids[0] == 1


def test_a_training_set_as_a_table():
    source, target = Sequences.from_rows([[4, 5, 2], [4, 2]]), Sequences.from_rows([[5, 2], [4, 5, 2]])
    table = PairTable(source, target, (Spelling([*SPECIAL, "▁a", "b"]), Spelling([*SPECIAL, "x", "y"])))
    assert (len(table), table.id(1), table.origin(1), table.text(1)) == (2, 1, "train:1", ("a", "x y"))
    assert table.text(0) == ("ab", "y")
    elsewhere = PairTable(source, target, table.spellings, place="../other")
    assert elsewhere.origin(0) == "train:0 (../other)"


def test_pairs_of_memories_as_a_table():
    source = Sequences.from_rows([[4], [5]])
    spelling = Spelling([*SPECIAL, "a", "b"])
    table = PairTable(source, source, (spelling, spelling), "", [7, 8], ["a.mem:7", "train:8"], [("A", "B"), None])
    assert [table.id(pair) for pair in (0, 1)] == [7, 8]
    assert [table.origin(pair) for pair in (0, 1)] == ["a.mem:7", "train:8"]
    assert [table.text(pair) for pair in (0, 1)] == [("A", "B"), ("b", "b")]
