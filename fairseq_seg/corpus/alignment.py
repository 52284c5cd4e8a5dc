"""The edit alignment of a sentence with the source of a retrieved pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from fairseq_seg.corpus.dictionary import UNKNOWN


def shared_positions(sentence: Sequence[int], source: Sequence[int]) -> np.ndarray:
    """Return which symbols of a pair's source X' the sentence X shares, (S',) bool; unknown symbols are not shared."""
    shared = np.zeros(len(source), dtype=bool)
    for block in Levenshtein.editops(sentence, source).as_matching_blocks():
        shared[block.b : block.b + block.size] = True
    return shared & (np.asarray(source) != UNKNOWN)
