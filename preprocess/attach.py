"""seg-attach: retrieve pairs for every example of a data-bin and write them beside the binarized data."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.cli.options import DefaultsFormatter, add_data_bin, positive
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    usual = SearchSettings()
    parser = argparse.ArgumentParser(
        prog="seg-attach",
        description="Index the training set of a data-bin with Lucene and attach to every example the ranked pairs "
        "that are most like it (Eq. 3 of the paper). How many of them a model uses is chosen later, with --memory-k.",
        formatter_class=DefaultsFormatter,
    )
    add_data_bin(parser, "the --destdir of fairseq-preprocess")
    parser.add_argument("--splits", default="train,valid,test", help="splits to attach to, if they exist")
    parser.add_argument("--memory-data", metavar="DATA-BIN", help="retrieve from the training set of another data-bin")
    parser.add_argument("--candidates", type=positive, default=usual.candidates, help="pairs to choose from")
    parser.add_argument("--keep", type=positive, default=16, help="pairs kept by fuzzy score, the largest --memory-k")
    units = ("symbol", "word")
    parser.add_argument("--query-unit", choices=units, default=usual.query_unit, help="what Lucene searches for")
    parser.add_argument("--score-unit", choices=units, default=usual.score_unit, help="what Eq. 3 compares")
    parser.add_argument("--k1", type=float, default=usual.k1, help="BM25: how much repeats of a symbol count")
    parser.add_argument("--b", type=float, default=usual.b, help="BM25: how much a longer sentence loses")
    parser.add_argument("--min-score", type=float, default=0.0, help="leave out pairs with a lower fuzzy score")
    parser.add_argument(
        "--exclude",
        choices=("pair", "source"),
        default="pair",
        help="in training, leave out pairs with the same source and target (the example itself is one), or all with "
        "the same source",
    )
    parser.add_argument(
        "--processes", type=positive, default=os.cpu_count(), help="processes that search, each in half a gigabyte"
    )
    parser.add_argument(
        "--shards",
        type=positive,
        help="cut the index into this many shards, for a training set that is too large for one; what is found is the "
        "same (without it, an existing index is used whatever its shards)",
    )
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="search on an Apache Spark cluster (spark://host:7077, yarn or local[2]) instead of in --processes",
    )
    parser.add_argument(
        "--spark-partitions",
        type=positive,
        metavar="N",
        help="with --spark: cut a split into this many tasks (without it, 5,000 sentences each, or fewer if that would "
        "leave a core idle)",
    )
    parser.add_argument(
        "--spark-index",
        metavar="PATH",
        help="with --spark: the data-bin of the training set with its index, on a path that all machines share "
        "(without it, a copy is sent to each)",
    )
    return parser


@command("seg-attach", stopped="stopped; rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    if not options.spark and (options.spark_partitions or options.spark_index):
        raise SegError("--spark-partitions and --spark-index are for --spark: name its master, too.")
    from fairseq_seg.corpus.databin import DataBin
    from fairseq_seg.retrieval.attach import Attaching, attach

    named = vars(options)
    settings = SearchSettings.recorded(named)
    attaching = Attaching(settings=settings, **{f.name: named[f.name] for f in fields(Attaching) if f.name in named})
    attach(DataBin(options.data, options.source_lang, options.target_lang), options.splits.split(","), attaching)


if __name__ == "__main__":
    main()
