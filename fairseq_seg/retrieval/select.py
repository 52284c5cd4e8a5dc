"""From ranked candidates to a sentence's memory: ranking, top-K and the greedy coverage of Alg. 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rank(ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the order of the candidates: higher score first, lower id first among equal scores."""
    return np.lexsort((ids, -scores))


def greedy_coverage(query: str, candidates: Sequence[str]) -> np.ndarray:
    """Marks the candidates that Alg. 1 selects, shape (C,), bool.

    The candidates come in rank order. A candidate is selected when it raises the share of the query's symbols (repeats
    counted) that occur in a selected source. That share rises exactly when the candidate holds a symbol of the query
    that no selected source holds, so the set of uncovered symbols is all that has to be kept.
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


def choose(
    ids: np.ndarray, scores: np.ndarray, adaptive: np.ndarray, k: int, mode: str = "topk", min_score: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Takes a sentence's memory from its ranked candidates.

    Mode ``topk`` takes the first k; mode ``adaptive`` takes those that Alg. 1 marked and ignores k. In both, candidates
    below min_score are left out; as the ranking is by score, that gives what a selection among the rest would give.
    """
    if mode == "topk":
        wanted = np.arange(len(ids)) < k
    elif mode == "adaptive":
        wanted = adaptive.astype(bool)
    else:
        raise ValueError(f"selection '{mode}' is unknown; choose topk or adaptive")
    # The scores are float32: compare in float32, so that a score of exactly 0.7 passes a limit of 0.7.
    wanted = wanted & (scores >= np.float32(min_score))
    return ids[wanted], scores[wanted]
