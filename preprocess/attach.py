"""seg-attach: retrieves a memory for every example of a data-bin and writes it beside the binarized data."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.data.databin import DataBin
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.settings import SearchSettings

CHUNK = 500
# So many chunks are searched sooner than another process has started.
SMALL = 4


def parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    usual = SearchSettings()
    options = argparse.ArgumentParser(
        prog="seg-attach",
        description="Indexes the training set of a data-bin with Lucene and attaches to every example the ranked pairs "
        "that are most like it (Eq. 3 of the paper). How many of them a model uses is chosen later, with --memory-k.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    options.add_argument("data", metavar="DATA-BIN", help="the --destdir of fairseq-preprocess")
    options.add_argument("-s", "--source-lang", help="source language; by default the first of the data-bin")
    options.add_argument("-t", "--target-lang", help="target language; by default the second of the data-bin")
    options.add_argument("--splits", default="train,valid,test", help="splits to attach to, those that exist")
    options.add_argument("--memory-data", metavar="DATA-BIN", help="retrieve from the training set of another data-bin")
    options.add_argument("--candidates", type=positive, default=usual.candidates, help="pairs to choose from")
    options.add_argument("--keep", type=positive, default=16, help="pairs kept by fuzzy score, the largest --memory-k")
    units = ("symbol", "word")
    options.add_argument("--query-unit", choices=units, default=usual.query_unit, help="what Lucene searches for")
    options.add_argument("--score-unit", choices=units, default=usual.score_unit, help="what Eq. 3 compares")
    options.add_argument("--k1", type=float, default=usual.k1, help="BM25: how much repeats of a symbol count")
    options.add_argument("--b", type=float, default=usual.b, help="BM25: how much a longer sentence loses")
    options.add_argument("--min-score", type=float, default=0.0, help="leave out pairs with a lower fuzzy score")
    options.add_argument(
        "--exclude",
        choices=("pair", "source"),
        default="pair",
        help="in training, leave out pairs with the same source and target (the example itself is one), or all with "
        "the same source",
    )
    options.add_argument(
        "--processes", type=positive, default=os.cpu_count(), help="processes that search, each in half a gigabyte"
    )
    options.add_argument(
        "--shards",
        type=positive,
        help="cut the index into so many shards, for a memory that is too large for one; what is found is the same "
        "(without it, the index is taken as it is)",
    )
    options.add_argument(
        "--spark",
        metavar="MASTER",
        help="search on an Apache Spark cluster, as spark://host:7077, yarn or local[2], instead of in --processes",
    )
    options.add_argument(
        "--spark-partitions",
        type=positive,
        metavar="N",
        help="with --spark: cut a split into so many tasks (without it: 5,000 sentences each, or fewer where that "
        "leaves a core without work)",
    )
    options.add_argument(
        "--spark-index",
        metavar="PATH",
        help="with --spark: the memory's data-bin with its index on a path that all machines share (without it, a copy "
        "is sent to each)",
    )
    return options


def positive(text: str) -> int:
    """Reads an option that must be a whole number above zero."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return number


def attach(options: argparse.Namespace) -> None:
    """Attaches a memory to every split that `options` name."""
    from fairseq_seg.data.search import open_retriever, retriever_pool
    from fairseq_seg.retrieval.spark import check_master, connect

    if options.spark:
        check_master(options.spark)
    data = DataBin(options.data, options.source_lang, options.target_lang)
    home = DataBin(options.memory_data, data.source_lang, data.target_lang) if options.memory_data else data
    check_dictionaries(data, home)
    splits = [split for split in options.splits.split(",") if split in data.splits()]
    if not splits:
        raise SegError(f"{data.folder} has none of the splits {options.splits}; it has {', '.join(data.splits())}.")
    settings = SearchSettings(**{name: getattr(options, name) for name in SearchSettings._fields})
    retriever, memory_print = open_retriever(home, settings, options.exclude, options.shards)
    print(f"memory: {len(retriever.memory.source):,} pairs of {home.folder}", flush=True)
    with ExitStack() as stack:

        @cache
        def pool() -> Callable:
            return stack.enter_context(retriever_pool(home, settings, options.exclude, options.processes))

        @cache
        def on_cluster() -> Callable:
            from fairseq_seg.data.spark_search import cluster_search

            cluster = stack.enter_context(connect(options.spark))
            shared = options.spark_index and os.path.abspath(options.spark_index)
            if options.spark.startswith("local"):  # nothing has to be sent
                shared = shared or os.path.abspath(home.folder)
            memory = (retriever, home, settings, options.exclude, memory_print)
            return cluster_search(cluster, *memory, options.spark_partitions, shared)

        def search(count: int, chunks: Iterable[tuple]) -> Iterator[list[tuple]]:
            if not count:
                return iter(())
            if options.spark:
                return on_cluster()(count, chunks)
            # Few sentences are found before another process has started.
            if options.processes == 1 or count <= SMALL:
                return (retriever.search_and_cover(*chunk) for chunk in chunks)
            return pool()(chunks)

        for split in splits:
            attach_split(data, split, retriever, search, memory_print, settings, options)


def check_dictionaries(data: DataBin, home: DataBin) -> None:
    """Refuses a memory whose ids mean other symbols."""
    for lang in (data.source_lang, data.target_lang):
        if data.dictionary_path(lang).read_bytes() != home.dictionary_path(lang).read_bytes():
            raise SegError(
                f"{home.folder} has another dictionary for {lang} than {data.folder}; binarize it with "
                "--srcdict and --tgtdict of the latter."
            )


def attach_split(data: DataBin, split: str, retriever, search: Callable, memory_print: str, settings, options) -> None:
    """Retrieves for every example of a split, or goes on where a stopped run left off, and writes the attached file."""
    from fairseq_seg.data.attached import AttachedError, AttachedMemory, attached_path, fingerprint, write_attached
    from fairseq_seg.retrieval.retriever import OVERFETCH
    from fairseq_seg.retrieval.sequences import row_keys

    source, target = data.pair(split)
    exclude = None
    if split == "train":
        exclude = row_keys(source, target) if options.exclude == "pair" else row_keys(source)
    split_print = fingerprint(source, target)
    header = {
        "signature": "|".join(
            [
                f"engine:{retriever.engine.signature}",
                f"unit:{options.query_unit}/{options.score_unit}",
                f"fetch:{OVERFETCH}x",
                f"candidates:{options.candidates}",
                f"keep:{options.keep}",
                f"min:{options.min_score:g}",
                f"exclude:{options.exclude if split == 'train' else 'no'}",
                f"memory:{memory_print}",
                f"split:{split_print}",
            ]
        ),
        "kept": options.keep,
        "memory_fingerprint": memory_print,
        "split_fingerprint": split_print,
        "memory_data": os.path.relpath(options.memory_data, data.folder) if options.memory_data else None,
        "settings": settings._asdict() | {"min_score": options.min_score},
    }
    path = attached_path(data.folder, split, data.source_lang, data.target_lang)
    try:
        attached = AttachedMemory.load(path)
        finished = (attached.signature, attached.memory_data) == (header["signature"], header["memory_data"])
    except AttachedError:
        finished = False
    if not finished:
        partial = path.with_name(path.name + ".part")
        write_attached(path, header, retrieve(split, source, exclude, search, partial, header))
        shutil.rmtree(partial)
        attached = AttachedMemory.load(path)
    print(summary(split, attached, source))
    if exclude is not None:
        count = np.isin(exclude, retriever.keys).sum()
        copies = len(exclude) - len(np.unique(exclude))
        print(f"  the same {options.exclude} excluded for {count:,} sentences; {copies:,} of them repeat another")


def retrieve(split: str, source, exclude, search: Callable, partial: Path, header: dict) -> Iterator[tuple]:
    """Yields ids, scores and Alg. 1's marks of every example in order, from finished chunks where there are any.

    A chunk is a file in the folder ``partial``, written whole; chunks of other settings or data are thrown away.
    ``search`` finds the pairs of so many chunks, each (sentences, keys to exclude), in order.
    """
    from tqdm import tqdm

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
    with tqdm(total=len(source), desc=split, unit=" sentences", dynamic_ncols=True) as bar:
        for path, rows in chunks.items():
            if path.exists():
                bar.initial += rows.stop - rows.start  # not counted in the rate
            else:
                found = next(results)
                write_chunk(path, [keep(*pairs, header["kept"], header["settings"]["min_score"]) for pairs in found])
            bar.update(rows.stop - rows.start)
            yield from read_chunk(path)


def keep(ids: np.ndarray, scores: np.ndarray, marks: np.ndarray, count: int, min_score: float) -> tuple:
    """Keeps the best ``count`` pairs and those that Alg. 1 marks."""
    wanted = (marks | (np.arange(len(ids)) < count)) & (scores >= np.float32(min_score))
    return ids[wanted], scores[wanted], marks[wanted]


def write_chunk(path: Path, rows: list[tuple]) -> None:
    """Writes some rows beside their place and renames them, so that a chunk that exists is whole."""
    partial = path.with_suffix(".new")
    with open(partial, "wb") as file:
        ids, scores, marks = (np.concatenate(column) for column in zip(*rows, strict=True))
        np.savez(file, lengths=[len(row[0]) for row in rows], ids=ids, scores=scores, marks=marks)
    os.replace(partial, path)


def read_chunk(path: Path) -> Iterator[tuple]:
    """Yields the rows of a chunk."""
    with np.load(path) as chunk:
        cuts = np.cumsum(chunk["lengths"])[:-1]
        yield from zip(*(np.split(chunk[name], cuts) for name in ("ids", "scores", "marks")), strict=True)


def summary(split: str, attached, source) -> str:
    """Says in a few lines what was attached."""
    best = [scores[0] for _, scores, _ in attached if len(scores)]
    lines = [
        f"{split}: {len(attached):,} sentences, best fuzzy score {np.mean(best) if best else 0:.3f} on average, "
        f"{np.mean([marks.sum() for _, _, marks in attached] or [0]):.2f} pairs under adaptive selection",
        f"  {len(attached) - len(best):,} sentences without any pair, {(source.lengths == 0).sum():,} empty sentences",
        f"  {attached.signature}",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line; what goes wrong ends in one sentence."""
    options = parser().parse_args(arguments)
    if not options.spark and (options.spark_partitions or options.spark_index):
        sys.exit("seg-attach: --spark-partitions and --spark-index say how --spark works; name its master, too.")
    try:
        attach(options)
    except OSError as error:
        sys.exit(f"seg-attach: {error.filename or options.data} cannot be written or read: {error.strerror}.")
    except KeyboardInterrupt:
        sys.exit("seg-attach: stopped; the same command goes on from here.")


if __name__ == "__main__":
    main()
