"""Attach ranked pairs to every example of a data-bin: resumable, in several processes or on a cluster."""

from __future__ import annotations

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
from fairseq_seg.files import UNFINISHED
from fairseq_seg.retrieval.fuzzy import OVERFETCH
from fairseq_seg.retrieval.parts import open_parts, part_name, read_part, trim, write_part
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import Chunk, Searchable, make_retriever, open_training_set, retriever_pool
from fairseq_seg.retrieval.spark import check_master, connect, wait_for_part

CHUNK = 500
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
    spark_parts: str | None = None

    @property
    def best(self) -> Selection:
        """The pairs that are kept of each sentence, besides those that Alg. 1 picks."""
        return Selection(self.keep, "topk", self.min_score)


def attach(data: DataBin, splits: list[str], attaching: Attaching) -> None:
    """Attach ranked pairs to some splits, and print what was found."""
    if attaching.spark:
        check_master(attaching.spark)
    home = DataBin(attaching.memory_data, data.source_lang, data.target_lang) if attaching.memory_data else data
    check_dictionaries(data, home)
    present = [split for split in splits if split in data.splits()]
    if not present:
        raise SegError(f"{data.folder} has none of the splits {','.join(splits)}, only {', '.join(data.splits())}.")
    searchable = open_training_set(home, attaching.settings, attaching.shards)
    print(f"memory: {len(searchable.pairs.source):,} pairs of {home.folder}", flush=True)
    with ExitStack() as stack:
        search = ChunkSearch(searchable, home, attaching, stack)
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

    def __init__(self, searchable: Searchable, home: DataBin, attaching: Attaching, stack: ExitStack):
        """Search as `Attaching` says; processes and connections end with the stack."""
        self.searchable, self._home, self._attaching, self._stack = searchable, home, attaching, stack

    @cached_property
    def _retriever(self) -> Retriever:
        # Not made where other processes search: it spells out every source in memory.
        return make_retriever(self.searchable, self._attaching.settings, self._attaching.exclude)

    @cached_property
    def _pool(self) -> Callable[[Iterable[Chunk]], Iterator[RankedPairs]]:
        attaching = self._attaching
        pool = retriever_pool(self._home, attaching.settings, attaching.exclude, attaching.processes)
        return self._stack.enter_context(pool)

    @cached_property
    def _cluster(self) -> Callable[[int, Iterable[Chunk], str | None], Iterator[RankedPairs | None]]:
        from fairseq_seg.retrieval.spark_search import cluster_search

        attaching = self._attaching
        assert attaching.spark is not None
        cluster = self._stack.enter_context(connect(attaching.spark))
        shared = attaching.spark_index and os.path.abspath(attaching.spark_index)
        if attaching.spark.startswith("local"):  # nothing has to be sent
            shared = shared or os.path.abspath(self._home.folder)
        options = attaching.settings, attaching.exclude, attaching.best, attaching.spark_partitions, shared
        return cluster_search(cluster, self.searchable, self._home, *options)

    def __call__(self, count: int, chunks: Iterable[Chunk], parts: Path) -> Iterator[RankedPairs | None]:
        """Yield the best pairs of `count` chunks in order, or None for one that is already written in ``parts``."""
        if not count:
            return iter(())
        if self._attaching.spark:
            return self._cluster(count, chunks, str(parts.absolute()) if self._attaching.spark_parts else None)
        found: Iterable[RankedPairs]
        if self._attaching.processes == 1 or count <= SMALL:
            found = (self._retriever.search(chunk.queries, chunk.exclude) for chunk in chunks)
        else:
            found = self._pool(chunks)
        return (trim(pairs, self._attaching.best) for pairs in found)


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
                f"engine:{search.searchable.engine.signature}",
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
        parts = Path(attaching.spark_parts or path.parent) / (path.name + UNFINISHED)
        paths = retrieve(split, source, exclude, search, parts, header)
        write_attached(path, header, map(read_part, paths))
        shutil.rmtree(parts)
        attached = AttachedPairs.load(path)
    print(summary(split, attached, source))
    if exclude is not None:
        count = np.isin(exclude, search.searchable.pairs.exclusion_keys(attaching.exclude)).sum()
        copies = len(exclude) - len(np.unique(exclude))
        print(f"  the same {attaching.exclude} excluded for {count:,} sentences; {copies:,} of them repeat another")


def retrieve(
    split: str, source: Sequences, exclude: np.ndarray | None, search: ChunkSearch, parts: Path, header: dict
) -> list[Path]:
    """Find the pairs of all examples, chunk by chunk, and return the files of the finished parts in order.

    The pairs of a chunk are a part in the folder ``parts``; those of an earlier run are not searched again.
    """
    open_parts(parts, header)
    starts = range(0, len(source), CHUNK)
    chunks = {parts / part_name(start): slice(start, min(start + CHUNK, len(source))) for start in starts}
    missing = {path: rows for path, rows in chunks.items() if not path.exists()}
    results = search(
        len(missing),
        (
            Chunk([source[row] for row in range(r.start, r.stop)], None if exclude is None else exclude[r], path.name)
            for path, r in missing.items()
        ),
        parts,
    )
    with tqdm(total=len(source), desc=split, unit=" sentences", dynamic_ncols=True) as bar:
        for path, rows in chunks.items():
            if path in missing:
                found = next(results)
                if found is None:
                    wait_for_part(path)
                else:
                    write_part(path, found)
            else:
                bar.initial += rows.stop - rows.start  # not counted in the rate
            bar.update(rows.stop - rows.start)
    return list(chunks)


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
