"""The bytes of a file as UTF-8, whatever its encoding, and back to the same bytes."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from fairseq_seg.errors import SegError

BLOCK = 1 << 20
HEAD = 1 << 16


class Raw:
    """An open file; `data` is its text in UTF-8, mapped from disk if it is in UTF-8 there already."""

    data: mmap.mmap | bytes

    def __init__(self, path: Path, name: str, find_encoding: Callable[[bytes], str]):
        """Open a file; `find_encoding` returns the encoding that its first bytes declare."""
        self._map: mmap.mmap | None = None
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            self.state = status.st_size, status.st_mtime_ns
            if not status.st_size:
                self.data, self.encoding = b"", "utf-8"
                return
            head = file.read(HEAD)
            declared = find_encoding(head)
            self.encoding = declared.lower().replace("_", "-")
            if self.encoding in ("utf-8", "utf8", "utf-8-sig"):
                self.encoding = "utf-8"
                self.data = self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return
            file.seek(0)
            content = file.read()
        try:
            text = content.decode(self.encoding)
            kept = text.encode(self.encoding) == content
        except (UnicodeError, LookupError):
            raise SegError(f"{name} is not text in {declared}, the encoding that it names: convert it first.") from None
        if not kept:
            raise SegError(f"{name} would not keep its bytes in {declared}: convert it to UTF-8 first.")
        self.data = text.encode()

    def close(self) -> None:
        """Close the file."""
        if self._map is not None:
            self._map.close()

    @property
    def newline(self) -> bytes:
        """How the file's first line ends."""
        first = self.data.find(b"\n")
        return b"\r\n" if first > 0 and self.data[first - 1 : first] == b"\r" else b"\n"

    def encode(self, text: bytes) -> bytes:
        """Turn UTF-8 into the file's encoding; XML has a reference for each character that this lacks."""
        if self.encoding == "utf-8":
            return text
        return text.decode().encode(self.encoding, "xmlcharrefreplace")

    def can_hold(self, text: str) -> bool:
        """Tell whether the file's encoding has all characters of a text."""
        try:
            text.encode(self.encoding)
        except UnicodeError:
            return False
        return True

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the file's own bytes of a span, in blocks; other encodings at once, so that no character is cut."""
        if self.encoding != "utf-8":
            yield self.encode(self.data[start:end])
            return
        for place in range(start, end, BLOCK):
            yield self.data[place : min(place + BLOCK, end)]

    def line(self, place: int) -> int:
        """Return the number of the line at an offset."""
        return self.data[:place].count(b"\n") + 1
