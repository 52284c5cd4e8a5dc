r"""Tab-separated files and plain text, in UTF-8.

A tab-separated line is a source and, if it is translated, a tab and a target; further columns stay as they are. `\t`,
`\n`, `\r` and `\\` stand for a tab, a line feed, a carriage return and a backslash. In plain text each line is a source
that its translation replaces. Neither format has a place for marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fairseq_seg.documents.segment import Document, Edit, Segment, Splice, State, Unit, keep_margins
from fairseq_seg.errors import SegError

UNESCAPES = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}
ESCAPES = str.maketrans({character: escape for escape, character in UNESCAPES.items()})


class Lines(Document):
    """A file of lines."""

    def encoding(self, head: bytes) -> str:
        """Return UTF-8, or what a byte order mark says."""
        return {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2], "utf-8")

    def _lines(self) -> Iterator[tuple[int, int, str]]:
        """Iterate over the lines: number, offset of the first byte, text without the line break."""
        place, number, size = 3 if self.raw.data[:3] == b"\xef\xbb\xbf" else 0, 0, len(self.raw.data)
        while place < size:
            end = self.raw.data.find(b"\n", place)
            end, number = size if end < 0 else end, number + 1
            try:
                line = self.raw.data[place:end].decode()
            except UnicodeError:
                raise SegError(f"{self.name}: line {number} is not UTF-8 text: convert the file first.") from None
            yield number, place, line.removesuffix("\r")
            place = end + 1


class Tsv(Lines):
    """A tab-separated file."""

    format = "tsv"

    def units(self) -> Iterator[Unit]:
        """Iterate over the lines that are not empty."""
        for number, place, line in self._lines():
            if line:
                columns = line.split("\t")
                source, target = unescape(columns[0]), unescape(columns[1]) if len(columns) > 1 else ""
                start = place + len(columns[0].encode())
                end = start + (1 + len(columns[1].encode()) if len(columns) > 1 else 0)
                state: State = "done" if target.strip() or not source.strip() else "new"
                yield Unit([Segment(str(number), number, source, target, state)], (start, end))

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the new second column."""
        [edit], [segment] = edits, unit.segments
        if edit is None:
            return []
        start, end = unit.places
        text = keep_margins(segment.source, edit.text).translate(ESCAPES)
        return [Splice(start, end, b"\t" + text.encode())]


class Text(Lines):
    """A plain text, one segment per line."""

    format = "text"

    def units(self) -> Iterator[Unit]:
        """Iterate over the lines; empty ones have nothing to translate."""
        for number, place, line in self._lines():
            if line.strip():
                yield Unit([Segment(str(number), number, line)], (place, place + len(line.encode())))

    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return the new line."""
        [edit], [segment] = edits, unit.segments
        if edit is None:
            return []
        text = keep_margins(segment.source, " ".join(edit.text.split()))
        start, end = unit.places
        return [Splice(start, end, text.encode())]


def unescape(text: str) -> str:
    """Return a column's text."""
    return re.sub(r"\\[\\tnr]", lambda escape: UNESCAPES[escape[0]], text) if "\\" in text else text
