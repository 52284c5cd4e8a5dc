"""Token-id sequences of a corpus side, held flat and without their end-of-sentence symbol."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np

# fairseq's Dictionary fixes the first four symbols: bos 0, pad 1, eos 2, unk 3.
EOS = 2
UNKNOWN = 3

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


def row_keys(*sides: Sequences) -> np.ndarray:
    """Gives each row a 64-bit key; two rows have the same key when all their sides hold the same symbols.

    ``row_keys(source)`` identifies equal sources, ``row_keys(source, target)`` equal pairs ("exact copies").
    """
    keys = np.empty(len(sides[0]), dtype=np.uint64)
    for row in range(len(keys)):
        digest = blake2b(digest_size=8)
        for side in sides:
            symbols = np.asarray(side[row], dtype=np.uint32)
            # The length goes first, so that a symbol cannot move from one side to the other unseen.
            digest.update(struct.pack("<I", len(symbols)) + symbols.tobytes())
        keys[row] = int.from_bytes(digest.digest(), "little")
    return keys
