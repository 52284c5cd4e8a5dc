"""Retrieval from a data-bin's training set on a cluster: what executors do, and the search that hands it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cache
from itertools import accumulate, islice, pairwise
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.lucene import Hits
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import Chunk, index_folder, open_retriever
from fairseq_seg.retrieval.shards import Shard, ShardedIndex, join
from fairseq_seg.retrieval.spark import Cluster, SharedFolder

# The most chunks in a partition: with 500 sentences each some twenty seconds of work, thousands of times what it costs
# Spark to hand out a task.
LARGEST_PARTITION = 10


@cache
def open_copy(
    folder: SharedFolder, languages: tuple, settings: SearchSettings, exclusion: str, fingerprint: str
) -> Retriever:
    """Open a copy of the training set on an executor, once per process; refuse one of other pairs."""
    home = DataBin(folder.here(), *languages)
    retriever = open_retriever(home, settings, exclusion, may_build=False)
    if home.fingerprint(TRAIN) != fingerprint:
        raise SegError(
            f"{home.folder} holds other pairs than the training set of this run: copy the data-bin there again."
        )
    return retriever


def search_partition(copy_of: tuple, chunks: Sequence[Chunk]) -> list[RankedPairs]:
    """Search chunks on an executor, in the copy that the arguments ``copy_of`` of `open_copy` name."""
    retriever = open_copy(*copy_of)
    return [retriever.search(*chunk) for chunk in chunks]


@cache
def open_shard(
    folder: SharedFolder, index: str, identity: tuple, number: int, count: int, k1: float, b: float
) -> Shard:
    """Open a shard of the index on an executor, once per process."""
    return Shard(folder.here() / index, dict(identity), number, count, k1, b)


def search_shard(shard: tuple, texts: Sequence[str], count: int) -> list[list[Hits]]:
    """Return, on an executor, what a shard can add to the best ``count`` hits of each text."""
    return [open_shard(*shard).needed_hits(text, count) for text in texts]


class ClusterIndex:
    """All shards of an index, each searched in a task of its own on a cluster."""

    def __init__(self, cluster: Cluster, folder: SharedFolder, index: ShardedIndex, settings: SearchSettings):
        identity = tuple(sorted(index.identity.items()))
        self._cluster = cluster
        self._shards = [
            (folder, index.folder.name, identity, number, index.count, settings.k1, settings.b)
            for number in range(index.count)
        ]
        self.signature = index.signature

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of up to ``count`` texts, best first."""
        answers = self._cluster.run(search_shard, [(shard, texts, count) for shard in self._shards])
        return [join(shards, count) for shards in zip(*answers, strict=True)]


def cluster_search(
    cluster: Cluster,
    retriever: Retriever,
    home: DataBin,
    settings: SearchSettings,
    exclusion: str,
    partitions: int | None,
    shared: str | None,
) -> Callable[[int, Iterable[Chunk]], Iterator[RankedPairs]]:
    """Return a search on the cluster: call it with the number of chunks and the chunks, and it yields their pairs.

    A chunk is (queries, keys to exclude) of `Retriever.search`; results come in the order of the chunks, which are
    handed out in ``partitions``. Executors take the data-bin and its index from the path ``shared``, or from a copy
    that is sent to each. If the index is in shards, a task is a partition and a shard; what the shards find is merged
    and ranked here.
    """
    sharded = retriever.engine if isinstance(retriever.engine, ShardedIndex) else None
    if shared:
        folder = SharedFolder(shared, shipped=False)
    else:
        folder = cluster.ship("memory", needed_files(home, index_alone=sharded is not None))
    copy_of = (folder, (home.source_lang, home.target_lang), settings, exclusion, home.fingerprint(TRAIN))
    ranking = copy(retriever)
    if sharded is not None:
        ranking.engine = ClusterIndex(cluster, folder, sharded, settings)

    def search_group(group: list[Chunk]) -> list[RankedPairs]:
        if sharded is None:
            return cluster.run(search_partition, [(copy_of, group)])[0]
        queries, keys = zip(*group, strict=True)
        exclude = None if keys[0] is None else np.concatenate(keys)
        found = ranking.search([query for chunk in queries for query in chunk], exclude)
        ends = list(accumulate(map(len, queries), initial=0))
        return [found.rows(slice(start, end)) for start, end in pairwise(ends)]

    def search(count: int, chunks: Iterable[Chunk]) -> Iterator[RankedPairs]:
        wanted = partitions or max(2 * cluster.cores, -(-count // LARGEST_PARTITION))
        for results in cluster.map(search_group, groups(chunks, -(-count // wanted))):
            yield from results

    return search


def groups(chunks: Iterable[Chunk], size: int) -> Iterator[list[Chunk]]:
    """Group chunks by ``size``; the last group has what is left."""
    remaining = iter(chunks)
    while group := list(islice(remaining, size)):
        yield group


def needed_files(home: DataBin, index_alone: bool) -> Iterator[tuple[Path, Path]]:
    """List the files that an executor needs, the index and the pairs, with their names in the data-bin."""
    patterns = [f"{index_folder(home).name}/**/*"]
    if not index_alone:
        for lang in (home.source_lang, home.target_lang):
            patterns += [f"train*.{home.pair_name}.{lang}", f"train*.{home.pair_name}.{lang}.*", f"dict.{lang}.txt"]
    for pattern in patterns:
        for path in home.folder.glob(pattern):
            if path.is_file():
                yield path, path.relative_to(home.folder)
