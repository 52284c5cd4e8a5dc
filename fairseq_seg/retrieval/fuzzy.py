"""The fuzzy matching score of Eq. 3 between one sentence and many candidates, and the ranking by it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from fairseq_seg.corpus.selection import rank

# A search engine is asked for this many times the wanted candidates, and the fuzzy score decides which of them stay: in
# a repetitive corpus hundreds of sentences look alike to BM25, and scoring one more costs a thousandth of the search.
OVERFETCH = 3


def as_characters(codes: np.ndarray | Sequence[int]) -> str:
    """Write token ids as a string of one character each, the form that rapidfuzz compares fastest."""
    # surrogatepass: an id may fall on a surrogate's code point, which is an ordinary number here.
    return np.asarray(codes, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


def fuzzy_scores(query: str, candidates: Sequence[str]) -> np.ndarray:
    """Return ``1 - edit distance / max(|X|, |X'|)`` (Eq. 3) of a query X to each candidate X', (C,) float32.

    Both sides come from a `Unit`. Two empty sentences are equal: their score is 1.
    """
    distances = cdist([query], candidates, scorer=Levenshtein.distance, dtype=np.int32)[0]
    longest = np.fromiter(map(len, candidates), dtype=np.int64, count=len(candidates))
    np.maximum(longest, max(len(query), 1), out=longest)
    return (1.0 - distances / longest).astype(np.float32)


def best_matches(query: str, ids: np.ndarray, candidates: Sequence[str], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the `count` best candidates, best first, and their scores; `ids` (C,) break ties."""
    scores = fuzzy_scores(query, candidates)
    order = rank(ids, scores)[:count]
    return order, scores[order]
