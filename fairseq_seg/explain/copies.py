"""Wrong copies: words copied from a pair where the pair says something that the sentence does not.

"Type of hyperlink" with the pair "Type of message" becomes "Type de message": "message" was copied from a slot that
translates "message", which the sentence does not have. It is a wrong copy unless the reference has the word, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairseq_seg.explain.records import Explanation

EDGES = re.compile(r"^[\W_]+|[\W_]+$")


@dataclass
class Copies:
    """What one translation copied."""

    words: int
    copied: int  # words that were copied
    symbols: int
    mass: float  # zeta_t p_copy, summed over its symbols
    wrong: list[tuple[str, str]]  # wrong copies, each with the word of the pair's source that it translates


def count_copies(explanation: Explanation, reference: str | None) -> Copies:
    """Count the copies of a translation, and the wrong ones among them."""
    here, right = (words_of(text or "") for text in (explanation.source, reference))
    wrong, copied = [], 0
    for word in explanation.words:
        slot = word.copied_from
        copied += slot is not None
        if slot is None or slot.source is None:
            continue
        text, source = core(word.text), core(slot.source)
        if text and source and source not in here and text not in right:
            wrong.append((word.text, slot.source))
    mass = sum(symbol.copied for symbol in explanation.symbols)
    return Copies(len(explanation.words), copied, len(explanation.symbols), mass, wrong)


def words_of(text: str) -> set[str]:
    """Return the words of a text, for comparison."""
    return {core(word) for word in text.split()}


def core(word: str) -> str:
    """Return a word without the punctuation around it, in small letters."""
    return EDGES.sub("", word).casefold()
