"""The retriever over a data-bin's training set, for seg-attach and for sentences that come in live."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.lucene import build_index
from fairseq_seg.retrieval.retriever import DistinctPairs, Retriever
from fairseq_seg.retrieval.shards import build_shards, open_engine, shard_count
from fairseq_seg.retrieval.unit import make_unit

logger = logging.getLogger(__name__)


def open_retriever(
    home: DataBin, settings: SearchSettings, exclusion: str = "pair", shards: int | None = None, may_build: bool = True
) -> Retriever:
    """Return a retriever over the training set of `home`.

    The Lucene index lies beside the data. It is built first if it is missing, damaged, of other data, or not in the
    number of ``shards`` that is asked for; what is found does not depend on that number. Without ``may_build`` a
    missing or damaged index is an error.
    """
    source, target = home.pair(TRAIN)
    pairs = DistinctPairs(source, target)
    query_unit, score_unit = (make_unit(name, home.spellings[0]) for name in settings[:2])
    folder = index_folder(home)
    identity = {"memory": home.fingerprint(TRAIN), "unit": query_unit.name, "pairs": len(pairs)}

    def texts(part: slice) -> Iterator[str]:
        return (query_unit.text(source[row]) for row in pairs.ids[part])

    def build(count: int | None) -> None:
        if count is not None and count > 1:
            build_shards(folder, texts, identity, count)
        else:
            build_index(folder, texts(slice(None)), identity)

    found = shard_count(folder, identity)
    if may_build and (not found or shards not in (None, found)):
        build(shards)
    try:
        engine = open_engine(folder, identity, settings.k1, settings.b)
    except SegError:
        raise
    except Exception as error:  # whatever a damaged file makes numpy or Lucene raise: an index can be derived again
        damage = f"{folder} is damaged ({str(error).partition(chr(10))[0] or type(error).__name__})"
        if not may_build:
            raise SegError(f"{damage}: run seg-attach to rebuild it.") from None
        logger.warning("%s and is rebuilt now", damage)
        build(shards or found)
        engine = open_engine(folder, identity, settings.k1, settings.b)
    return Retriever(pairs, engine, query_unit, score_unit, settings.candidates, exclusion)


def index_folder(home: DataBin) -> Path:
    """Name the folder of a data-bin's index."""
    return home.folder / f"index.{home.pair_name}.{home.source_lang}.lucene"


# Sentences (token ids without eos) and the key that each excludes, as `Retriever.search` takes them.
Chunk = tuple[Sequence[np.ndarray], np.ndarray | None]

_worker: Retriever  # of a worker process


def _start_worker(home: tuple, settings: SearchSettings, exclusion: str) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says that it was stopped
    _worker = open_retriever(DataBin(*home), settings, exclusion)


def _search(chunk: Chunk) -> RankedPairs:
    return _worker.search(*chunk)


@contextmanager
def retriever_pool(
    home: DataBin, settings: SearchSettings, exclusion: str, processes: int
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[RankedPairs]]]:
    """Start processes, each with its own retriever and Java machine; call what this yields with chunks.

    A chunk is (queries, keys to exclude) of `Retriever.search`; the results come in the order of the chunks.
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
