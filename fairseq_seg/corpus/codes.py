"""Inline codes: the markup within a sentence, as short tokens in its text and the original codes beside it.

    Press <g1>F1</g1> for <x2/>.        with {"<g1>": "<bpt i='1'>&lt;b&gt;</bpt>", "</g1>": ..., "<x2/>": ...}

`<gN>` and `</gN>` enclose a text, `<xN/>` stands alone. A token has the same number in source and target if it stands
for the same code. A text that merely looks like a token has no code, and no code gets its number.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

TOKEN = re.compile(r"</?g[1-9]\d*>|<x[1-9]\d*/>")


class Code(NamedTuple):
    """A code of a document: `key` is the same in source and target, `original` is what the document has."""

    kind: Literal["open", "close", "alone"]
    key: str
    original: str


Pieces = Sequence[str | Code]


class CodedText(NamedTuple):
    """A text with tokens, and the original of each token that stands for a code."""

    text: str
    codes: dict[str, str]


def number_codes(*sides: Pieces) -> list[CodedText]:
    """Turn the codes of a source, and of what translates it, into tokens; equal keys get equal numbers."""
    if not any(isinstance(piece, Code) for side in sides for piece in side):
        return [CodedText("".join(map(str, side)), {}) for side in sides]
    literal = {token for side in sides for piece in side if isinstance(piece, str) for token in TOKEN.findall(piece)}
    taken = {int(number) for token in literal for number in re.findall(r"\d+", token)}
    free = (number for number in itertools.count(1) if number not in taken)
    numbers: dict[tuple[str, str, int], int] = {}

    def number(letter: str, key: str, occurrence: int) -> int:
        place = letter, key, occurrence
        if place not in numbers:
            numbers[place] = next(free)
        return numbers[place]

    texts = []
    for side in sides:
        parts, codes = [], {}
        seen: Counter[tuple[str, str]] = Counter()
        is_open: dict[str, list[int]] = {}
        closers = Counter(piece.key for piece in side if isinstance(piece, Code) and piece.kind == "close")
        for piece in side:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            if piece.kind == "open" and closers[piece.key] > len(is_open.get(piece.key, ())):
                seen["g", piece.key] += 1
                is_open.setdefault(piece.key, []).append(number("g", piece.key, seen["g", piece.key]))
                token = f"<g{is_open[piece.key][-1]}>"
            elif piece.kind == "close" and is_open.get(piece.key):
                closers[piece.key] -= 1
                token = f"</g{is_open[piece.key].pop()}>"
            else:  # also one half of a pair, whose other half is in another sentence
                closers[piece.key] -= piece.kind == "close"
                key = f"{piece.kind} {piece.key}"
                seen["x", key] += 1
                token = f"<x{number('x', key, seen['x', key])}/>"
            parts.append(token)
            codes[token] = piece.original
        texts.append(CodedText("".join(parts), codes))
    return texts


def restore_codes(text: str, codes: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
    """Put the originals back in place of their tokens, and escape all other text as the document needs it."""
    parts, end = [], 0
    for match in TOKEN.finditer(text):
        if match[0] in codes:
            parts += [escape(text[end : match.start()]), codes[match[0]]]
            end = match.end()
    return "".join([*parts, escape(text[end:])])


def without_codes(text: str) -> str:
    """Take the tokens out of a text; a blank replaces one that stands alone between two words."""
    if "<" not in text:
        return text
    parts, end = [], 0
    for match in TOKEN.finditer(text):
        parts.append(text[end : match.start()])
        end = match.end()
        before, after = text[match.start() - 1 : match.start()], text[end : end + 1]
        if match[0].startswith("<x") and before.isalnum() and after.isalnum():
            parts.append(" ")
    return "".join([*parts, text[end:]])


def tokens_of(text: str) -> list[str]:
    """List the tokens of a text in order."""
    return TOKEN.findall(text) if "<" in text else []


def are_balanced(tokens: Iterable[str]) -> bool:
    """Tell whether every `<gN>` is closed, in the order in which they were opened."""
    is_open: list[str] = []
    for token in tokens:
        if token.startswith("<g"):
            is_open.append(token[2:])
        elif token.startswith("</") and (not is_open or is_open.pop() != token[3:]):
            return False
    return not is_open
