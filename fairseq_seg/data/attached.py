"""The attached file: for each example of a split, the ranked pairs of its memory. Read by mapping, written whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError
from fairseq_seg.files import write_whole
from fairseq_seg.retrieval.select import choose
from fairseq_seg.retrieval.sequences import ROW_BLOCK, Sequences, blocks

MAGIC = b"SEGMEM1\n"


class AttachedError(SegError):
    """Says in one sentence why an attached file cannot be used and what to do about it."""


def attached_path(data_bin: str | Path, split: str, source_lang: str, target_lang: str) -> Path:
    """Names the attached file of a split.

    The second part of the name is always the language pair as the data-bin's own files spell it, because fairseq infers
    the languages from any file there; for the other direction of the same data-bin a third part is added.
    """
    folder = Path(data_bin)
    other = f"{split}.{target_lang}-{source_lang}"
    if any((folder / f"{other}.{source_lang}{ending}").exists() for ending in ("", ".idx")):
        return folder / f"{other}.reversed.memory"
    return folder / f"{split}.{source_lang}-{target_lang}.memory"


def fingerprint(source: Sequence, target: Sequence) -> str:
    """Identifies a parallel corpus by its token ids, 16 hexadecimal digits.

    Any two sequences of token-id arrays will do, as fairseq's datasets of any format; a final eos does not count.
    """
    digest = blake2b(digest_size=8)
    for side in (source, target):
        for rows in blocks(len(side)):
            if isinstance(side, Sequences):
                lengths, symbols = side.lengths[rows], side.symbols(rows)
            else:
                block = Sequences.from_rows(side[row] for row in range(rows.start, rows.stop))
                lengths, symbols = block.lengths, block.symbols(slice(None))
            digest.update(lengths.astype("<u4").tobytes())
            digest.update(symbols.astype("<u4").tobytes())
        # Closes the side, so that rows cannot move from one side to the other unseen.
        digest.update(f"|{len(side)}|".encode())
    return digest.hexdigest()


class AttachedMemory:
    """The memory of every example of a split, mapped from disk (9 bytes a pair).

    The file holds a JSON header of one line and then four arrays: row starts (N+1,) int64, and for all P pairs in rank
    order their ids (P,) int32, scores (P,) float32 and marks (P,) uint8, 1 where Alg. 1 selects the pair.
    """

    def __init__(self, header: dict, starts: np.ndarray, ids: np.ndarray, scores: np.ndarray, marks: np.ndarray):
        self.signature: str = header["signature"]
        self.kept: int = header["kept"]
        self.memory_fingerprint: str = header["memory_fingerprint"]
        self.split_fingerprint: str = header["split_fingerprint"]
        self.memory_data: str | None = header["memory_data"]
        self.settings: dict = header["settings"]
        self._starts, self._ids, self._scores, self._marks = starts, ids, scores, marks

    @classmethod
    def load(cls, prefix: str | Path) -> AttachedMemory:
        """Maps an attached file (``data-bin/train.en-fr.memory``, see `attached_path`)."""
        path = Path(prefix)
        try:
            with open(path, "rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise AttachedError(f"{path} is not an attached memory; make it again with seg-attach.")
                header = json.loads(file.readline())
                offset = file.tell()
        except FileNotFoundError:
            raise AttachedError(f"{path} does not exist; run seg-attach on the data-bin first.") from None
        except (OSError, ValueError) as error:
            raise AttachedError(f"{path} cannot be read ({error}); make it again with seg-attach.") from None
        rows, pairs = header["rows"], header["pairs"]
        if path.stat().st_size != offset + 8 * (rows + 1) + 9 * pairs:
            raise AttachedError(f"{path} is cut off; make it again with seg-attach.")
        arrays = []
        for dtype, length in (("<i8", rows + 1), ("<i4", pairs), ("<f4", pairs), ("u1", pairs)):
            # An empty array cannot be mapped.
            mapped = np.memmap(path, dtype, "r", offset, (length,)) if length else np.zeros(0, dtype)
            arrays.append(mapped)
            offset += mapped.nbytes
        return cls(header, *arrays)

    @property
    def digest(self) -> str:
        """Identifies the pairs of all examples, 16 hexadecimal digits."""
        digest = blake2b(self.memory_fingerprint.encode(), digest_size=8)
        for column in (self._starts, self._ids, self._scores, self._marks):
            digest.update(np.ascontiguousarray(column))
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return (self.row(index) for index in range(len(self)))

    def row(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stored pairs of an example in rank order: ids (P,), scores (P,), marks of Alg. 1 (P,), bool."""
        span = slice(self._starts[index], self._starts[index + 1])
        return self._ids[span], self._scores[span], self._marks[span].astype(bool)

    def select(self, index: int, k: int, mode: str = "topk", min_score: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids and scores of an example's memory: the best k, or in mode ``adaptive`` Alg. 1's whatever k is."""
        ids, scores, marks = self.row(index)
        if mode == "topk":
            self._check_kept(k)
        return choose(ids, scores, marks, k, mode, min_score)

    def select_all(self, k: int, mode: str = "topk", min_score: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """The memory of all N examples at once, as `select` gives it for one: row starts (N + 1,) and ids (P,)."""
        if mode == "topk":
            self._check_kept(k)
            wanted = np.arange(len(self._ids)) - np.repeat(self._starts[:-1], np.diff(self._starts)) < k
        else:
            wanted = self._marks.astype(bool)
        return keep(self._starts, self._ids, wanted & (self._scores >= np.float32(min_score)))

    def _check_kept(self, k: int) -> None:
        if k > self.kept:
            raise AttachedError(
                f"{k} pairs are asked for but {self.kept} were kept; run seg-attach again with --keep {k}."
            )

    def check(self, split_fingerprint: str, memory_fingerprint: str) -> None:
        """Refuses data that the memory was not made from."""
        for name, made_from, given in (
            ("this split", self.split_fingerprint, split_fingerprint),
            ("the memory's pairs", self.memory_fingerprint, memory_fingerprint),
        ):
            if made_from != given:
                raise AttachedError(
                    f"The attached memory was made from other data than {name} (fingerprint {made_from}, "
                    f"here {given}); run seg-attach again."
                )


def keep(starts: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The wanted (P,) of ragged rows: row starts (N + 1,) and values (P,) of what is left."""
    before = np.concatenate([[0], np.cumsum(wanted)])
    return before[starts], np.asarray(values)[wanted]


def write_attached(path: Path, header: dict, rows: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
    """Writes an attached file from its rows (ids, scores, marks), beside its place first and then renamed.

    ``header`` holds signature, kept, memory_fingerprint, split_fingerprint, memory_data and settings.
    """
    lengths: list[int] = []
    columns: dict[str, list[np.ndarray]] = {"<i4": [], "<f4": [], "u1": []}
    remaining = iter(rows)
    # Together as soon as possible: a row by itself takes eight times the bytes of its numbers.
    while block := list(islice(remaining, ROW_BLOCK)):
        lengths += [len(ids) for ids, _, _ in block]
        for (dtype, pieces), column in zip(columns.items(), zip(*block, strict=True), strict=True):
            pieces.append(np.concatenate(column).astype(dtype))
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype("<i8")
    header = header | {"rows": len(lengths), "pairs": int(starts[-1])}
    with write_whole(path) as file:
        line = json.dumps(header, sort_keys=True).encode()
        # Spaces up to a multiple of eight keep the mapped arrays aligned.
        file.write(MAGIC + line + b" " * (-(len(line) + 1) % 8) + b"\n")
        file.write(starts.tobytes())
        for pieces in columns.values():
            for piece in pieces:
                file.write(piece.tobytes())
