"""Select the pairs of a sentence from its ranked candidates: ranking, top-K, and the greedy coverage of Alg. 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Selection(NamedTuple):
    """Which of a sentence's ranked pairs to use."""

    k: int = 2  # how many, in mode topk
    mode: str = "topk"  # or adaptive: those that Alg. 1 picks, however many
    min_score: float = 0.0  # below it, a pair is left out


def rank(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the order of the candidates: higher scores first, lower ids first among equal scores."""
    return np.lexsort((ids, -scores))


def greedy_coverage(query: str, candidates: Sequence[str]) -> np.ndarray:
    """Mark the candidates that Alg. 1 selects, shape (C,), bool.

    The candidates come in rank order. A candidate is selected when it raises the share of the query's symbols (repeats
    counted) that occur in a selected source. That share rises exactly when the candidate holds a symbol of the query
    that no selected source holds, so it is enough to keep the set of uncovered symbols.
    """
    uncovered = set(query)
    selected = np.zeros(len(candidates), dtype=bool)
    for position, candidate in enumerate(candidates):
        if not uncovered:
            break
        if not uncovered.isdisjoint(candidate):
            selected[position] = True
            uncovered.difference_update(candidate)
    return selected


def coverage_bits(query: str, candidates: Sequence[str]) -> np.ndarray:
    """Mark the symbols of a query of length L that occur in each candidate, (C, ceil(L / 8)), a bit per symbol."""
    symbols, places = np.unique(_codes(query), return_inverse=True)
    codes = _codes("".join(candidates))
    rows = np.repeat(np.arange(len(candidates)), [len(candidate) for candidate in candidates])
    nearest = np.minimum(np.searchsorted(symbols, codes), max(len(symbols) - 1, 0))
    found = np.zeros((len(candidates), len(symbols)), dtype=bool)
    if len(symbols):
        shared = symbols[nearest] == codes
        found[rows[shared], nearest[shared]] = True
    return np.packbits(found[:, places], axis=1)


def _codes(characters: str) -> np.ndarray:
    return np.frombuffer(characters.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def greedy_coverage_of_bits(bits: np.ndarray, length: int) -> np.ndarray:
    """Run `greedy_coverage` for a query of some length, with the `coverage_bits` of the candidates in rank order."""
    uncovered = int.from_bytes(np.packbits(np.ones(length, dtype=bool)).tobytes(), "big")
    selected = np.zeros(len(bits), dtype=bool)
    for position, row in enumerate(bits):
        covered = int.from_bytes(row.tobytes(), "big")
        if not uncovered:
            break
        if covered & uncovered:
            selected[position] = True
            uncovered &= ~covered
    return selected
