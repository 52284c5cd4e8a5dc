"""The retriever over a data-bin's training set, for seg-attach and for sentences that come in live."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.retriever import DistinctPairs, Engine, Retriever
from fairseq_seg.retrieval.shards import ENGINES, ShardedIndex, build_shards, open_engine, pairs_path, shard_count
from fairseq_seg.retrieval.unit import Unit, make_unit

logger = logging.getLogger(__name__)


class Searchable(NamedTuple):
    """The training set of a data-bin with its index, and the units of search and score."""

    pairs: DistinctPairs
    engine: Engine
    units: tuple[Unit, Unit]
    identity: dict  # what the index was made from


def open_training_set(
    home: DataBin, settings: SearchSettings, shards: int | None = None, may_build: bool = True
) -> Searchable:
    """Open the training set of `home` and its index.

    The index lies beside the data. It is built first if it is missing, damaged, of other data, or not in the number
    of ``shards`` that is asked for; what is found does not depend on that number. Without ``may_build`` a missing or
    damaged index is an error.
    """
    source, target = home.pair(TRAIN)
    pairs = DistinctPairs(source, target)
    query_unit, score_unit = (make_unit(name, home.spellings[0]) for name in settings[:2])
    folder = index_folder(home, settings.engine)
    identity = {"memory": home.fingerprint(TRAIN), "unit": query_unit.name, "pairs": len(pairs)}

    def texts(part: slice) -> Iterator[str]:
        return (query_unit.text(source[row]) for row in pairs.ids[part])

    keys_of = cache(pairs.exclusion_keys)

    def columns(part: slice) -> dict[str, np.ndarray]:
        rows = pairs.ids[part]
        sources = Sequences.from_rows(source[row] for row in rows)
        keys = {f"{exclusion}_keys": keys_of(exclusion)[part] for exclusion in ("pair", "source")}
        return {"rows": rows, "symbols": sources.flat.astype(source.flat.dtype), "lengths": sources.lengths} | keys

    def build(count: int | None) -> None:
        if count is not None and count > 1:
            build_shards(folder, texts, identity, count, settings.engine, columns)
        else:
            ENGINES[settings.engine].build_index(folder, texts(slice(None)), identity)

    found = shard_count(folder, identity)
    if may_build and (not found or shards not in (None, found)):
        build(shards)
    try:
        engine = open_engine(folder, identity, settings)
        for number in range(engine.count if isinstance(engine, ShardedIndex) else 0):
            np.load(pairs_path(folder, number)).close()  # executors read it
    except SegError:
        raise
    except Exception as error:  # whatever a damaged file makes numpy or Lucene raise: an index can be derived again
        damage = f"{folder} is damaged ({str(error).partition(chr(10))[0] or type(error).__name__})"
        if not may_build:
            raise SegError(f"{damage}: run seg-attach to rebuild it.") from None
        logger.warning("%s and is rebuilt now", damage)
        build(shards or found)
        engine = open_engine(folder, identity, settings)
    return Searchable(pairs, engine, (query_unit, score_unit), identity)


def open_retriever(
    home: DataBin, settings: SearchSettings, exclusion: str = "pair", shards: int | None = None, may_build: bool = True
) -> Retriever:
    """Return a retriever over the training set of `home`; see `open_training_set`."""
    return make_retriever(open_training_set(home, settings, shards, may_build), settings, exclusion)


def make_retriever(searchable: Searchable, settings: SearchSettings, exclusion: str) -> Retriever:
    """Return a retriever over an open training set, with every source spelled out in memory."""
    return Retriever(searchable.pairs, searchable.engine, *searchable.units, settings.candidates, exclusion)


def index_folder(home: DataBin, engine: str) -> Path:
    """Name the folder of a data-bin's index."""
    return home.folder / f"index.{home.pair_name}.{home.source_lang}.{engine}"


class Chunk(NamedTuple):
    """Consecutive sentences of a split."""

    queries: Sequence[np.ndarray]  # token ids without eos
    exclude: np.ndarray | None = None  # the key that each excludes, see `Retriever.search`
    name: str = ""  # of the part that holds their pairs


_worker: Retriever  # of a worker process


def _start_worker(home: tuple, settings: SearchSettings, exclusion: str) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says that it was stopped
    _worker = open_retriever(DataBin(*home), settings, exclusion)


def _search(chunk: Chunk) -> RankedPairs:
    return _worker.search(chunk.queries, chunk.exclude)


@contextmanager
def retriever_pool(
    home: DataBin, settings: SearchSettings, exclusion: str, processes: int
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[RankedPairs]]]:
    """Start processes, each with its own retriever; call what this yields with chunks.

    The results come in the order of the chunks.
    Threads would not do: Python's lock lets one of them search at a time. The index must be there already.
    """
    arguments = (home.folder, home.source_lang, home.target_lang), settings, exclusion
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, arguments)
    try:
        yield lambda chunks: pool.map(_search, chunks)
    except BrokenProcessPool:
        raise SegError(
            "A search process was killed, perhaps because the machine ran out of memory: rerun the command with fewer "
            "--processes to resume."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
