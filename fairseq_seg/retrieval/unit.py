"""The unit in which sentences are searched and scored: model symbols, or the words that they spell."""

from __future__ import annotations

from itertools import count

import numpy as np

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.sequences import Sequences, blocks
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.retrieval.fuzzy import as_characters

# One character stands for one symbol or word, and Unicode has no more than this. The last one stands for every word
# that no source has: such a word differs from all others whatever its code.
NOWHERE = 0x10FFFF


class SymbolUnit:
    """Model symbols; reserved symbols of a kind are all the same, so that sentences find those with other numbers.

    Args:
        classes: the id that stands for each id, see `ReservedIds`.
    """

    name = "symbol"

    def __init__(self, classes: np.ndarray | None = None):
        self._classes = classes

    def _class(self, symbols: np.ndarray) -> np.ndarray:
        return symbols if self._classes is None else self._classes[symbols]

    def text(self, symbols: np.ndarray) -> str:
        """Return a sentence as the search engine sees it, without unknown symbols, which say nothing."""
        return " ".join(map(str, self._class(symbols[symbols != UNKNOWN]).tolist()))

    def characters(self, symbols: np.ndarray) -> str:
        """Return a source as Eq. 3 and Alg. 1 see it, one character per symbol."""
        return as_characters(self._class(symbols))

    query_characters = characters

    def characters_of_all(self, sentences: Sequences) -> list[str]:
        """Return the `characters` of many sources at once."""
        found: list[str] = []
        for rows in blocks(len(sentences)):
            characters = self.characters(sentences.symbols(rows))
            ends = np.cumsum(sentences.lengths[rows]).tolist()
            found.extend(characters[start:end] for start, end in zip([0, *ends], ends, strict=False))
        return found


class WordUnit:
    """Words that subword symbols spell. Only the words of sources are remembered, so queries never make it grow."""

    name = "word"

    def __init__(self, spelling: Spelling):
        self._begins, self._continued = spelling.boundaries()
        self._classes = classes_of(spelling)
        self._codes: dict[tuple[int, ...], int] = {}
        # A counter and setdefault, so that threads never give two words the same code.
        self._next_code = count()

    def _words(self, symbols: np.ndarray) -> list[tuple[int, ...]]:
        boundary = self._begins[symbols]
        boundary[1:] &= ~self._continued[symbols[:-1]]
        boundary[:1] = False
        if self._classes is not None:
            symbols = self._classes[symbols]
        return [tuple(word.tolist()) for word in np.split(symbols, np.flatnonzero(boundary)) if len(word)]

    def _code(self, word: tuple[int, ...]) -> int:
        code = self._codes.get(word)
        if code is None:
            code = self._codes.setdefault(word, next(self._next_code))
            if code >= NOWHERE:
                raise OverflowError(f"more than {NOWHERE:,} words cannot be told apart")
        return code

    def text(self, symbols: np.ndarray) -> str:
        """Return the words as the ids of their symbols, joined by underscores."""
        return " ".join("_".join(map(str, word)) for word in self._words(symbols) if word != (UNKNOWN,))

    def characters(self, symbols: np.ndarray) -> str:
        """Return a source as Eq. 3 and Alg. 1 see it, one character per word, and remember its words."""
        return as_characters([self._code(word) for word in self._words(symbols)])

    def query_characters(self, symbols: np.ndarray) -> str:
        """Return a query, to be compared with sources whose `characters` have been asked for before."""
        return as_characters([self._codes.get(word, NOWHERE) for word in self._words(symbols)])

    def characters_of_all(self, sentences: Sequences) -> list[str]:
        """Return the `characters` of many sources."""
        return [self.characters(symbols) for symbols in sentences]


Unit = SymbolUnit | WordUnit


def make_unit(name: str, spelling: Spelling) -> Unit:
    """Return the unit of a name."""
    return WordUnit(spelling) if name == "word" else SymbolUnit(classes_of(spelling))


def classes_of(spelling: Spelling) -> np.ndarray | None:
    """Return the id that stands for each id, (V,), None if each stands for itself."""
    return None if spelling.reserved is None else spelling.reserved.classes
