"""Eq. 3 against the textbook's edit distance."""

import random

import numpy as np
import pytest

from fairseq_seg.retrieval.fuzzy import as_characters, fuzzy_scores


def literal_score(query: list[int], candidate: list[int]) -> float:
    """Eq. 3 as it is printed, with the edit distance as a dynamic program over all prefixes."""
    rows, columns = len(query), len(candidate)
    distance = [[max(i, j) if 0 in (i, j) else 0 for j in range(columns + 1)] for i in range(rows + 1)]
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            substitution = distance[i - 1][j - 1] + (query[i - 1] != candidate[j - 1])
            distance[i][j] = min(substitution, distance[i - 1][j] + 1, distance[i][j - 1] + 1)
    return 1 - distance[rows][columns] / max(rows, columns)


@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_the_literal_program(seed):
    rng = random.Random(seed)
    # Few symbols, so that sentences share some; among them code points of surrogates and beyond 16 bits.
    symbols = [4, 5, 6, 0xD800, 0xDC00, 0xDFFF, 70000, 1_000_000]

    def sentence():
        return rng.choices(symbols, k=rng.randint(1, 90))

    query, candidates = sentence(), [sentence() for _ in range(60)]
    scores = fuzzy_scores(as_characters(query), [as_characters(candidate) for candidate in candidates])
    expected = [literal_score(query, candidate) for candidate in candidates]
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.array(expected, dtype=np.float32))


def test_ends_of_the_scale():
    assert fuzzy_scores("", ["", "ab"]).tolist() == [1.0, 0.0]
    assert fuzzy_scores("abc", ["abc", "xyz", "", "abcd"]).tolist() == [1.0, 0.0, 0.0, 0.75]
    assert fuzzy_scores("abc", []).shape == (0,)
