"""The unit in which sentences are searched and scored: model symbols, or the words that they spell."""

from __future__ import annotations

from itertools import count

import numpy as np

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.sequences import Sequences, blocks
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.retrieval.fuzzy import as_characters

# One character stands for one symbol or word, and Unicode has no more than this.
LARGEST_CODE = 0x10FFFF


class Symbols:
    """Model symbols as they are."""

    name = "symbol"

    def text(self, symbols: np.ndarray) -> str:
        """The sentence as the search engine sees it; unknown symbols are left out, as they tell nothing."""
        return " ".join(map(str, symbols[symbols != UNKNOWN].tolist()))

    def characters(self, symbols: np.ndarray) -> str:
        """The sentence as Eq. 3 and Alg. 1 see it: one character a symbol."""
        return as_characters(symbols)

    def characters_of_all(self, sentences: Sequences) -> list[str]:
        """As `characters` for each sentence, many at once."""
        found = []
        for rows in blocks(len(sentences)):
            characters = as_characters(sentences.symbols(rows))
            ends = np.cumsum(sentences.lengths[rows]).tolist()
            found.extend(characters[start:end] for start, end in zip([0, *ends], ends, strict=False))
        return found


class Words:
    """Words that subword symbols spell."""

    name = "word"

    def __init__(self, spelling: Spelling):
        self._begins, self._continued = spelling.boundaries()
        self._codes: dict[tuple[int, ...], int] = {}
        # A counter and setdefault, so that threads never give two words the same code.
        self._next_code = count()

    def _words(self, symbols: np.ndarray) -> list[tuple[int, ...]]:
        boundary = self._begins[symbols]
        boundary[1:] &= ~self._continued[symbols[:-1]]
        boundary[:1] = False
        return [tuple(word.tolist()) for word in np.split(symbols, np.flatnonzero(boundary)) if len(word)]

    def text(self, symbols: np.ndarray) -> str:
        return " ".join("_".join(map(str, word)) for word in self._words(symbols) if word != (UNKNOWN,))

    def characters(self, symbols: np.ndarray) -> str:
        codes = [self._codes.setdefault(word, next(self._next_code)) for word in self._words(symbols)]
        if codes and max(codes) > LARGEST_CODE:
            raise OverflowError(f"more than {LARGEST_CODE:,} words cannot be told apart")
        return as_characters(codes)

    def characters_of_all(self, sentences: Sequences) -> list[str]:
        return [self.characters(symbols) for symbols in sentences]


def make_unit(name: str, spelling: Spelling) -> Symbols | Words:
    """Return the unit of a name."""
    return Words(spelling) if name == "word" else Symbols()
