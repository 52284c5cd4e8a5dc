"""seg-attach: retrieves a memory for every example of a data-bin and writes it beside the binarized data."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
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
    """Read an option that must be a whole number above zero."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above zero")
    return number


def attach(options: argparse.Namespace) -> None:
    """Attach ranked pairs to the splits that the options name."""
    from fairseq_seg.corpus.databin import DataBin
    from fairseq_seg.retrieval.attach import Attaching
    from fairseq_seg.retrieval.attach import attach as attach_to

    if not options.spark and (options.spark_partitions or options.spark_index):
        raise SegError("seg-attach: --spark-partitions and --spark-index say how --spark works; name its master, too.")
    named = vars(options)
    settings = SearchSettings.recorded(named)
    attaching = Attaching(settings=settings, **{f.name: named[f.name] for f in fields(Attaching) if f.name in named})
    attach_to(DataBin(options.data, options.source_lang, options.target_lang), options.splits.split(","), attaching)


@command("seg-attach", stopped="stopped; rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    attach(get_parser().parse_args(arguments))


if __name__ == "__main__":
    main()
