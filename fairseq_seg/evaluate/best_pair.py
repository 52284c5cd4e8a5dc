"""The best retrieved pair of each sentence: its score, the bin of the score, and its target as a translation (TM)."""

from __future__ import annotations

import numpy as np

from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling

# Ten bins [0, 0.1) ... [0.9, 1), one for exact matches, and one (-1) for sentences without any pair.
BINS = [("no pair", -1), *((f"{bin / 10:.1f}-{(bin + 1) / 10:.1f}", bin) for bin in range(10)), ("1.0", 10)]


def best_scores(ranked: RankedPairs) -> np.ndarray:
    """Return the best fuzzy score (N,) of each sentence, -1 for one without any pair."""
    best = np.full(len(ranked), -1, dtype=np.float32)
    has_pair = ranked.counts > 0
    best[has_pair] = ranked.scores[ranked.starts[:-1][has_pair]]
    return best


def score_bins(best: np.ndarray) -> np.ndarray:
    """Sort best scores (N,) into `BINS`."""
    # Scores are float32, where 0.7 is slightly less than 0.7: the small addition puts each score into the right bin.
    return np.where(best < 0, -1, np.floor(best.astype(np.float64) * 10 + 1e-5)).astype(int)


def best_pairs(ranked: RankedPairs, side: Sequences, spelling: Spelling) -> list[str]:
    """Return one side of each sentence's best pair as text, empty without any; the target side is the TM baseline."""
    return [spelling.text(side[ids[0]], side.values_of(ids[0])) if len(ids) else "" for ids, _, _ in ranked]
