"""An index in several shards, for a training set too large for one; together they find what one index finds.

Text number n is in shard n % N. Every shard scores with the statistics of the whole (see the engines' `Index`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole
from fairseq_seg.retrieval import grams, lucene
from fairseq_seg.retrieval.index import STATISTICS, Hits, first_distinct, index_identity, write_identity

# Each has `build_index`, and `Index` and `Statistics` with the same methods.
ENGINES: dict[str, ModuleType] = {"grams": grams, "lucene": lucene}

# Lucene calculates in single precision, and a shard rounds in other places than a whole index: scores whose ratio is
# closer to 1 than this count as equal.
ROUNDING = 1e-6


def shard_folder(folder: Path, number: int) -> Path:
    """Name the folder of a shard."""
    return folder / f"shard{number}"


def whole_identity(identity: dict, count: int) -> dict:
    """Say what all shards together were made from; the format says that the pairs lie beside each shard."""
    return identity | {"shards": count, "shard_format": 2}


def shard_identity(identity: dict, number: int, count: int) -> dict:
    """Say what a shard was made from."""
    return identity | {"shard": number, "shards": count}


def pairs_path(folder: Path, number: int) -> Path:
    """Name the file of a shard's pairs: what scoring needs of each beside the index."""
    return folder / f"pairs{number}.npz"


def build_shards(
    folder: Path,
    texts: Callable[[slice], Iterable[str]],
    identity: dict,
    count: int,
    engine: str,
    columns: Callable[[slice], dict[str, Any]] | None = None,
) -> None:
    """Index texts in ``count`` shards, one after the other; ``texts`` gives those of a slice.

    ``columns`` gives what `ShardSearch` reads of a slice's pairs, which is stored beside each shard.

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
                ENGINES[engine].build_index(shard, texts(slice(number, None, count)), identities[number])
        statistics = ENGINES[engine].Statistics
        parts = [statistics.load(shard_folder(beside, number) / STATISTICS) for number in range(count)]
        statistics.total(parts).save(beside / STATISTICS)
        if columns is not None:
            for number in range(count):
                np.savez(pairs_path(beside, number), **columns(slice(number, None, count)))
        write_identity(beside, whole_identity(identity, count))


def shard_count(folder: Path, identity: dict) -> int:
    """Return the number of shards of an index of ``identity``: 1 if it is in one piece, 0 if there is none."""
    found = index_identity(folder)
    if found == identity:
        return 1
    count = (found or {}).get("shards", 0)
    return count if found == whole_identity(identity, count) else 0


class Shard:
    """One shard of an index that `build_shards` wrote."""

    def __init__(self, folder: Path, identity: dict, number: int, count: int, settings: SearchSettings):
        """Open one of ``count`` shards, and refuse a shard of anything but ``identity``."""
        found = shard_count(folder, identity)
        if not found:
            raise SegError(f"{folder} is not an index of this training set: run seg-attach to rebuild it.")
        if found != count:
            raise SegError(f"{folder} has {found} shards, but the index of this run has {count}: copy it there.")
        self._number, self._count = number, count
        engine = ENGINES[settings.engine]
        whole = engine.Statistics.load(folder / STATISTICS)
        parts = shard_identity(identity, number, self._count)
        self._index = engine.Index(shard_folder(folder, number), parts, settings.k1, settings.b, whole)
        self.signature = self._index.signature

    def hits(self, texts: Sequence[str], count: int) -> list[list[Hits]]:
        """Return the hits that may be needed for ``count`` texts, with the numbers that texts have in the whole.

        If this shard alone has enough after a search, all shards together have, and nobody needs the next.
        """
        return [
            [hits._replace(numbers=hits.numbers * self._count + self._number) for hits in searches]
            for searches in self._index.hits(texts, count)
        ]


def merge(parts: Sequence[Hits], count: int) -> np.ndarray:
    """Return the numbers of the best ``count`` hits of all shards, in the order in which one index has them.

    Of equal scores an engine takes the text that was indexed first, and that is the shorter one, then the lower number.
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

    def __init__(self, folder: Path, identity: dict, settings: SearchSettings):
        """Open an index that `build_shards` wrote, and refuse one of anything but ``identity``."""
        self.folder, self.identity, self.count = folder, identity, shard_count(folder, identity)
        self._shards = [Shard(folder, identity, number, self.count, settings) for number in range(self.count)]
        self.signature = self._shards[0].signature

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of up to ``count`` texts, best first."""
        found = zip(*(shard.hits(texts, count) for shard in self._shards), strict=True)
        return [join(parts, count) for parts in found]


def open_engine(folder: Path, identity: dict, settings: SearchSettings):
    """Open an index, in one piece or in shards, and refuse one of anything but ``identity``."""
    if shard_count(folder, identity) > 1:
        return ShardedIndex(folder, identity, settings)
    return ENGINES[settings.engine].Index(folder, identity, settings.k1, settings.b)
