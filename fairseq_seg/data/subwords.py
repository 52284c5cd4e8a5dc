"""Puts subwords together again: sentencepiece's (▁ begins a word), subword-nmt's (@@ goes on), or none."""

from __future__ import annotations

from collections.abc import Iterable

KINDS = ("sentencepiece", "@@", "none")


def detect_subword(dictionary: Iterable[str]) -> str:
    """Tells from a dictionary how its text was cut into symbols."""
    dictionary = list(dictionary)
    if any(symbol.startswith("▁") for symbol in dictionary):
        return "sentencepiece"
    return "@@" if any(symbol.endswith("@@") for symbol in dictionary) else "none"


def join_subwords(text: str, subword: str) -> str:
    """A sentence of symbols, with spaces between them, as people read it."""
    if subword == "sentencepiece":
        return text.replace(" ", "").replace("▁", " ").strip()
    return f"{text} ".replace("@@ ", "").strip() if subword == "@@" else text


def detokenize(symbols: Iterable[int], dictionary: list[str], subword: str) -> str:
    """A sentence of ids as people read it."""
    return join_subwords(" ".join(dictionary[symbol] for symbol in symbols), subword)
