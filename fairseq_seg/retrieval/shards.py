"""An index in several shards, for a training set too large for one; together they find what one index finds.

Text number n is in shard n % N. Every shard scores with the statistics of the whole (see `LuceneIndex`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole
from fairseq_seg.retrieval.lucene import (
    STATISTICS,
    Hits,
    LuceneIndex,
    build_index,
    first_distinct,
    index_identity,
    write_identity,
)
from fairseq_seg.retrieval.statistics import Statistics

# Lucene calculates in single precision, and a shard rounds in other places than a whole index: scores whose ratio is
# closer to 1 than this count as equal.
ROUNDING = 1e-6


def shard_folder(folder: Path, number: int) -> Path:
    """Name the folder of a shard."""
    return folder / f"shard{number}"


def shard_identity(identity: dict, number: int, count: int) -> dict:
    """Say what a shard was made from."""
    return identity | {"shard": number, "shards": count}


def build_shards(folder: Path, texts: Callable[[slice], Iterable[str]], identity: dict, count: int) -> None:
    """Index texts in ``count`` shards, one after the other; ``texts`` gives those of a slice.

    The folder appears whole or not at all; the finished shards of a stopped run are kept.
    """
    identities = [shard_identity(identity, number, count) for number in range(count)]
    with make_whole(folder, resume=True) as beside:
        for path in beside.iterdir():
            if index_identity(path) not in identities:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for number in range(count):
            shard = shard_folder(beside, number)
            if not shard.exists():
                build_index(shard, texts(slice(number, None, count)), identities[number])
        parts = [Statistics.load(shard_folder(beside, number) / STATISTICS) for number in range(count)]
        Statistics.total(parts).save(beside / STATISTICS)
        write_identity(beside, identity | {"shards": count})


def shard_count(folder: Path, identity: dict) -> int:
    """Return the number of shards of an index of ``identity``: 1 if it is in one piece, 0 if there is none."""
    found = index_identity(folder)
    if found == identity:
        return 1
    count = (found or {}).get("shards", 0)
    return count if found == identity | {"shards": count} else 0


class Shard:
    """One shard of an index that `build_shards` wrote."""

    def __init__(self, folder: Path, identity: dict, number: int, count: int, k1: float, b: float):
        """Open one of ``count`` shards, and refuse a shard of anything but ``identity``."""
        found = shard_count(folder, identity)
        if not found:
            raise SegError(f"{folder} is not an index of this training set: run seg-attach to rebuild it.")
        if found != count:
            raise SegError(f"{folder} has {found} shards, but the index of this run has {count}: copy it there.")
        self._number, self._count = number, count
        whole = Statistics.load(folder / STATISTICS)
        parts = shard_identity(identity, number, self._count)
        self._index = LuceneIndex(shard_folder(folder, number), parts, k1, b, whole)
        self.signature = self._index.signature

    def hits(self, text: str, count: int) -> Iterator[Hits]:
        """Yield what `LuceneIndex.hits` does, with the numbers that the texts have in the whole."""
        for hits in self._index.hits(text, count):
            yield hits._replace(numbers=hits.numbers * self._count + self._number)

    def needed_hits(self, text: str, count: int) -> list[Hits]:
        """Return as many of `hits` as may be needed for ``count`` texts, whatever other shards find.

        If this shard alone has enough after a search, all shards together have, and nobody needs the next.
        """
        searches: list[Hits] = []
        for hits in self.hits(text, count):
            searches.append(hits)
            if len(first_distinct((search.numbers for search in searches), count)) == count:
                break
        return searches


def merge(parts: Sequence[Hits], count: int) -> np.ndarray:
    """Return the numbers of the best ``count`` hits of all shards, in the order in which one index has them.

    Of equal scores Lucene takes the text that was indexed first, and that is the shorter one, then the lower number.
    """
    numbers, scores, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(-scores, kind="stable")
    numbers, scores, lengths = numbers[order], scores[order], lengths[order]
    place = np.cumsum(np.append(True, scores[1:] < scores[:-1] * (1 - ROUNDING))) if len(scores) else scores
    return numbers[np.lexsort((numbers, lengths, place))][:count]


def join(shards: Sequence[Iterable[Hits]], count: int) -> np.ndarray:
    """Return the numbers of the best ``count`` texts from what each shard's searches found."""
    return first_distinct((merge(parts, count) for parts in zip(*shards, strict=False)), count)


class ShardedIndex:
    """All shards of an index, searched in this process."""

    def __init__(self, folder: Path, identity: dict, k1: float, b: float):
        """Open an index that `build_shards` wrote, and refuse one of anything but ``identity``."""
        self.folder, self.identity, self.count = folder, identity, shard_count(folder, identity)
        self._shards = [Shard(folder, identity, number, self.count, k1, b) for number in range(self.count)]
        self.signature = self._shards[0].signature

    def search_all(self, texts: Iterable[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of up to ``count`` texts, best first."""
        return [join([shard.hits(text, count) for shard in self._shards], count) for text in texts]


def open_engine(folder: Path, identity: dict, k1: float, b: float) -> LuceneIndex | ShardedIndex:
    """Open an index, in one piece or in shards, and refuse one of anything but ``identity``."""
    sharded = shard_count(folder, identity) > 1
    return (ShardedIndex if sharded else LuceneIndex)(folder, identity, k1, b)
