"""Cut a text into what is translated and what stays: lines of plain text, or the text between the tags of HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from typing import NamedTuple

# Their content is not for readers.
SILENT = ("script", "style")


class Piece(NamedTuple):
    """A part of a text: a sentence or paragraph to translate, or what stays as it is."""

    text: str
    translated: bool


def cut_text(text: str) -> list[Piece]:
    """Cut plain text into its lines; line breaks and blanks around them stay."""
    return [
        Piece(part, bool(part.strip()))
        for line in re.split(r"(\n+)", text)
        for part in re.fullmatch(r"(\s*)(.*?)(\s*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
        if part
    ]


def cut_html(text: str) -> list[Piece]:
    """Cut HTML into tags, which stay, and the text between them, without entities."""
    pieces = []
    for part, is_text in split_markup(text):
        if is_text:
            pieces += [Piece(unescape(text) if inner else text, inner) for text, inner in cut_text(part)]
        else:
            pieces.append(Piece(part, False))
    return pieces


def split_markup(text: str) -> Iterator[tuple[str, bool]]:
    """Iterate over tags, comments and scripts (False) and the text between them (True), in linear time."""
    place = 0
    while place < len(text):
        start = text.find("<", place)
        end = -1 if start < 0 else end_of_tag(text, start)
        if end < 0:  # no more tags
            yield text[place:], True
            return
        if start > place:
            yield text[place:start], True
        yield text[start:end], False
        place = end


def end_of_tag(text: str, start: int) -> int:
    """Return where the markup at a place ends; -1 if it is none."""
    if text.startswith("<!--", start):
        end = text.find("-->", start)
        return len(text) if end < 0 else end + 3
    end = text.find(">", start) + 1
    name = re.compile(r"<([a-z]+)\b", re.IGNORECASE).match(text, start)
    if name and name[1].lower() in SILENT and end:
        closing = re.compile(f"</{name[1]}[^>]*>", re.IGNORECASE).search(text, end)
        return closing.end() if closing else len(text)
    return end or -1


def put_together(pieces: Sequence[Piece], translations: Iterator[str], markup: bool) -> str:
    """Return a text with the next translation in the place of each piece that was to be translated."""
    parts = []
    for text, translated in pieces:
        if translated:
            text = next(translations)
            text = escape(text, quote=False) if markup else text
        parts.append(text)
    return "".join(parts)
