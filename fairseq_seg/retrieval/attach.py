"""Attach ranked pairs to every example of a data-bin: resumable, in several processes or on a cluster."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from tqdm import tqdm

from fairseq_seg.corpus.attached import AttachedError, AttachedPairs, write_attached
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences, row_keys
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.files import UNFINISHED, write_whole
from fairseq_seg.retrieval.fuzzy import OVERFETCH
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import Chunk, open_retriever, retriever_pool
from fairseq_seg.retrieval.spark import check_master, connect

CHUNK = 500
CHUNK_COLUMNS = ("starts", "ids", "scores", "covering")
# This many chunks are searched before another process has started.
SMALL = 4


@dataclass
class Attaching:
    """What to attach, and how to search for it."""

    memory_data: str | None = None  # the data-bin whose training set is searched; by default the splits' own
    settings: SearchSettings = field(default_factory=SearchSettings)
    keep: int = 16
    min_score: float = 0.0
    exclude: str = "pair"
    processes: int = 1
    shards: int | None = None
    spark: str | None = None
    spark_partitions: int | None = None
    spark_index: str | None = None


def attach(data: DataBin, splits: list[str], attaching: Attaching) -> None:
    """Attach ranked pairs to some splits, and print what was found."""
    if attaching.spark:
        check_master(attaching.spark)
    home = DataBin(attaching.memory_data, data.source_lang, data.target_lang) if attaching.memory_data else data
    check_dictionaries(data, home)
    present = [split for split in splits if split in data.splits()]
    if not present:
        raise SegError(f"{data.folder} has none of the splits {','.join(splits)}, only {', '.join(data.splits())}.")
    retriever = open_retriever(home, attaching.settings, attaching.exclude, attaching.shards)
    print(f"memory: {len(retriever.pairs.source):,} pairs of {home.folder}", flush=True)
    with ExitStack() as stack:
        search = ChunkSearch(retriever, home, attaching, stack)
        for split in present:
            attach_split(data, split, home, search, attaching)


def check_dictionaries(data: DataBin, home: DataBin) -> None:
    """Refuse a training set whose ids mean other symbols."""
    for lang in (data.source_lang, data.target_lang):
        if data.dictionary_path(lang).read_bytes() != home.dictionary_path(lang).read_bytes():
            raise SegError(
                f"{home.folder} has another dictionary for {lang} than {data.folder}: binarize it with "
                "--srcdict and --tgtdict of the latter."
            )


class ChunkSearch:
    """Finds the pairs of chunks of sentences: in this process, in several, or on a cluster."""

    def __init__(self, retriever: Retriever, home: DataBin, attaching: Attaching, stack: ExitStack):
        """Search as `Attaching` says; processes and connections end with the stack."""
        self.retriever, self._home, self._attaching, self._stack = retriever, home, attaching, stack

    @cached_property
    def _pool(self) -> Callable[[Iterable[Chunk]], Iterator[RankedPairs]]:
        attaching = self._attaching
        pool = retriever_pool(self._home, attaching.settings, attaching.exclude, attaching.processes)
        return self._stack.enter_context(pool)

    @cached_property
    def _cluster(self) -> Callable[[int, Iterable[Chunk]], Iterator[RankedPairs]]:
        from fairseq_seg.retrieval.spark_search import cluster_search

        attaching = self._attaching
        assert attaching.spark is not None
        cluster = self._stack.enter_context(connect(attaching.spark))
        shared = attaching.spark_index and os.path.abspath(attaching.spark_index)
        if attaching.spark.startswith("local"):  # nothing has to be sent
            shared = shared or os.path.abspath(self._home.folder)
        options = attaching.settings, attaching.exclude, attaching.spark_partitions, shared
        return cluster_search(cluster, self.retriever, self._home, *options)

    def __call__(self, count: int, chunks: Iterable[Chunk]) -> Iterator[RankedPairs]:
        """Yield the pairs of `count` chunks in order."""
        if not count:
            return iter(())
        if self._attaching.spark:
            return self._cluster(count, chunks)
        if self._attaching.processes == 1 or count <= SMALL:
            return (self.retriever.search(*chunk) for chunk in chunks)
        return self._pool(chunks)


def attach_split(data: DataBin, split: str, home: DataBin, search: ChunkSearch, attaching: Attaching) -> None:
    """Attach pairs to every example of a split, resuming a stopped run, and print a summary."""
    source, target = data.pair(split)
    exclude = None
    if split == TRAIN:
        exclude = row_keys(source, target) if attaching.exclude == "pair" else row_keys(source)
    settings = attaching.settings
    header = {
        "signature": "|".join(
            [
                f"engine:{search.retriever.engine.signature}",
                f"unit:{settings.query_unit}/{settings.score_unit}",
                f"fetch:{OVERFETCH}x",
                f"candidates:{settings.candidates}",
                f"keep:{attaching.keep}",
                f"min:{attaching.min_score:g}",
                f"exclude:{attaching.exclude if split == TRAIN else 'no'}",
                f"memory:{home.fingerprint(TRAIN)}",
                f"split:{data.fingerprint(split)}",
            ]
        ),
        "kept": attaching.keep,
        "memory_fingerprint": home.fingerprint(TRAIN),
        "split_fingerprint": data.fingerprint(split),
        "memory_data": os.path.relpath(home.folder, data.folder) if attaching.memory_data else None,
        "settings": settings._asdict() | {"min_score": attaching.min_score},
    }
    path = data.attached_path(split)
    try:
        attached = AttachedPairs.load(path)
        finished = (attached.signature, attached.memory_data) == (header["signature"], header["memory_data"])
    except AttachedError:
        finished = False
    if not finished:
        partial = path.with_name(path.name + UNFINISHED)
        write_attached(path, header, retrieve(split, source, exclude, search, partial, header))
        shutil.rmtree(partial)
        attached = AttachedPairs.load(path)
    print(summary(split, attached, source))
    if exclude is not None:
        count = np.isin(exclude, search.retriever.keys).sum()
        copies = len(exclude) - len(np.unique(exclude))
        print(f"  the same {attaching.exclude} excluded for {count:,} sentences; {copies:,} of them repeat another")


def retrieve(
    split: str, source: Sequences, exclude: np.ndarray | None, search: ChunkSearch, partial: Path, header: dict
) -> Iterator[RankedPairs]:
    """Yield the pairs of all examples in order, chunk by chunk; finished chunks are not searched again.

    A chunk is a file in the folder ``partial``, written whole; chunks of other settings or data are thrown away.
    """
    made_for = partial / "header.json"
    text = json.dumps(header, sort_keys=True)
    if not made_for.exists() or made_for.read_text(encoding="utf-8") != text:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        made_for.write_text(text, encoding="utf-8")
    chunks = {
        partial / f"{start:010}.npz": slice(start, min(start + CHUNK, len(source)))
        for start in range(0, len(source), CHUNK)
    }
    missing = [rows for path, rows in chunks.items() if not path.exists()]
    results = search(
        len(missing),
        (([source[row] for row in range(r.start, r.stop)], None if exclude is None else exclude[r]) for r in missing),
    )
    best = Selection(header["kept"], "topk", header["settings"]["min_score"])
    with tqdm(total=len(source), desc=split, unit=" sentences", dynamic_ncols=True) as bar:
        for path, rows in chunks.items():
            if path.exists():
                bar.initial += rows.stop - rows.start  # not counted in the rate
            else:
                found = trim(next(results), best)
                with write_whole(path) as file:
                    np.savez(file, **{name: getattr(found, name) for name in CHUNK_COLUMNS})
            bar.update(rows.stop - rows.start)
            with np.load(path) as chunk:
                yield RankedPairs(*(chunk[name] for name in CHUNK_COLUMNS))


def trim(found: RankedPairs, best: Selection) -> RankedPairs:
    """Keep the best pairs of each example, and the ones that Alg. 1 picks."""
    wanted = found.covering.astype(bool) | (found.ranks < best.k)
    return found.keep(wanted & (found.scores >= np.float32(best.min_score)))


def summary(split: str, attached: AttachedPairs, source: Sequences) -> str:
    """Say in a few lines what was attached."""
    ranked = attached.ranked
    best = ranked.scores[ranked.starts[:-1][ranked.counts > 0]]
    adaptive = ranked.covering.sum() / len(ranked) if len(ranked) else 0.0
    lines = [
        f"{split}: {len(ranked):,} sentences, best fuzzy score {best.mean() if len(best) else 0:.3f} on average, "
        f"{adaptive:.2f} pairs under adaptive selection",
        f"  {len(ranked) - len(best):,} sentences without any pair, {(source.lengths == 0).sum():,} empty sentences",
        f"  {attached.signature}",
    ]
    return "\n".join(lines)
