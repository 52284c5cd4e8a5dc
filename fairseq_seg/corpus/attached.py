"""The attached file: the ranked pairs of each example of a split. It is memory-mapped, and written atomically."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.errors import SegError
from fairseq_seg.files import checksum, write_whole

MAGIC = b"SEGMEM2\n"
# The arrays behind the header: row starts, and for all pairs in rank order ids, scores and covering.
COLUMNS = ("<i8", "<i4", "<f4", "u1")
# Bytes that are copied at once.
BLOCK = 2**20

# What a header must hold, besides memory_data, which may be null.
FIELDS: dict[str, type] = {"signature": str, "memory_fingerprint": str, "split_fingerprint": str, "settings": dict}
FIELDS |= {"kept": int, "rows": int, "pairs": int, "checksum": int}


class AttachedError(SegError):
    """An attached file cannot be used; the message says why and what to do."""


def attached_path(data_bin: str | Path, split: str, source_lang: str, target_lang: str) -> Path:
    """Name the attached file of a split.

    The second part of the name is always the language pair as in the data-bin's own files, because fairseq infers the
    languages from any file there. A third part marks the reverse direction of the same data-bin.
    """
    folder = Path(data_bin)
    other = f"{split}.{target_lang}-{source_lang}"
    if any((folder / f"{other}.{source_lang}{ending}").exists() for ending in ("", ".idx", ".fasta")):
        return folder / f"{other}.reversed.memory"
    return folder / f"{split}.{source_lang}-{target_lang}.memory"


class AttachedPairs:
    """The ranked pairs of every example of a split, mapped from disk (9 bytes per pair).

    The file holds a JSON header of one line and then four arrays: row starts (N+1,) int64, and for all P pairs in rank
    order their ids (P,) int32, scores (P,) float32 and covering (P,) uint8, 1 where Alg. 1 selects the pair.
    """

    def __init__(self, header: dict, ranked: RankedPairs):
        self.signature: str = header["signature"]
        self.kept: int = header["kept"]
        self.memory_fingerprint: str = header["memory_fingerprint"]
        self.split_fingerprint: str = header["split_fingerprint"]
        self.memory_data: str | None = header.get("memory_data")
        self.settings: dict = header["settings"]
        self.ranked = ranked

    @classmethod
    def load(cls, prefix: str | Path) -> AttachedPairs:
        """Map an attached file (``data-bin/train.en-fr.memory``, see `attached_path`)."""
        path = Path(prefix)
        try:
            with open(path, "rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise AttachedError(f"{path} is not an attached file: run seg-attach again.")
                header = json.loads(file.readline())
                content = np.memmap(file, np.uint8, "r", file.tell())
        except FileNotFoundError:
            raise AttachedError(f"{path} does not exist: run seg-attach with the same -s and -t first.") from None
        except (OSError, ValueError) as error:
            raise AttachedError(f"{path} cannot be read ({error}): run seg-attach again.") from None
        if not isinstance(header, dict) or not FIELDS.items() <= {k: type(v) for k, v in header.items()}.items():
            raise AttachedError(f"{path} has a damaged header: run seg-attach again.")
        rows, pairs = header["rows"], header["pairs"]
        if rows < 0 or pairs < 0 or len(content) != 8 * (rows + 1) + 9 * pairs:
            raise AttachedError(f"{path} is truncated: run seg-attach again.")
        ends = np.cumsum([8 * (rows + 1), 4 * pairs, 4 * pairs])
        arrays = [part.view(dtype) for part, dtype in zip(np.split(content, ends), COLUMNS, strict=True)]
        if checksum(arrays) != header["checksum"]:
            raise AttachedError(f"{path} is damaged: run seg-attach again.")
        starts, ids, scores, covering = arrays
        return cls(header, RankedPairs(starts, ids, scores, covering))

    @property
    def fingerprint(self) -> str:
        """Identify the pairs of all examples, 16 hexadecimal digits."""
        digest = blake2b(self.memory_fingerprint.encode(), digest_size=8)
        for column in (self.ranked.starts, self.ranked.ids, self.ranked.scores, self.ranked.covering):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.ranked)

    def select(self, selection: Selection) -> RankedPairs:
        """Return the selected pairs of each example; refuse a K larger than what was kept."""
        if selection.mode == "topk" and selection.k > self.kept:
            raise AttachedError(
                f"--memory-k {selection.k} needs more pairs than the {self.kept} that were kept: run seg-attach again "
                f"with --keep {selection.k}."
            )
        return self.ranked.select(selection)

    def check(self, split_fingerprint: str, memory_fingerprint: str) -> None:
        """Refuse data other than what the file was made from."""
        for name, made_from, given in (
            ("this split", self.split_fingerprint, split_fingerprint),
            ("the memory's pairs", self.memory_fingerprint, memory_fingerprint),
        ):
            if made_from != given:
                raise AttachedError(
                    f"The attached file was not made from {name} (fingerprint {made_from}, here {given}): run "
                    "seg-attach again."
                )


def write_attached(path: Path, header: dict, parts: Iterable[RankedPairs]) -> None:
    """Write an attached file from consecutive parts of its rows, under another name first, then renamed.

    ``header`` holds signature, kept, memory_fingerprint, split_fingerprint, memory_data and settings. Only one part is
    in memory at a time: the columns grow in files of their own, which are joined at the end.
    """
    with ExitStack() as stack:
        columns = [stack.enter_context(TemporaryFile(dir=path.parent)) for _ in COLUMNS]
        rows = pairs = 0
        columns[0].write(np.zeros(1, COLUMNS[0]).tobytes())
        for part in parts:
            arrays = pairs + np.cumsum(part.counts), part.ids, part.scores, part.covering
            for column, array, dtype in zip(columns, arrays, COLUMNS, strict=True):
                column.write(array.astype(dtype).tobytes())
            rows, pairs = rows + len(part), pairs + len(part.ids)
        header = header | {"rows": rows, "pairs": pairs, "checksum": checksum(_blocks(columns))}
        file = stack.enter_context(write_whole(path))
        line = json.dumps(header, sort_keys=True).encode()
        # Spaces up to a multiple of eight keep the mapped arrays aligned.
        file.write(MAGIC + line + b" " * (-(len(line) + 1) % 8) + b"\n")
        for block in _blocks(columns):
            file.write(block)


def _blocks(files: Iterable[IO[bytes]]) -> Iterator[bytes]:
    """Read files from their beginning, one after the other."""
    for file in files:
        file.seek(0)
        while block := file.read(BLOCK):
            yield block
