"""The entries of a cache on disk: append-only, mapped segment files; the least recently used ones are evicted.

    PATH/cache.json      the model and format of the entries (`Header`)
    PATH/7.rows          the slots of pairs, one row per slot, one pair after the other
    PATH/7.index         address, first row, number of rows and checksum of each pair in 7.rows
    PATH/lock            held during writes; contains the highest segment number so far

Rows are written before their index entry. A killed process leaves rows without an entry, or a partial entry, which are
overwritten later. A crashed machine may leave worse damage, which the checksum reveals when a pair is first read.
The timestamp of a segment's index is its last use.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from fairseq_seg.cache.address import ADDRESS_BYTES
from fairseq_seg.cache.header import LOCK, NAME
from fairseq_seg.files import lock_file

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 64 * 2**20
PATIENCE = 1.0  # seconds to wait for another writer, which normally needs a few milliseconds
LEAST_SEGMENTS = 16  # that fit into the size limit, so that only a small part is evicted at a time
ENTRY = np.dtype([("address", f"V{ADDRESS_BYTES}"), ("first", "<u8"), ("rows", "<u4"), ("checksum", "<u4")])


class RowSpan(NamedTuple):
    """The location of a pair's rows."""

    segment: Segment
    first: int
    rows: int
    checksum: int


def checksum(address: bytes, rows: np.ndarray) -> int:
    """Return the checksum of the rows of a pair; rows (T', row_bytes)."""
    return crc32(rows.data, crc32(address))


class Segment:
    """A file of rows and its index, as far as it has been read."""

    def __init__(self, folder: Path, number: int, row_bytes: int):
        self.number = number
        self.rows_path, self.index_path = (folder / f"{number}.{ending}" for ending in ("rows", "index"))
        self.row_bytes = row_bytes
        self.addresses: list[bytes] = []
        self.rows = 0  # with an index entry
        self.cut_off = False
        self._mapped = np.zeros((0, row_bytes), dtype=np.uint8)

    @property
    def size(self) -> int:
        """The size in bytes of all rows with an index entry, and of these entries."""
        return self.rows * self.row_bytes + len(self.addresses) * ENTRY.itemsize

    def used(self) -> int:
        """Return when the segment was last used, in nanoseconds."""
        return self.index_path.stat().st_mtime_ns

    def touch(self) -> None:
        """Record that the segment is used now."""
        now = time.time_ns()
        with suppress(OSError):  # removed meanwhile, or read-only
            os.utime(self.index_path, ns=(now, now))

    def read_index(self) -> Iterator[tuple[bytes, RowSpan]]:
        """Read the entries appended since the last call, up to the first incomplete one."""
        index_size = self.index_path.stat().st_size
        done = len(self.addresses) * ENTRY.itemsize
        self.cut_off = index_size > done
        if index_size - done < ENTRY.itemsize:
            return
        there = self.rows_path.stat().st_size // self.row_bytes if self.rows_path.exists() else 0
        new = np.fromfile(self.index_path, ENTRY, (index_size - done) // ENTRY.itemsize, offset=done)
        for address, first, rows, check in new.tolist():
            if first != self.rows or first + rows > there:
                return
            self.addresses.append(address)
            self.rows += rows
            yield address, RowSpan(self, first, rows, check)
        self.cut_off = index_size % ENTRY.itemsize > 0

    def read(self, place: RowSpan) -> np.ndarray:
        """Return the rows of a pair, (T', row_bytes), as a view of the mapped file."""
        end = place.first + place.rows
        if end > len(self._mapped):
            mapped = np.memmap(self.rows_path, np.uint8, "r").view(np.ndarray)
            whole = len(mapped) // self.row_bytes
            self._mapped = mapped[: whole * self.row_bytes].reshape(whole, self.row_bytes)
        return self._mapped[place.first : end]

    def append(self, pairs: Sequence[tuple[bytes, np.ndarray]]) -> None:
        """Write the rows of pairs after the rows with an entry, then write their entries."""
        lengths = [len(rows) for _, rows in pairs]
        index = np.zeros(len(pairs), ENTRY)
        index["address"] = np.frombuffer(b"".join(address for address, _ in pairs), ENTRY["address"])
        index["first"] = self.rows + np.cumsum([0, *lengths[:-1]])
        index["rows"] = lengths
        index["checksum"] = [checksum(*pair) for pair in pairs]
        for path, start, content in (
            (self.rows_path, self.rows * self.row_bytes, (rows for _, rows in pairs)),
            (self.index_path, len(self.addresses) * ENTRY.itemsize, [index]),
        ):
            with open(path, "r+b" if path.exists() else "w+b") as stream:
                stream.seek(start)
                for piece in content:
                    stream.write(piece.tobytes())
                stream.truncate()

    def remove(self) -> None:
        """Remove the files; processes that have them mapped can still read them."""
        for path in (self.index_path, self.rows_path):
            path.unlink(missing_ok=True)


class PairCache:
    """Rows by the address of their pair; many processes can read, and one at a time can write.

    Args:
        folder: an existing folder.
        row_bytes: the size of a slot.
        limit: the maximum size of all segments together, in bytes.
    """

    def __init__(self, folder: Path, row_bytes: int, limit: int):
        self.folder, self.row_bytes, self.limit = folder, row_bytes, limit
        self.segment_bytes = min(SEGMENT_BYTES, limit // LEAST_SEGMENTS)
        self._segments: dict[int, Segment] = {}
        self._places: dict[bytes, RowSpan] = {}
        self._checked: set[bytes] = set()
        self._writable = True
        self._header = self._find_header()
        with self._locked() as locked:
            self._refresh(repair=locked)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, address: bytes) -> bool:
        return address in self._places

    @property
    def size(self) -> int:
        """The bytes of all entries."""
        return sum(segment.size for segment in self._segments.values())

    @property
    def room(self) -> int:
        """The least number of bytes that can be appended before anything is evicted."""
        return max(0, self.limit - self.size - self.segment_bytes)

    def find(self, addresses: Sequence[bytes]) -> list[np.ndarray | None]:
        """Return the rows of each pair, (T', row_bytes), mapped from the file, or None."""
        if self._is_gone():
            return [None] * len(addresses)
        if any(address not in self._places for address in addresses):
            self._refresh()  # another process may have written them
        found = [self._read(address) for address in addresses]
        for segment in {place.segment for address in addresses if (place := self._places.get(address))}:
            segment.touch()
        return found

    def append(self, pairs: Iterable[tuple[bytes, np.ndarray]]) -> None:
        """Store the rows (T', row_bytes) of pairs, unless another process holds the lock for too long."""
        with self._locked() as locked:
            if not locked or self._is_gone():
                return
            try:
                self._refresh(repair=True)
                new = {address: rows for address, rows in pairs if address not in self._places}
                for segment, share in self._distribute(new.items()):
                    segment.append(share)
                    self._read_index(segment)
            except OSError as error:
                logger.warning(
                    "%s accepts no more pairs (%s): from now on it is only read", self.folder, error.strerror
                )
                self._writable = False

    def _find_header(self) -> tuple[int, int] | None:
        """Identify the header's file."""
        try:
            state = os.stat(self.folder / NAME)
        except OSError:
            return None
        return state.st_ino, state.st_mtime_ns

    def _is_gone(self) -> bool:
        """Return whether the opened cache has been removed; a new one in its place may belong to another model."""
        if self._find_header() == self._header:
            return False
        if self._writable:
            logger.warning("%s was removed while in use: continuing without it", self.folder)
        self._writable = False
        return True

    def _read(self, address: bytes) -> np.ndarray | None:
        place = self._places.get(address)
        if place is None:
            return None
        try:
            rows = place.segment.read(place)
        except (FileNotFoundError, ValueError):  # another process removed it
            self._forget(place.segment)
            return None
        if address not in self._checked:
            if checksum(address, rows) != place.checksum:
                logger.warning("an entry of %s is damaged and will be computed again", place.segment.rows_path)
                del self._places[address]
                return None
            self._checked.add(address)
        return rows

    def _distribute(
        self, pairs: Iterable[tuple[bytes, np.ndarray]]
    ) -> Iterator[tuple[Segment, list[tuple[bytes, np.ndarray]]]]:
        """Distribute pairs over the last segment and new ones; make room for each segment before yielding it."""
        segment = self._segments.get(max(self._segments, default=0))
        share: list[tuple[bytes, np.ndarray]] = []
        free = 0 if segment is None else self.segment_bytes - segment.size
        for address, rows in pairs:
            size = rows.nbytes + ENTRY.itemsize
            if size > self.limit:
                continue
            if size > free:
                if segment is not None and share:
                    yield segment, share
                free, share = max(size, self.segment_bytes), []
                segment = self._new_segment(free)
            share.append((address, rows))
            free -= size
        if segment is not None and share:
            yield segment, share

    def _new_segment(self, size: int) -> Segment:
        """Return a segment that may grow to this size; evict the least recently used ones to make room.

        Its number is higher than any before, so that other processes do not mistake it for a removed one.
        """
        self._lock.seek(0)
        number = max(int(self._lock.read() or 0), *self._segments, 0) + 1
        self._lock.truncate(0)
        self._lock.write(str(number).encode())
        self._make_room(size)
        self._segments[number] = Segment(self.folder, number, self.row_bytes)
        return self._segments[number]

    def _make_room(self, size: int) -> None:
        while self._segments and self.size + size > self.limit:
            oldest = min(self._segments.values(), key=Segment.used)
            self._forget(oldest)
            oldest.remove()

    def _refresh(self, repair: bool = False) -> None:
        """Read what is new in the folder; with the lock held, also clean up after a killed process."""
        numbers = sorted(int(path.stem) for path in self.folder.glob("*.index") if path.stem.isdigit())
        for number in self._segments.keys() - set(numbers):
            self._forget(self._segments[number])
        for number in numbers:
            segment = self._segments.setdefault(number, Segment(self.folder, number, self.row_bytes))
            try:
                self._read_index(segment)
                if segment.cut_off and repair:
                    logger.warning(
                        "%s is truncated: its last entries are dropped, and the rest is used", segment.index_path
                    )
                    os.truncate(segment.index_path, len(segment.addresses) * ENTRY.itemsize)
            except FileNotFoundError:
                self._forget(segment)
        if repair:
            self._make_room(0)

    def _read_index(self, segment: Segment) -> None:
        for address, place in segment.read_index():
            self._places[address] = place
            self._checked.discard(address)

    def _forget(self, segment: Segment) -> None:
        self._segments.pop(segment.number, None)
        for address in segment.addresses:
            if address in self._places and self._places[address].segment is segment:
                del self._places[address]

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Yield whether this process may write; within the block, no other process does."""
        if not self._writable:
            yield False
            return
        try:
            stream = open(self.folder / LOCK, "a+b")
        except OSError:  # a read-only folder
            self._writable = False
            yield False
            return
        with stream:
            until = time.monotonic() + PATIENCE
            while not (locked := lock_file(stream, "exclusive")) and time.monotonic() < until:
                time.sleep(0.01)
            self._lock = stream
            yield locked
