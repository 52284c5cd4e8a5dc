"""The retriever: candidates of Lucene, exclusion, ranking by the fuzzy score."""

import random

import numpy as np
import pytest

from fairseq_seg.corpus.sequences import ROW_BLOCK, Sequences, row_keys
from fairseq_seg.retrieval.fuzzy import as_characters, fuzzy_scores
from fairseq_seg.retrieval.lucene import LuceneIndex, build_index
from fairseq_seg.retrieval.retriever import Memory, Retriever
from fairseq_seg.retrieval.unit import Symbols, Words

FIRST = 4  # the first id that is no special symbol


def make_retriever(folder, source, target, candidates=100, exclusion="pair", unit=None):
    unit = unit or Symbols()
    memory = Memory(Sequences.from_rows(source), Sequences.from_rows(target))
    build_index(folder / "index", (unit.text(memory.source[row]) for row in memory.ids), {})
    engine = LuceneIndex(folder / "index", {}, 1.2, 1.0)
    return Retriever(memory, engine, unit, unit, candidates, exclusion)


def random_corpus(count, seed=1):
    """Short sentences of few symbols, so that sources and whole pairs repeat."""
    rng = random.Random(seed)
    source = [rng.choices(range(FIRST, FIRST + 6), k=rng.randint(1, 4)) for _ in range(count)]
    target = [rng.choices(range(FIRST, FIRST + 2), k=1) for _ in range(count)]
    return source, target


@pytest.fixture(scope="module")
def repetitive(tmp_path_factory):
    source, target = random_corpus(400)
    return source, target, make_retriever(tmp_path_factory.mktemp("repetitive"), source, target, candidates=20)


def test_scores_ranks_and_distinct_pairs(repetitive):
    source, target, retriever = repetitive
    ids, scores = retriever.search(source)
    unit = Symbols()
    first: dict[tuple, int] = {}
    for row, pair in enumerate(zip(map(tuple, source), map(tuple, target), strict=True)):
        first.setdefault(pair, row)
    for query, found, found_scores in zip(source, ids, scores, strict=True):
        sources = [unit.characters(np.array(source[i])) for i in found]
        np.testing.assert_array_equal(found_scores, fuzzy_scores(unit.characters(np.array(query)), sources))
        assert list(zip(-found_scores, found, strict=True)) == sorted(zip(-found_scores, found, strict=True))
        pairs = [(tuple(source[i]), tuple(target[i])) for i in found]
        assert len(set(pairs)) == len(pairs) == 20
        # Of identical pairs the first one stands for all.
        assert [first[pair] for pair in pairs] == found.tolist()


def test_neither_the_example_nor_its_copies(repetitive):
    source, target, retriever = repetitive
    pairs = list(zip(source, target, strict=True))
    assert sum(pairs.count(pair) > 1 for pair in pairs) > 100  # there are copies to be excluded
    ids, _ = retriever.search(source, row_keys(Sequences.from_rows(source), Sequences.from_rows(target)))
    same_source = 0
    for pair, found in zip(pairs, ids, strict=True):
        assert all(pairs[i] != pair for i in found)
        assert len(found) == 20  # another candidate takes the place of the excluded one
        same_source += sum(source[i] == pair[0] for i in found)
    assert same_source > 100  # the same source with another target stays


def test_exclusion_of_the_source_does_not_starve(tmp_path):
    """A hundred pairs with the query's source come first in Lucene; the others must still be found."""
    source = [[5, 6, 7]] * 100 + [[5, 6, 8], [5, 9]]
    target = [[FIRST + row] for row in range(102)]
    retriever = make_retriever(tmp_path, source, target, candidates=10, exclusion="source")
    ids, scores = retriever.search([source[0]], row_keys(Sequences.from_rows(source[:1])))
    assert ids[0].tolist() == [100, 101]
    assert scores[0] == pytest.approx([2 / 3, 1 / 3])


def test_odd_queries_get_a_row_each(tmp_path):
    retriever = make_retriever(tmp_path, [[4, 5, 6]], [[4]])
    queries = [[], [3, 3, 3], [9], list(range(4, 5004)), [4, 3, 6], np.array([4, 5, 6])]
    ids, scores = retriever.search(queries)
    assert [found.tolist() for found in ids] == [[], [], [], [0], [0], [0]]
    assert scores[4] == pytest.approx([2 / 3])
    assert scores[5].tolist() == [1.0]


def test_words_are_put_together():
    pieces = Words(["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "▁c"])
    assert pieces.text(np.array([4, 5, 5, 6, 3, 4])) == "4_5_5 6 4"
    one, two, three = (pieces.characters(np.array(row)) for row in ([4, 5, 6], [6, 4, 5], [4, 6]))
    assert (len(one), len(two), len(three)) == (2, 2, 2)
    assert one == two[::-1] and one[1] == three[1] and one[0] != three[0]
    continued = Words(["<s>", "<pad>", "</s>", "<unk>", "a@@", "b"])
    assert continued.text(np.array([4, 4, 5, 5, 4])) == "4_4_5 5 4"
    assert Words(["<s>", "<pad>", "</s>", "<unk>", "a", "b"]).text(np.array([4, 5, 5])) == "4 5 5"
    assert pieces.text(np.array([], dtype=int)) == pieces.characters(np.array([], dtype=int)) == ""


def test_words_are_searched_and_scored(tmp_path):
    unit = Words(["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "▁c"])
    retriever = make_retriever(tmp_path, [[4, 5, 6], [4, 6, 5], [5]], [[4], [5], [6]], unit=unit)
    ids, scores = retriever.search([[4, 5, 6]])
    assert (ids[0].tolist(), scores[0].tolist()) == ([0], [1.0])  # the others share symbols, but no word


def test_row_keys_tell_sides_apart():
    left = row_keys(Sequences.from_rows([[4, 5]]), Sequences.from_rows([[6]]))
    right = row_keys(Sequences.from_rows([[4]]), Sequences.from_rows([[5, 6]]))
    assert left != right
    with_eos = row_keys(Sequences.from_rows([[4, 5, 2]]), Sequences.from_rows([[6, 2]]))
    assert left == with_eos


def test_blocks_of_rows_give_what_each_row_gives():
    generator = np.random.default_rng(1)
    rows = [generator.integers(4, 9, generator.integers(0, 4)).tolist() for _ in range(2 * ROW_BLOCK + 3)]
    sequences = Sequences.from_rows(rows)
    assert Symbols().characters_of_all(sequences) == [as_characters(row) for row in rows]
    key_of = {}
    for row, key in zip(map(tuple, rows), row_keys(sequences).tolist(), strict=True):
        assert key_of.setdefault(row, key) == key
    assert len(set(key_of.values())) == len(key_of)
