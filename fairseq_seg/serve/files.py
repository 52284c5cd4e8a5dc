"""Files that clients send: what is to be translated in them, and the files with translations. Nothing is kept."""

from __future__ import annotations

import io
import secrets
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairseq_seg.documents.codes import code_fault, place_codes
from fairseq_seg.documents.formats import format_of, open_document
from fairseq_seg.documents.segment import Document, Edit, Segment, Unit
from fairseq_seg.errors import SegError
from fairseq_seg.serve.refusal import Refusal

MOST_SEGMENTS = 20_000
MOST_RESULTS, RESULT_SECONDS = 20, 600


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


def write_segments(name: str, content: bytes, langs: tuple[str, str], wanted: Mapping[int, Edit]) -> bytes:
    """Return a file with new targets, by the numbers of their segments; every other byte stays."""
    number = 0

    def edited(document: Document) -> Iterator[tuple[Unit, Sequence[Edit | None]]]:
        nonlocal number
        for unit in document.units():
            edits: list[Edit | None] = []
            for segment in unit.segments:
                edits.append(None if segment.locked else wanted.get(number))
                number += 1
            yield unit, edits

    with sent_file(name, content, langs) as document:
        output = io.BytesIO()
        document.write(output, edited(document))
        if any(not 0 <= place < number for place in wanted):
            raise Refusal(400, f"{name} has {number:,} segments: the edits are of another file.")
        return output.getvalue()


def with_codes(text: str, source: str, codes: Mapping[str, str]) -> str:
    """Give a translation the inline codes of its source, at the best guess, unless it has them already."""
    return place_codes(text, source, codes) if codes and code_fault(text, codes) else text


class Results:
    """Translated files that wait to be fetched, in RAM, for some minutes: a client gets a secret name for each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()

    def put(self, name: str, content: bytes) -> str:
        """Keep a file, and return its secret name; the oldest make room."""
        self._forget()
        while len(self._files) >= MOST_RESULTS:
            self._files.popitem(last=False)
        token = secrets.token_urlsafe(24)
        self._files[token] = self._clock(), name, content
        return token

    def get(self, token: str) -> tuple[str, bytes]:
        """Return the name and the content of a file."""
        self._forget()
        if token not in self._files:
            raise Refusal(404, f"There is no such file (any more): they are kept for {RESULT_SECONDS // 60} minutes.")
        return self._files[token][1:]

    def _forget(self) -> None:
        while self._files and next(iter(self._files.values()))[0] < self._clock() - RESULT_SECONDS:
            self._files.popitem(last=False)


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
