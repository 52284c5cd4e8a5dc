"""Token-id sequences of a corpus side, stored flat and without their end-of-sentence symbol."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.dictionary import EOS, SPECIAL, UNKNOWN
from fairseq_seg.corpus.huffman import HUFFMAN_MAGIC, read_huffman
from fairseq_seg.corpus.values import Values

# Rows processed at once.
ROW_BLOCK = 4096

MMAP_MAGIC, OLDER_MAGIC = b"MMIDIDX\x00", b"TNTIDX\x00\x00"
DTYPES = dict(enumerate((np.uint8, np.int8, np.int16, np.int32, np.int64), 1)) | {
    8: np.uint16,
    9: np.uint32,
    10: np.uint64,
}


class Sequences:
    """A read-only list of token-id arrays: row i is ``flat[starts[i] : starts[i] + lengths[i]]``.

    A final eos is never part of a row, because the fuzzy score (Eq. 3), the coverage (Alg. 1) and the fingerprint are
    all defined without it. Rows that were read from text have their `lines`, too; rows with protected tokens have the
    `values` of their reserved symbols.
    """

    lines: list[str] | None = None
    values: Values | None = None

    def __init__(self, flat: np.ndarray, starts: np.ndarray, lengths: np.ndarray):
        self.flat = flat
        # Every process of a training has these two: half the bytes are enough for less than two billion symbols.
        self.starts = starts.astype(np.int32) if len(flat) < 2**31 else starts
        lengths = lengths.astype(np.int32)
        filled = np.flatnonzero(lengths)
        last = flat[starts[filled] + lengths[filled] - 1]
        lengths[filled[last == EOS]] -= 1
        self.lengths = lengths

    @classmethod
    def from_rows(cls, rows: Iterable) -> Sequences:
        """Copy any iterable of token-id sequences (lists, arrays, tensors of a fairseq dataset)."""
        arrays = [np.asarray(row, dtype=np.int64) for row in rows]
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        flat = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        return cls(flat, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def from_index(cls, prefix: str | Path) -> Sequences:
        """Read what ``fairseq-preprocess`` wrote to ``prefix.idx`` and ``prefix.bin``, each opened once.

        This uses only numpy, because importing fairseq and torch would cost every command five seconds. The default
        format (``--dataset-impl mmap``) is memory-mapped, the others (lazy, cached, huffman) are copied.
        """
        with open(f"{prefix}.idx", "rb") as index, open(f"{prefix}.bin", "rb") as data:
            size = os.fstat(data.fileno()).st_size
            magic = index.read(8)
            try:
                if magic == MMAP_MAGIC:
                    _, _version, code, count = struct.unpack("<BQBQ", index.read(18))
                    lengths = np.fromfile(index, dtype=np.int32, count=count)
                    starts = np.fromfile(index, dtype=np.int64, count=count)
                elif magic == OLDER_MAGIC:
                    _version, code, _, count, numbers = struct.unpack("<QQQQQ", index.read(40))
                    np.fromfile(index, dtype=np.int64, count=count + 1)
                    ends = np.fromfile(index, dtype=np.int64, count=count + 1)
                    lengths, starts = np.fromfile(index, dtype=np.int64, count=numbers), ends[:-1]
                elif magic == HUFFMAN_MAGIC:
                    return cls.from_rows(read_huffman(prefix, index, data))
                else:
                    raise ValueError(
                        f"{prefix}.idx is not in one of the formats that can be read (mmap, cached, lazy, huffman)"
                    )
                dtype = np.dtype(DTYPES[code])
            except (struct.error, KeyError):
                raise ValueError(f"{prefix}.idx is truncated or damaged") from None
            if min(len(starts), len(lengths)) != count or size < int(lengths.sum(dtype=np.int64)) * dtype.itemsize:
                raise ValueError(f"{prefix}.bin or .idx is truncated")
            # An empty file cannot be mapped.
            flat = np.memmap(data, dtype, mode="r") if size else np.zeros(0, dtype)
        if magic == OLDER_MAGIC:
            return cls(flat - np.asarray(1, dtype), starts, lengths)  # its ids count from one
        return cls(flat, starts // dtype.itemsize, lengths)

    @classmethod
    def from_text(cls, path: str | Path, symbols: Sequence[str]) -> Sequences:
        """Read a text of symbols (``--dataset-impl raw``) and look up their ids in a dictionary's ``symbols``."""
        with open(path, encoding="utf-8") as file:  # split into lines as fairseq does
            lines = [line.strip("\n") for line in file]
        found = cls._look_up(map(str.split, lines), symbols)
        found.lines = lines
        return found

    @classmethod
    def from_fasta(cls, path: str | Path, symbols: Sequence[str]) -> Sequences:
        """Read a FASTA file (``--dataset-impl fasta``), in which every character of a sequence is a symbol."""
        with open(path, encoding="utf-8") as lines:
            records = lines.read().removeprefix(">").split("\n>") if os.fstat(lines.fileno()).st_size else []
        return cls._look_up(("".join(map(str.strip, record.split("\n")[1:])) for record in records), symbols)

    @classmethod
    def _look_up(cls, rows: Iterable[Iterable[str]], symbols: Sequence[str]) -> Sequences:
        ids = {symbol: number for number, symbol in enumerate(symbols) if number >= len(SPECIAL)}
        return cls.from_rows([ids.get(symbol, UNKNOWN) for symbol in row] for row in rows)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> np.ndarray:
        start = self.starts[row]
        return self.flat[start : start + self.lengths[row]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    def with_values(self, values: Values) -> Sequences:
        """Return the same rows with values."""
        found = copy(self)
        found.values = values
        return found

    def values_of(self, row: int) -> list[str] | None:
        """Return the values of a row, None if there are none."""
        return None if self.values is None else self.values[row]

    def symbols(self, rows: slice) -> np.ndarray:
        """Return the symbols of some rows, one row after the other."""
        lengths = self.lengths[rows]
        return self.flat[
            np.arange(lengths.sum()) + np.repeat(self.starts[rows] - np.cumsum(lengths) + lengths, lengths)
        ]


def blocks(count: int) -> Iterator[slice]:
    """Divide ``count`` rows into consecutive slices, to process many rows at once in little RAM."""
    return (slice(start, min(start + ROW_BLOCK, count)) for start in range(0, count, ROW_BLOCK))


def row_keys(*sides: Sequences) -> np.ndarray:
    """Return a 64-bit key per row; two rows have the same key if all their sides hold the same symbols and values.

    ``row_keys(source)`` identifies equal sources, ``row_keys(source, target)`` equal pairs ("exact copies"). A key is
    the sum of a hash of each (side, position, symbol) of the row, which needs no loop over the rows.
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
        if side.values is not None:
            some = side.values.keys != 0
            keys[some] += mix(side.values.keys[some], number + len(sides))
    return keys


def mix(values: np.ndarray, seed: int) -> np.ndarray:
    """Hash 64-bit numbers (SplitMix64's finalizer), so that sums of hashes tell their terms apart."""
    values = values + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def fingerprint(source: Sequences, target: Sequences) -> str:
    """Identify a parallel corpus by its symbols and values, 16 hexadecimal digits; a final eos does not count."""
    digest = blake2b(digest_size=8)
    for side in (source, target):
        for rows in blocks(len(side)):
            digest.update(side.lengths[rows].astype("<u4").tobytes())
            digest.update(side.symbols(rows).astype("<u4").tobytes())
        # Ends the side, so that moving a row from one side to the other changes the fingerprint.
        digest.update(f"|{len(side)}|".encode())
        if side.values is not None:
            digest.update(side.values.keys.astype("<u8").tobytes())
    return digest.hexdigest()


def side_fingerprint(side: Sequences) -> str:
    """Identify the symbols of one side, whatever their values."""
    plain = copy(side)
    plain.values = None
    return fingerprint(plain, Sequences.from_rows([]))
