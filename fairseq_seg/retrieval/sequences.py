"""Token-id sequences of a corpus side, held flat and without their end-of-sentence symbol."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

# fairseq's Dictionary fixes the first four symbols: bos 0, pad 1, eos 2, unk 3.
EOS = 2
UNKNOWN = 3
# Rows that are worked on at once.
ROW_BLOCK = 4096

MMAP_MAGIC = b"MMIDIDX\x00\x00"
MMAP_DTYPES = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    8: np.uint16,
    9: np.uint32,
    10: np.uint64,
}


class Sequences:
    """A read-only list of token-id arrays: row i is ``flat[starts[i] : starts[i] + lengths[i]]``.

    A final eos is never part of a row, because the fuzzy score (Eq. 3), the coverage (Alg. 1) and the fingerprint are
    all defined without it.
    """

    def __init__(self, flat: np.ndarray, starts: np.ndarray, lengths: np.ndarray):
        self.flat = flat
        self.starts = starts
        lengths = lengths.astype(np.int64)
        filled = np.flatnonzero(lengths)
        last = flat[starts[filled] + lengths[filled] - 1]
        lengths[filled[last == EOS]] -= 1
        self.lengths = lengths

    @classmethod
    def from_rows(cls, rows: Iterable) -> Sequences:
        """Copies any iterable of token-id sequences (lists, arrays, tensors of a fairseq dataset)."""
        arrays = [np.asarray(row, dtype=np.int64) for row in rows]
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        flat = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        return cls(flat, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def from_mmap(cls, prefix: str | Path) -> Sequences:
        """Maps ``prefix.bin`` as ``fairseq-preprocess`` writes it by default (``--dataset-impl mmap``).

        Read here with numpy alone: importing fairseq and torch would cost every command five seconds.
        """
        with open(f"{prefix}.idx", "rb") as index:
            if index.read(len(MMAP_MAGIC)) != MMAP_MAGIC:
                raise ValueError(f"{prefix}.idx is not of fairseq's mmap format")
            _version, code, count = struct.unpack("<QBQ", index.read(17))
            lengths = np.fromfile(index, dtype=np.int32, count=count)
            starts = np.fromfile(index, dtype=np.int64, count=count)
        dtype = np.dtype(MMAP_DTYPES[code])
        data = Path(f"{prefix}.bin")
        if len(starts) != count or data.stat().st_size < int(lengths.sum(dtype=np.int64)) * dtype.itemsize:
            raise ValueError(f"{prefix}.bin or .idx is cut off")
        # An empty file cannot be mapped.
        flat = np.memmap(data, dtype=dtype, mode="r") if data.stat().st_size else np.zeros(0, dtype=dtype)
        return cls(flat, starts // dtype.itemsize, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.starts[row]
        return self.flat[start : start + self.lengths[row]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    def symbols(self, rows: slice) -> np.ndarray:
        """The symbols of some rows, one row after the other."""
        lengths = self.lengths[rows]
        return self.flat[
            np.arange(lengths.sum()) + np.repeat(self.starts[rows] - np.cumsum(lengths) + lengths, lengths)
        ]


def blocks(count: int) -> Iterator[slice]:
    """Cuts ``count`` rows into slices, in order, for work on many rows at once in little memory."""
    return (slice(start, min(start + ROW_BLOCK, count)) for start in range(0, count, ROW_BLOCK))


def row_keys(*sides: Sequences) -> np.ndarray:
    """Gives each row a 64-bit key; two rows have the same key when all their sides hold the same symbols.

    ``row_keys(source)`` identifies equal sources, ``row_keys(source, target)`` equal pairs ("exact copies"). A key is
    the sum of a hash of each (side, position, symbol) of the row, which takes no loop over the rows.
    """
    keys = np.zeros(len(sides[0]), dtype=np.uint64)
    for number, side in enumerate(sides):
        for rows in blocks(len(side)):
            lengths = side.lengths[rows]
            ends = np.cumsum(lengths)
            positions = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
            hashes = mix(side.symbols(rows).astype(np.uint64) + (positions.astype(np.uint64) << 32), number)
            # The sums wrap around at 64 bits, and so do their differences.
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
            keys[rows] += sums[ends] - sums[ends - lengths]
    return keys


def mix(values: np.ndarray, seed: int) -> np.ndarray:
    """Hashes 64-bit numbers (the finalizer of SplitMix64), so that sums of hashes tell their terms apart."""
    values = values + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
