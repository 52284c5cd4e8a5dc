"""The retriever: candidates of Lucene, exclusion, ranking by the fuzzy score."""

import random

import numpy as np
import pytest

from fairseq_seg.corpus.selection import greedy_coverage
from fairseq_seg.corpus.sequences import Sequences, row_keys
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.retrieval.fuzzy import fuzzy_scores
from fairseq_seg.retrieval.lucene import LuceneIndex, build_index
from fairseq_seg.retrieval.retriever import DistinctPairs, Retriever
from fairseq_seg.retrieval.unit import SymbolUnit, WordUnit

FIRST = 4  # the first id that is not a special symbol


def make_retriever(folder, source, target, candidates=100, exclusion="pair", unit=None):
    unit = unit or SymbolUnit()
    pairs = DistinctPairs(Sequences.from_rows(source), Sequences.from_rows(target))
    build_index(folder / "index", (unit.text(pairs.source[row]) for row in pairs.ids), {})
    engine = LuceneIndex(folder / "index", {}, 1.2, 1.0)
    return Retriever(pairs, engine, unit, unit, candidates, exclusion)


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
    unit = SymbolUnit()
    first: dict[tuple, int] = {}
    for row, pair in enumerate(zip(map(tuple, source), map(tuple, target), strict=True)):
        first.setdefault(pair, row)
    for query, (found, found_scores, covering) in zip(source, retriever.search(source), strict=True):
        sources = [unit.characters(np.array(source[i])) for i in found]
        assert covering.tolist() == greedy_coverage(unit.characters(np.array(query)), sources).tolist()
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
    ranked = retriever.search(source, row_keys(Sequences.from_rows(source), Sequences.from_rows(target)))
    same_source = 0
    for pair, (found, _, _) in zip(pairs, ranked, strict=True):
        assert all(pairs[i] != pair for i in found)
        assert len(found) == 20  # another candidate takes the place of the excluded one
        same_source += sum(source[i] == pair[0] for i in found)
    assert same_source > 100  # the same source with another target stays


def test_exclusion_of_the_source_does_not_starve(tmp_path):
    """A hundred pairs with the query's source come first in Lucene; the others must still be found."""
    source = [[5, 6, 7]] * 100 + [[5, 6, 8], [5, 9]]
    target = [[FIRST + row] for row in range(102)]
    retriever = make_retriever(tmp_path, source, target, candidates=10, exclusion="source")
    [(ids, scores, _)] = retriever.search([source[0]], row_keys(Sequences.from_rows(source[:1])))
    assert ids.tolist() == [100, 101]
    assert scores == pytest.approx([2 / 3, 1 / 3])


def test_odd_queries_get_a_row_each(tmp_path):
    retriever = make_retriever(tmp_path, [[4, 5, 6]], [[4]])
    queries = [[], [3, 3, 3], [9], list(range(4, 5004)), [4, 3, 6], np.array([4, 5, 6])]
    ranked = retriever.search(queries)
    assert [ids.tolist() for ids, _, _ in ranked] == [[], [], [], [0], [0], [0]]
    assert ranked[4][1] == pytest.approx([2 / 3])
    assert ranked[5][1].tolist() == [1.0]


def test_coverage_is_optional(repetitive):
    source, _, retriever = repetitive
    with_coverage, without = (retriever.search(source[:5], cover=cover) for cover in (True, False))
    assert with_coverage.covering.any() and not without.covering.any()
    assert without.ids.tolist() == with_coverage.ids.tolist()


def test_words_are_searched_and_scored(tmp_path):
    unit = WordUnit(Spelling(["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "▁c"]))
    retriever = make_retriever(tmp_path, [[4, 5, 6], [4, 6, 5], [5]], [[4], [5], [6]], unit=unit)
    [(ids, scores, _)] = retriever.search([[4, 5, 6]])
    assert (ids.tolist(), scores.tolist()) == ([0], [1.0])  # the others share symbols, but no word
