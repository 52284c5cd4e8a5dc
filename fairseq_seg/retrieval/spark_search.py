"""Retrieval from a data-bin's training set on a cluster: what executors do, and the search that hands it out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import read_dictionary
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs, Row
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.fuzzy import OVERFETCH
from fairseq_seg.retrieval.parts import trim, write_part
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import Chunk, Searchable, index_folder, open_retriever
from fairseq_seg.retrieval.shard_search import Scored, ShardSearch, rank_scored
from fairseq_seg.retrieval.shards import ShardedIndex
from fairseq_seg.retrieval.spark import Cluster, SharedFolder

# The most chunks in a partition: with 500 sentences each several seconds of work, hundreds of times what it costs Spark
# to hand out a task.
LARGEST_PARTITION = 10

# The pairs of a chunk, or None once an executor has written them to its part.
Found = RankedPairs | None


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


def search_partition(copy_of: tuple, chunks: Sequence[Chunk], best: Selection, parts: str | None) -> list[Found]:
    """Search chunks on an executor, in the copy that the arguments ``copy_of`` of `open_copy` name."""
    retriever = open_copy(*copy_of)
    return [deliver(retriever.search(chunk.queries, chunk.exclude), chunk.name, best, parts) for chunk in chunks]


def deliver(found: RankedPairs, name: str, best: Selection, parts: str | None) -> Found:
    """Write the pairs of a chunk to its part in the folder ``parts``, or return them if there is none."""
    kept = trim(found, best)
    if parts is None:
        return kept
    if not Path(parts).is_dir():
        raise SegError(f"{parts} is not there: name a folder that all machines share with --spark-parts.")
    write_part(Path(parts) / name, kept)
    return None


@cache
def open_shard(
    folder: SharedFolder,
    index: str,
    dictionary: str,
    identity: tuple,
    number: int,
    count: int,
    settings: SearchSettings,
    exclusion: str,
) -> ShardSearch:
    """Open a shard of the index and its pairs on an executor, once per process."""
    spelling = Spelling(read_dictionary(folder.here() / dictionary))
    path = folder.here() / index
    try:
        return ShardSearch(path, dict(identity), number, count, settings, exclusion, spelling)
    except SegError:
        raise
    except Exception as error:  # whatever a missing or damaged file makes numpy, zipfile or Lucene raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SegError(
            f"shard {number} of {path} is lost or damaged ({reason}): put it back, or remove the index to have it "
            "rebuilt, and rerun seg-attach to resume."
        ) from None


def search_shard(shard: tuple, chunks: bytes, wanted: int) -> Iterator[tuple[int, list]]:
    """Yield, on an executor, each pickled chunk's number and what a shard can add to the best ``wanted`` hits in it."""
    opened = open_shard(*shard)
    for number, chunk in enumerate(pickle.loads(chunks)):
        yield number, opened.search(chunk.queries, chunk.exclude, wanted)


def merge_chunk(
    number: int,
    shards: Sequence[Sequence[tuple[int, list[Scored]]]],
    wanted: int,
    candidates: int,
    best: Selection,
    names: Sequence[str],
    parts: str | None,
) -> Found | list[Row | None]:
    """Rank, on an executor, what the shards found for a chunk; return its rows if some need more hits."""
    rows = []
    for searches in zip(*shards, strict=True):
        length = searches[0][0]
        rows.append(rank_scored(length, [scored for _, scored in searches], wanted, candidates))
    full = [row for row in rows if row is not None]
    if len(full) < len(rows):
        return rows
    return deliver(RankedPairs.from_rows(full), names[number], best, parts)


class ShardsOnCluster:
    """All shards of an index, each searched in a task of its own; executors also merge and rank what they find."""

    def __init__(self, cluster: Cluster, shards: list[tuple], settings: SearchSettings, best: Selection):
        """Take the arguments of `open_shard` for each shard."""
        self._cluster, self._shards, self._settings, self._best = cluster, shards, settings, best

    def search(self, chunks: Sequence[Chunk], parts: str | None) -> list[Found]:
        """Return the pairs of chunks, or write them."""
        wanted = OVERFETCH * self._settings.candidates
        found = self._run(chunks, wanted, parts)
        return [
            self._complete(chunk, answer, 2 * wanted) if isinstance(answer, list) else answer
            for chunk, answer in zip(chunks, found, strict=True)
        ]

    def _run(self, chunks: Sequence[Chunk], wanted: int, parts: str | None) -> list:
        sent = pickle.dumps(chunks)  # once for all shards
        tasks = [(shard, sent, wanted) for shard in self._shards]
        names = [chunk.name for chunk in chunks]
        arguments = wanted, self._settings.candidates, self._best, names, parts
        return self._cluster.run_merged(search_shard, tasks, merge_chunk, arguments)

    def _complete(self, chunk: Chunk, rows: list[Row | None], wanted: int) -> RankedPairs:
        """Ask for more hits for the sentences of a chunk that lost too many to exclusion, as often as it takes."""
        while starving := [row for row, found in enumerate(rows) if found is None]:
            assert chunk.exclude is not None
            alone = [Chunk([chunk.queries[row]], chunk.exclude[[row]]) for row in starving]
            for row, answer in zip(starving, self._run(alone, wanted, None), strict=True):
                rows[row] = None if isinstance(answer, list) else answer[0]
            wanted *= 2
        return trim(RankedPairs.from_rows(row for row in rows if row is not None), self._best)


def cluster_search(
    cluster: Cluster,
    searchable: Searchable,
    home: DataBin,
    settings: SearchSettings,
    exclusion: str,
    best: Selection,
    partitions: int | None,
    shared: str | None,
) -> Callable[[int, Iterable[Chunk], str | None], Iterator[Found]]:
    """Return a search on the cluster: call it with the number of chunks, the chunks and the folder of the parts.

    It yields the pairs of the chunks in order, or None for each chunk that an executor has written to the folder, if
    there is one. Chunks are handed out in ``partitions``. Executors take the data-bin and its index from the path
    ``shared``, or from a copy that is sent to each. If the index is in shards, a task is a partition and a shard.
    """
    engine = searchable.engine
    sharded = isinstance(engine, ShardedIndex)
    if shared:
        folder = SharedFolder(shared, shipped=False)
    else:
        folder = cluster.ship("memory", needed_files(home, settings.engine, index_alone=sharded))
    if isinstance(engine, ShardedIndex):
        index, dictionary = engine.folder.name, home.dictionary_path(home.source_lang).name
        made_from = tuple(sorted(searchable.identity.items()))
        shards = ShardsOnCluster(
            cluster,
            [
                (folder, index, dictionary, made_from, number, engine.count, settings, exclusion)
                for number in range(engine.count)
            ],
            settings,
            best,
        )
    copy_of = (folder, (home.source_lang, home.target_lang), settings, exclusion, home.fingerprint(TRAIN))

    def search(count: int, chunks: Iterable[Chunk], parts: str | None = None) -> Iterator[Found]:
        def search_group(group: list[Chunk]) -> list[Found]:
            if sharded:
                return shards.search(group, parts)
            return cluster.run(search_partition, [(copy_of, group, best, parts)])[0]

        wanted = partitions or max(2 * cluster.cores, -(-count // LARGEST_PARTITION))
        for results in cluster.map(search_group, groups(map(compact, chunks), -(-count // wanted))):
            yield from results

    return search


def compact(chunk: Chunk) -> Chunk:
    """Store a chunk's symbols in as few bytes as hold them, to be sent."""
    return chunk._replace(queries=[query.astype(np.int32) for query in chunk.queries])


def groups(chunks: Iterable[Chunk], size: int) -> Iterator[list[Chunk]]:
    """Group chunks by ``size``; the last group has what is left."""
    remaining = iter(chunks)
    while group := list(islice(remaining, size)):
        yield group


def needed_files(home: DataBin, engine: str, index_alone: bool) -> Iterator[tuple[Path, Path]]:
    """List the files that an executor needs, the index and the pairs, with their names in the data-bin."""
    patterns = [f"{index_folder(home, engine).name}/**/*", f"dict.{home.source_lang}.txt"]
    if not index_alone:
        patterns.append(f"dict.{home.target_lang}.txt")
        for lang in (home.source_lang, home.target_lang):
            patterns += [f"train*.{home.pair_name}.{lang}", f"train*.{home.pair_name}.{lang}.*"]
    for pattern in patterns:
        for path in home.folder.glob(pattern):
            if path.is_file():
                yield path, path.relative_to(home.folder)
