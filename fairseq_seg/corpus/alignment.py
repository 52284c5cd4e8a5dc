"""The edit alignment of a sentence with the source of a retrieved pair, and what it says about the pair's slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein, MatchingBlock

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.reserved import ReservedIds


def matching_blocks(sentence: Sequence[int], source: Sequence[int]) -> list[MatchingBlock]:
    """Return which symbols of a sentence X stay in a shortest edit to a pair's source X': size, places a and b."""
    return Levenshtein.editops(sentence, source).as_matching_blocks()


def shared_positions(blocks: Sequence[MatchingBlock], source: Sequence[int]) -> np.ndarray:
    """Return which symbols of a pair's source X' the sentence shares, (S',) bool; unknown symbols are not shared."""
    shared = np.zeros(len(source), dtype=bool)
    for block in blocks:
        shared[block.b : block.b + block.size] = True
    return shared & (np.asarray(source) != UNKNOWN)


class Renumbering:
    """Gives the reserved symbols of a retrieved target Y' the numbers that their tokens have in the sentence X.

    A pair numbers its own tokens: ⟦n1⟧ of X' may stand where X has ⟦n2⟧. What X' and X have in the same place is the
    same thing, so ⟦n1⟧ of Y' is a copy of ⟦n2⟧ for this sentence, and no slot if X has nothing in that place.

    Args:
        source, target: the reserved symbols of the two dictionaries.
    """

    def __init__(self, source: ReservedIds, target: ReservedIds):
        self._source, self._target = source, target
        self._keys: list[int] = source.keys.tolist()
        self._localised: list[bool] = source.localised.tolist()

    def __call__(
        self, sentence: Sequence[int], source: Sequence[int], target: np.ndarray, blocks: Sequence[MatchingBlock]
    ) -> np.ndarray:
        """Return the symbols of the slots of Y', (T',), -1 where there is none.

        Args:
            sentence, source: X and X'. target: Y', (T',). blocks: those of the `classes` of X and X'.
        """
        reserved = np.flatnonzero(self._target.is_reserved[target])
        if not len(reserved):
            return target
        keys, localised = self._keys, self._localised
        found: dict[int, tuple[int, bool, bool]] = {}
        for block in blocks:
            for x, other in zip(sentence[block.a :], source[block.b : block.b + block.size], strict=False):
                if keys[other] >= 0:
                    found.setdefault(keys[other], (keys[x], localised[x], localised[other]))
        symbols = target.copy()
        for place in reserved.tolist():
            symbol = int(target[place])
            key, depends, depended = found.get(int(self._target.keys[symbol]), (-1, False, False))
            # Where the number of X' is digits alone, its form in Y' says nothing about another number.
            form = depends and (bool(self._target.localised[symbol]) or not depended)
            symbols[place] = -1 if key < 0 else self._target.id(key, form, bool(self._target.begins[symbol]))
        return symbols
