"""Files that clients send: what is to be translated in them, and the files with translations. Nothing is kept."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairseq_seg.documents.formats import format_of, open_document
from fairseq_seg.documents.segment import Document, Edit, Segment, Unit
from fairseq_seg.errors import SegError
from fairseq_seg.serve.refusal import Refusal

MOST_SEGMENTS = 20_000


def read_segments(name: str, content: bytes, langs: tuple[str, str]) -> tuple[str, list[Segment]]:
    """Return the format of a file, and its segments."""
    with sent_file(name, content, langs) as document:
        segments: list[Segment] = []
        for unit in document.units():
            segments += unit.segments
            if len(segments) > MOST_SEGMENTS:
                raise Refusal(413, f"{name} has more than {MOST_SEGMENTS:,} segments: split it.")
        document.check_writable()
        return document.format, segments


def write_segments(name: str, content: bytes, langs: tuple[str, str], texts: Mapping[int, str]) -> bytes:
    """Return a file with new targets, by the numbers of their segments; every other byte stays."""
    number = 0

    def edited(document: Document) -> Iterator[tuple[Unit, Sequence[Edit | None]]]:
        nonlocal number
        for unit in document.units():
            edits = []
            for segment in unit.segments:
                text = None if segment.locked else texts.get(number)
                edits.append(None if text is None else Edit(text, final=True))
                number += 1
            yield unit, edits

    with sent_file(name, content, langs) as document:
        output = io.BytesIO()
        document.write(output, edited(document))
        if any(not 0 <= place < number for place in texts):
            raise Refusal(400, f"{name} has {number:,} segments: the edits are of another file.")
        return output.getvalue()


@contextmanager
def sent_file(name: str, content: bytes, langs: tuple[str, str]) -> Iterator[Document]:
    """Open what a client sent as a document; it lies in a temporary file for as long as the block runs."""
    format = format_of(Path(name))
    if format is None:
        raise Refusal(415, f"The name of {name} does not tell its format: send PO, XLIFF, TMX, TSV or text.")
    with tempfile.TemporaryDirectory(prefix="seg-serve-") as folder:
        path = Path(folder) / f"sent.{format}"
        path.write_bytes(content)
        try:
            with open_document(path, langs, format, name) as document:
                yield document
        except SegError as error:
            raise Refusal(400, str(error)) from None
