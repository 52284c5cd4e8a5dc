"""Subwords: split text into symbols, and join symbols into text.

Three kinds are supported: sentencepiece (▁ begins a word), subword-nmt (@@ continues one), and none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.dictionary import EOS, SPECIAL, UNKNOWN
from fairseq_seg.errors import SegError

WORD_START = "\u2581"  # ▁, sentencepiece's visible space, at the head of every piece that starts a word
CONTINUED = "@@"


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

    def read(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of a sentence of ids, without eos."""
        return [self.symbols[id] for id in map(int, ids) if id != EOS]

    def text(self, ids: Iterable[int]) -> str:
        """Return a sentence of ids as readable text."""
        return join_subwords(" ".join(self.read(ids)), self.kind)

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


class SubwordModel:
    """A sentencepiece model."""

    def __init__(self, path: Path):
        import sentencepiece

        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError):
            raise SegError(
                f"{path} is missing or is not a sentencepiece model: train one with `seg-subword train`."
            ) from None

    def cut(self, text: str) -> list[str]:
        """Split text into symbols; any run of white space counts as one space."""
        pieces = self._pieces.encode(one_blank(text), out_type=str)
        # Joined and split again, because the piece of an unknown character may contain white space.
        return " ".join(pieces).split()

    def cut_into_ids(self, texts: Sequence[str]) -> Iterator[list[int] | None]:
        """Split many texts at once, on all cores, into the model's ids; None for a text with an unknown character."""
        unknown = self._pieces.unk_id()
        for ids in self._pieces.encode([one_blank(text) for text in texts], out_type=int, num_threads=-1):
            yield None if unknown in ids else ids

    def pieces(self) -> list[str]:
        """List all pieces in id order."""
        return [self._pieces.id_to_piece(number) for number in range(self._pieces.get_piece_size())]


class SymbolEncoder:
    """Turns text into symbol ids, exactly as `seg-subword encode` and fairseq do."""

    def __init__(self, symbols: Sequence[str], model: SubwordModel | None):
        """Take the dictionary's symbols and a subword model; without one, texts are split at spaces."""
        # A text must not contain "end of sentence": anything that looks like a special symbol is an unknown word.
        self._ids = {symbol: number for number, symbol in enumerate(symbols) if number >= len(SPECIAL)}
        self._model = model
        self._by_piece: np.ndarray | None = None  # the id of each of the model's pieces, made when many are encoded

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of a text's symbols (int32), without eos; symbols not in the dictionary are unk."""
        words = text.split() if self._model is None else self._model.cut(text)
        return np.array([self._ids.get(word, UNKNOWN) for word in words], dtype=np.int32)

    def encode_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Run `encode` for many texts, in a fraction of the time."""
        if self._model is None:
            return [self.encode(text) for text in texts]
        if self._by_piece is None:
            pieces = self._model.pieces()
            self._by_piece = np.array([self._ids.get(piece, UNKNOWN) for piece in pieces], dtype=np.int32)
        found = self._model.cut_into_ids(texts)
        return [
            self.encode(text) if ids is None else self._by_piece[np.array(ids, dtype=np.int32)]
            for text, ids in zip(texts, found, strict=True)
        ]

    def known_share(self) -> float:
        """Return the share of the subword model's pieces that the dictionary has, 1.0 without a model."""
        if self._model is None:
            return 1.0
        pieces = self._model.pieces()
        return sum(piece in self._ids for piece in pieces) / len(pieces)
