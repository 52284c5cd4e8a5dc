"""Opens the retriever over a data-bin's training set, for seg-attach and for sentences that come in live."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from fairseq_seg.data.attached import fingerprint
from fairseq_seg.data.databin import DataBin
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.lucene import build_index
from fairseq_seg.retrieval.retriever import Memory, Retriever
from fairseq_seg.retrieval.settings import SearchSettings
from fairseq_seg.retrieval.shards import build_shards, open_index, shard_count
from fairseq_seg.retrieval.unit import Symbols, Words


def open_retriever(
    home: DataBin,
    settings: SearchSettings,
    exclusion: str = "pair",
    shards: int | None = None,
    may_build: bool = True,
) -> tuple[Retriever, str]:
    """Returns a retriever over the training set of `home` and the set's fingerprint.

    The Lucene index lies beside the data; it is made first where it is missing, of other data, or not in the number of
    ``shards`` that is asked for. What is found does not depend on that number. Without ``may_build`` a missing index is
    an error.
    """
    source, target = home.pair("train")
    memory_print = fingerprint(source, target)
    memory = Memory(source, target)
    words = Words(home.dictionary(home.source_lang)) if "word" in settings[:2] else None
    query_unit, score_unit = (words if unit == "word" else Symbols() for unit in settings[:2])
    folder = index_folder(home)
    identity = {"memory": memory_print, "unit": query_unit.name, "pairs": len(memory)}

    def texts(part: slice) -> Iterator[str]:
        return (query_unit.text(memory.source[row]) for row in memory.ids[part])

    found = shard_count(folder, identity)
    if may_build and (not found or shards not in (None, found)):
        if (shards or 1) > 1:
            build_shards(folder, texts, identity, shards)
        else:
            build_index(folder, texts(slice(None)), identity)
    engine = open_index(folder, identity, settings.k1, settings.b)
    retriever = Retriever(memory, engine, query_unit, score_unit, settings.candidates, exclusion)
    return retriever, memory_print


def index_folder(home: DataBin) -> Path:
    """Names the folder of a data-bin's index."""
    return home.folder / f"index.{home.pair_name}.{home.source_lang}.lucene"


_worker: Retriever  # of a worker process


def _start_worker(home: tuple, settings: SearchSettings, exclusion: str) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says that it was stopped
    _worker, _ = open_retriever(DataBin(*home), settings, exclusion)


def _search(chunk: tuple) -> list[tuple]:
    return _worker.search_and_cover(*chunk)


@contextmanager
def retriever_pool(
    home: DataBin, settings: SearchSettings, exclusion: str, processes: int
) -> Iterator[Callable[[Iterable[tuple]], Iterator[list[tuple]]]]:
    """Several processes, each with a retriever and a Java machine of its own; call what it yields with chunks.

    A chunk is (queries, keys to exclude) of `Retriever.search_and_cover`; the results come in the order of the chunks.
    Threads would not do: Python's lock lets one of them search at a time. The index must be there already.
    """
    arguments = (home.folder, home.source_lang, home.target_lang), settings, exclusion
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, arguments)
    try:
        yield lambda chunks: pool.map(_search, chunks)
    except BrokenProcessPool:
        raise SegError(
            "A search process was killed, perhaps for want of memory; the same command, with fewer --processes, goes "
            "on from here."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
