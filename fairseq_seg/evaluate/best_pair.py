"""The best retrieved pair of each sentence: its score, the bin of the score, and its target as a translation (TM)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..data.subwords import detokenize
from ..retrieval.sequences import Sequences

Row = tuple[np.ndarray, np.ndarray, np.ndarray]  # of an attached file: ids, scores and marks of Alg. 1

# Ten bins of [0, 0.1) ... [0.9, 1), one of the exact sources, and one (-1) of sentences without any pair.
BINS = [("no pair", -1), *((f"{bin / 10:.1f}-{(bin + 1) / 10:.1f}", bin) for bin in range(10)), ("1.0", 10)]


def best_scores(rows: Iterable[Row]) -> np.ndarray:
    """The best fuzzy score (N,) of each sentence, -1 for one without any pair."""
    return np.array([scores[0] if len(scores) else -1.0 for _, scores, _ in rows], dtype=np.float32)


def score_bins(best: np.ndarray) -> np.ndarray:
    """Sorts best scores (N,) into `BINS`."""
    # Scores are float32, where 0.7 lies below 0.7: a hair more puts a score into the bin that its digits say.
    return np.where(best < 0, -1, np.floor(best.astype(np.float64) * 10 + 1e-5)).astype(int)


def best_pairs(rows: Iterable[Row], side: Sequences, dictionary: list[str], subword: str) -> list[str]:
    """One side of each sentence's best pair as text, empty without any pair; the target side is the TM baseline."""
    return [detokenize(side[ids[0]], dictionary, subword) if len(ids) else "" for ids, _, _ in rows]
