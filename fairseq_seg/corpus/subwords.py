"""Subwords: split text into symbols, and join symbols into text.

Three kinds are supported: sentencepiece (▁ begins a word), subword-nmt (@@ continues one), and none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_seg.corpus.dictionary import EOS, SPECIAL, UNKNOWN
from fairseq_seg.corpus.protection import ProtectedText, Protection
from fairseq_seg.corpus.reserved import ReservedIds, parse, with_value
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.errors import SegError

WORD_START = "\u2581"  # ▁, sentencepiece's visible space, at the head of every piece that starts a word
CONTINUED = "@@"
# White space at which a line of symbols is split; no-break spaces, which numbers have, stay.
SPLITTING = re.compile("[ \t\n\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")


def detect_subword(dictionary: Iterable[str]) -> str:
    """Detect from a dictionary how its text was split into symbols."""
    dictionary = list(dictionary)
    if any(symbol.startswith(WORD_START) for symbol in dictionary):
        return "sentencepiece"
    return CONTINUED if any(symbol.endswith(CONTINUED) for symbol in dictionary) else "none"


def join_subwords(text: str, kind: str) -> str:
    """Turn a sentence of symbols, separated by spaces, into readable text."""
    if kind == "sentencepiece":
        return text.replace(" ", "").replace(WORD_START, " ").strip()
    return f"{text} ".replace(f"{CONTINUED} ", "").strip() if kind == CONTINUED else text


def has_subwords(lines: Iterable[str], kind: str) -> bool:
    """Return whether lines still contain subword marks."""
    mark = {"sentencepiece": WORD_START, CONTINUED: CONTINUED}.get(kind)
    return mark is not None and any(mark in line for line in lines)


def one_blank(line: str) -> str:
    """Replace every run of white space by one space: fairseq would split a symbol at white space."""
    return " ".join(line.split())


class Spelling:
    """The words that the symbols of a dictionary spell.

    Args:
        symbols: all symbols in the order of their ids, the special ones first (a fairseq Dictionary's `symbols`).
        kind: one of `SUBWORD_KINDS`; detected from the symbols by default.
    """

    def __init__(self, symbols: Sequence[str], kind: str | None = None):
        self.symbols = symbols
        self.kind = kind or detect_subword(symbols[len(SPECIAL) :])

    @cached_property
    def reserved(self) -> ReservedIds | None:
        """The reserved symbols, None if texts are not protected."""
        return ReservedIds.of(self.symbols)

    def read(self, ids: Iterable[int], values: Sequence[str] | None = None) -> list[str]:
        """Return the symbols of a sentence of ids, without eos, and with the values of reserved ones in their place."""
        symbols = [self.symbols[id] for id in map(int, ids) if id != EOS]
        if not values:
            return symbols
        left = iter(values)
        return [symbol if (found := parse(symbol)) is None else shown(next(left), found.begins) for symbol in symbols]

    def text(self, ids: Iterable[int], values: Sequence[str] | None = None) -> str:
        """Return a sentence of ids as readable text; without `values`, reserved symbols stay."""
        symbols = self.read(ids)
        return spell(symbols, values) if values else join_subwords(" ".join(symbols), self.kind)

    def line(self, ids: Iterable[int], values: Sequence[str] | None = None) -> str:
        """Return a sentence of ids as a line of symbols, for fairseq's commands: reserved ones carry their value."""
        symbols = self.read(ids)
        return " ".join(Cut(symbols, list(values)).with_values() if values else symbols)

    def texts(self, sentences: Sequences) -> Iterator[str]:
        """Return all sentences as readable text, with their own values."""
        return (self.text(ids, sentences.values_of(row)) for row, ids in enumerate(sentences))

    def words(self, symbols: list[str]) -> list[tuple[str, list[int]]]:
        """Return each word of a sentence with the positions of its symbols."""
        words: list[list[int]] = []
        for position, symbol in enumerate(symbols):
            if position and not self._begins(symbols[position - 1], symbol):
                words[-1].append(position)
            else:
                words.append([position])
        spelled = [(join_subwords(" ".join(symbols[place] for place in word), self.kind), word) for word in words]
        return [(text, word) for text, word in spelled if text]  # a lone ▁ spells nothing

    def _begins(self, before: str, symbol: str) -> bool:
        """Return whether a symbol begins a word, given the one before it."""
        if self.kind == "sentencepiece":
            return symbol.startswith(WORD_START)
        return self.kind == "none" or not before.endswith(CONTINUED)

    def boundaries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each id (V,) whether it begins a word, and whether the next symbol continues its word."""
        special = np.arange(len(self.symbols)) <= UNKNOWN
        begins = np.array([self._begins("", symbol) for symbol in self.symbols], dtype=bool) | special
        continued = np.array([not self._begins(symbol, WORD_START) for symbol in self.symbols], dtype=bool)
        return begins, continued & ~special


def shown(value: str, begins: bool) -> str:
    """Write the value of a reserved symbol as a symbol of sentencepiece."""
    return WORD_START * begins + SPLITTING.sub(WORD_START, value)


def spell(symbols: Iterable[str], values: Iterable[str]) -> str:
    """Join sentencepiece's symbols into text, with the values of reserved ones in their place, to the letter."""
    left = iter(values)
    parts = (
        symbol.replace(WORD_START, " ") if (found := parse(symbol)) is None else " " * found.begins + next(left)
        for symbol in symbols
    )
    return "".join(parts).strip()


class Cut(NamedTuple):
    """A text as symbols, and the values of the reserved symbols among them, in order."""

    symbols: list[str]
    values: list[str]

    def with_values(self) -> list[str]:
        """Return the symbols; reserved ones carry their value."""
        left = iter(self.values)
        return [with_value(symbol, next(left)) if parse(symbol) else symbol for symbol in self.symbols]


class SubwordModel:
    """A sentencepiece model; `protection` says which tokens of a text become reserved symbols, if any do."""

    def __init__(self, path: Path):
        import sentencepiece

        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError):
            raise SegError(
                f"{path} is missing or is not a sentencepiece model: train one with `seg-subword train`."
            ) from None
        self.path = path
        self.protection = Protection.of(self.pieces())

    def cut(self, text: str) -> list[str]:
        """Split a source text into symbols; any run of white space counts as one space."""
        return self.cut_source(text).symbols

    def cut_source(self, text: str) -> Cut:
        """Split a source text into symbols, and return what reserved ones stand for."""
        return self._cut(self.protected_source(text))

    def cut_target(self, text: str, source: str, of_source: Protection | None) -> Cut:
        """Split a target text into symbols: tokens that the source text has, protected as it says, become reserved."""
        return self._cut(self.protected_target(text, source, of_source))

    def protected_source(self, text: str) -> ProtectedText:
        """Put reserved symbols in place of a source text's tokens."""
        return ProtectedText(text, [], []) if self.protection is None else self.protection.source(text)

    def protected_target(self, text: str, source: str, of_source: Protection | None) -> ProtectedText:
        """Put reserved symbols in place of the tokens of a target text that the source text has."""
        if self.protection is None or of_source is None:
            return ProtectedText(text, [], [])
        return self.protection.target(text, source, of_source)

    def _cut(self, protected: ProtectedText) -> Cut:
        pieces = self._pieces.encode(one_blank(protected.text), out_type=str)
        # Joined and split again, because the piece of an unknown character may contain white space.
        symbols = " ".join(pieces).split()
        if protected.literals:
            assert self.protection is not None
            name, literals = self.protection.name, iter(protected.literals)
            symbols = [x for symbol in symbols for x in (next(literals) if symbol == name else [symbol])]
        return Cut(symbols, protected.values)

    def cut_into_ids(self, texts: Sequence[ProtectedText]) -> Iterator[list[int] | None]:
        """Split many texts at once, on all cores, into the model's ids.

        It is None for a text with an unknown character, or with one that looks like a reserved symbol.
        """
        unknown = self._pieces.unk_id()
        cut = self._pieces.encode([one_blank(protected.text) for protected in texts], out_type=int, num_threads=-1)
        for ids, protected in zip(cut, texts, strict=True):
            yield None if unknown in ids or protected.literals else ids

    def pieces(self) -> list[str]:
        """List all pieces in id order."""
        return [self._pieces.id_to_piece(number) for number in range(self._pieces.get_piece_size())]


def check_protection(symbols: Sequence[str], model: SubwordModel, dictionary: object) -> None:
    """Refuse a subword model that protects other tokens than a dictionary's symbols say."""
    own, given = Protection.of(symbols), model.protection
    if own != given:
        less, more = (model.path, dictionary) if given is None else (dictionary, model.path)
        reason = f"{more} has protected tokens and {less} has not"
        if own is not None and given is not None:
            reason = f"{dictionary} and {model.path} protect different tokens"
        raise SegError(f"{reason}: name the subword model that the data was encoded with.")


class SymbolEncoder:
    """Turns text into symbol ids, exactly as `seg-subword encode` and fairseq do."""

    def __init__(self, symbols: Sequence[str], model: SubwordModel | None):
        """Take the dictionary's symbols and a subword model; without one, texts are split at spaces."""
        # A text must not contain "end of sentence": anything that looks like a special symbol is an unknown word.
        self._ids = {symbol: number for number, symbol in enumerate(symbols) if number >= len(SPECIAL)}
        self._model = model
        self._by_piece: np.ndarray | None = None  # the id of each of the model's pieces, made when many are encoded

    @property
    def protection(self) -> Protection | None:
        """Which tokens become reserved symbols."""
        return None if self._model is None else self._model.protection

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a source text's symbols (int32), without eos; symbols not in the dictionary are unk."""
        return self.ids(text.split() if self._model is None else self._model.cut(text))

    def encode_target(self, text: str, source: str, of_source: Protection | None) -> np.ndarray:
        """Return the ids of a target text's symbols, see `SubwordModel.cut_target`."""
        return self.ids(text.split() if self._model is None else self._model.cut_target(text, source, of_source)[0])

    def ids(self, symbols: Iterable[str]) -> np.ndarray:
        """Return the ids of symbols (int32); symbols not in the dictionary are unk."""
        return np.array([self._ids.get(symbol, UNKNOWN) for symbol in symbols], dtype=np.int32)

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Run `encode` for many texts, in a fraction of the time."""
        if self._model is None:
            return [self.encode(text) for text in texts]
        found = self._cut_all([self._model.protected_source(text) for text in texts])
        return [self.encode(text) if ids is None else ids for text, ids in zip(texts, found, strict=True)]

    def encode_all_targets(
        self, texts: Sequence[str], sources: Sequence[str], of_source: Protection | None
    ) -> list[np.ndarray]:
        """Run `encode_target` for many texts, in a fraction of the time."""
        pairs = list(zip(texts, sources, strict=True))
        if self._model is None:
            return [self.encode_target(*pair, of_source) for pair in pairs]
        found = self._cut_all([self._model.protected_target(*pair, of_source) for pair in pairs])
        return [
            self.encode_target(*pair, of_source) if ids is None else ids for pair, ids in zip(pairs, found, strict=True)
        ]

    def _cut_all(self, texts: Sequence[ProtectedText]) -> list[np.ndarray | None]:
        assert self._model is not None
        if self._by_piece is None:
            pieces = self._model.pieces()
            self._by_piece = np.array([self._ids.get(piece, UNKNOWN) for piece in pieces], dtype=np.int32)
        found = self._model.cut_into_ids(texts)
        return [None if ids is None else self._by_piece[np.array(ids, dtype=np.int32)] for ids in found]

    def known_share(self) -> float:
        """Return the share of the subword model's pieces that the dictionary has, 1.0 without a model."""
        if self._model is None:
            return 1.0
        pieces = self._model.pieces()
        return sum(piece in self._ids for piece in pieces) / len(pieces)
