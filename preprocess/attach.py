"""seg-attach: retrieve pairs for every sentence of a data-bin and write them beside the binarized data."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.cli.options import DefaultsFormatter, add_data_bin, positive
from fairseq_seg.corpus.settings import ENGINES, SearchSettings
from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    usual = SearchSettings()
    parser = argparse.ArgumentParser(
        prog="seg-attach",
        description="Index the training set of a data-bin, and attach to every sentence the pairs most "
        "similar to it, ranked by fuzzy score (Eq. 3 of the paper). --memory-k sets how many of them a model uses.",
        formatter_class=DefaultsFormatter,
    )
    add_data_bin(parser, "the --destdir of fairseq-preprocess")
    add, units = parser.add_argument, ("symbol", "word")
    for split in ("train", "valid", "test"):
        help = f"for protected tokens: the --{split}pref of fairseq-preprocess, where seg-subword left their values"
        add(f"--{split}pref", metavar="PREFIX", help=help)
    add("--splits", default="train,valid,test", help="splits to attach pairs to, if they exist")
    add("--memory-data", metavar="DATA-BIN", help="retrieve from the training set of another data-bin")
    add("--candidates", type=positive, default=usual.candidates, help="pairs per sentence to choose from")
    add("--keep", type=positive, default=16, help="pairs per sentence to keep: the largest possible --memory-k")
    add("--query-unit", choices=units, default=usual.query_unit, help="what the engine searches for")
    help = "search engine: Lucene, or grams (pairs of neighbouring symbols, in numpy: quicker, five times as large)"
    add("--engine", choices=ENGINES, default=usual.engine, help=help)
    add("--score-unit", choices=units, default=usual.score_unit, help="what Eq. 3 compares")
    add("--k1", type=float, default=usual.k1, help="BM25: how strongly repeated symbols count")
    add("--b", type=float, default=usual.b, help="BM25: how strongly long sentences are penalised")
    add("--min-score", type=float, default=0.0, help="leave out pairs with a lower fuzzy score")
    help = (
        "for training sentences, leave out pairs with the same source and target (which includes the sentence itself)"
    )
    add("--exclude", choices=("pair", "source"), default="pair", help=f"{help}, or all pairs with the same source")
    help = "number of search processes, each using up to half a gigabyte"
    add("--processes", type=positive, default=os.cpu_count(), help=help)
    help = "split the index into this many shards, for a training set that is too large for one process; the result is"
    add("--shards", type=positive, help=f"{help} the same (without it, an existing index is used as it is)")
    help = "search on an Apache Spark cluster (spark://host:7077, yarn or local[2]) instead of in --processes"
    add("--spark", metavar="MASTER", help=help)
    help = (
        "with --spark: divide a split into this many tasks (without it, 5,000 sentences each, or fewer if a core would"
    )
    add("--spark-partitions", type=positive, metavar="N", help=f"{help} otherwise be idle)")
    help = (
        "with --spark: a data-bin with the training set and its index, on a path that all machines share (without it,"
    )
    add("--spark-index", metavar="PATH", help=f"{help} each machine is sent a copy)")
    help = "with --spark: a folder on a path that all machines share, where executors write what they find"
    add("--spark-parts", metavar="PATH", help=f"{help} (without it, this process receives and writes it)")
    return parser


@command("seg-attach", stopped="stopped. Rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    if not options.spark and (options.spark_partitions or options.spark_index or options.spark_parts):
        raise SegError("--spark-partitions, --spark-index and --spark-parts need --spark MASTER: add it, or drop them.")
    from fairseq_seg.corpus.databin import DataBin
    from fairseq_seg.corpus.encoding import place_values
    from fairseq_seg.retrieval.attach import Attaching, attach

    named = vars(options)
    settings = SearchSettings.recorded(named)
    attaching = Attaching(settings=settings, **{f.name: named[f.name] for f in fields(Attaching) if f.name in named})
    data = DataBin(options.data, options.source_lang, options.target_lang)
    place_values(data, {split: named[f"{split}pref"] for split in ("train", "valid", "test")})
    attach(data, options.splits.split(","), attaching)


if __name__ == "__main__":
    main()
