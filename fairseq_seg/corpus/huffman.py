"""fairseq's Huffman-coded data (``--dataset-impl huffman``), read without torch."""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from fairseq_seg.corpus.dictionary import SPECIAL

HUFFMAN_MAGIC = b"HUFFIDX\x00"


def read_huffman(prefix: str | Path, index: IO[bytes], data: IO[bytes]) -> Iterator[list[int]]:
    """Decode ``prefix.bin``; `index` is ``prefix.idx`` behind its first eight bytes.

    fairseq numbers the symbols in the order of ``prefix.vocab``, so whoever wrote the files made it the dictionary's.
    """
    from bitarray import bitarray, decodetree

    _, _version, size, count = struct.unpack("<BQQQ", index.read(25))
    lengths = np.fromfile(index, dtype=np.int32, count=count)
    ends = np.fromfile(index, dtype=np.int64, count=count)
    content = data.read()
    if len(ends) != count or len(content) < size:
        raise ValueError(f"{prefix}.bin or .idx is truncated")
    tree = decodetree({symbol: bitarray(code) for symbol, code in huffman_codes(Path(f"{prefix}.vocab")).items()})
    for (start, end), length in zip(pairwise([0, *ends.tolist()]), lengths, strict=True):
        bits = bitarray()
        bits.frombytes(content[start:end])
        try:
            row = list(bits[: bits.to01().rindex("1")].decode(tree))  # a one and zeros fill the last byte
        except ValueError:
            row = []
        if len(row) != length:
            raise ValueError(f"{prefix}.bin is damaged")
        yield row


def huffman_codes(path: Path) -> dict[int, str]:
    """Return the code of each symbol id, as fairseq derives it from the counts in a .vocab file."""
    counts: Counter[str] = Counter()
    with path.open(encoding="utf-8") as lines:
        for symbol, count in map(str.split, lines):
            counts[symbol] += int(count)
    for symbol in SPECIAL:
        counts[symbol] = counts[symbol] or 1
    leaves: list[tuple] = [(count, number) for number, (_, count) in enumerate(counts.most_common())]
    nodes: deque[tuple] = deque()

    def rarest() -> tuple:
        return leaves.pop() if leaves and (not nodes or leaves[-1][0] < nodes[-1][0]) else nodes.pop()

    while leaves or len(nodes) > 1:
        one, zero = rarest(), rarest()
        nodes.appendleft((one[0] + zero[0], one, zero))
    codes, remaining = {}, [(nodes.pop(), "")]
    while remaining:
        (_, *children), code = remaining.pop()
        if len(children) == 1:
            codes[children[0]] = code
        else:
            remaining += zip(children, (code + "1", code + "0"), strict=True)
    return codes
