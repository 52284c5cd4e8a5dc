"""The ranking and Alg. 1."""

import random
from fractions import Fraction

import numpy as np
import pytest

from fairseq_seg.corpus.selection import coverage_bits, greedy_coverage, greedy_coverage_of_bits, rank


def literal_algorithm_1(query: str, candidates: list[str]) -> list[bool]:
    """Alg. 1 line by line, with the union that its line 8 leaves out."""
    selected: list[str] = []
    marks = []
    coverage = Fraction(0)
    for candidate in candidates:
        keys = set().union(*selected, candidate)
        new_coverage = Fraction(sum(symbol in keys for symbol in query), max(len(query), 1))
        marks.append(new_coverage > coverage)
        if new_coverage > coverage:
            coverage = new_coverage
            selected.append(candidate)
    return marks


@pytest.mark.parametrize("seed", range(50))
def test_greedy_coverage_equals_the_literal_algorithm(seed):
    rng = random.Random(seed)
    query = "".join(rng.choices("abcdefghij", k=rng.randint(0, 12)))
    candidates = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(0, 4))) for _ in range(15)]
    assert greedy_coverage(query, candidates).tolist() == literal_algorithm_1(query, candidates)


@pytest.mark.parametrize(
    ("query", "candidates", "marks"),
    [
        ("abcd", ["ab", "ab", "bc", "xyz", "d", "a"], [1, 0, 1, 0, 1, 0]),
        ("aab", ["xa", "xb"], [1, 1]),
        ("ab", ["ba", "ab"], [1, 0]),  # all is covered at once
        ("ab", ["xy"], [0]),  # a candidate that covers nothing is never selected
        ("", ["ab"], [0]),
        ("ab", [], []),
    ],
)
def test_greedy_coverage_by_hand(query, candidates, marks):
    assert greedy_coverage(query, candidates).tolist() == marks


def test_rank_is_by_score_and_then_by_id():
    ids = np.array([7, 3, 9, 1])
    scores = np.array([0.5, 0.5, 0.9, 0.1], dtype=np.float32)
    assert ids[rank(ids, scores)].tolist() == [9, 3, 7, 1]


def test_bits_select_what_the_texts_select():
    """Queries of up to 40 symbols, which take several bytes, with repeats; some candidates share nothing."""
    rng = random.Random(3)
    for _ in range(200):
        query = "".join(rng.choices("abcdefghijklmnop\U0010ffff", k=rng.randint(0, 40)))
        candidates = ["".join(rng.choices("abcdefghijklmnopqrstuvw", k=rng.randint(0, 9))) for _ in range(20)]
        bits = coverage_bits(query, candidates)
        assert bits.shape == (20, -(-len(query) // 8)) and bits.dtype == np.uint8
        selected = greedy_coverage_of_bits(bits, len(query))
        assert selected.tolist() == greedy_coverage(query, candidates).tolist()
    assert coverage_bits("abc", []).shape == (0, 1)
