"""What Apache Spark adds to retrieval: the same sentences searched by seg-attach alone, in local[N] and on a cluster.

    python examples/benchmark/spark.py [DATA-BIN]

Everything is measured in one run, with as many processes as cores of Spark. The cluster is a standalone master with a
worker for each core, in this machine. "Start" is the time until the first sentence is found, with all that is started,
sent and opened for it; the rate is that of further rounds over all sentences.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from generated import generate
from rounds import add_json_option, spread, write_json

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.retrieval.attach import CHUNK
from fairseq_seg.retrieval.search import open_retriever, retriever_pool
from fairseq_seg.retrieval.spark import connect
from fairseq_seg.retrieval.spark_search import cluster_search

SETTINGS = SearchSettings()
ALONE = "seg-attach alone"


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", nargs="?", metavar="DATA-BIN", help="its training and test set; generated without it")
    options.add_argument("--pairs", type=int, default=20_000, help="size of the generated training set (20,000)")
    options.add_argument("--sentences", type=int, default=10_000, help="to search for, at most (10,000)")
    options.add_argument("--cores", type=int, default=2, help="processes, cores of Spark, workers (2)")
    options.add_argument("--rounds", type=int, default=3, help="measured after one that warms up (3)")
    options.add_argument("--shards", type=int, help="cut the index into so many shards")
    add_json_option(options)
    return options


@contextmanager
def alone(home: DataBin, options: argparse.Namespace) -> Iterator[Callable]:
    """Open the processes of seg-attach."""
    with retriever_pool(home, SETTINGS, "pair", options.cores) as pool:
        yield lambda count, chunks: pool(chunks)


@contextmanager
def on_spark(master: str, home: DataBin, options: argparse.Namespace) -> Iterator[Callable]:
    """Connect to Spark as seg-attach does; executors get a copy of the training set, except within one process."""
    retriever = open_retriever(home, SETTINGS, "pair", options.shards)
    shared = str(home.folder.resolve()) if master.startswith("local") else None
    with connect(master) as cluster:
        yield cluster_search(cluster, retriever, home, SETTINGS, "pair", None, shared)


def measure(opened, chunks: list[tuple], rounds: int) -> dict:
    """Measure seconds until the first sentence, and sentences per second in each round after one that warms up."""
    sentences = sum(len(queries) for queries, _ in chunks)
    begin = time.perf_counter()
    with opened as search:
        next(iter(search(1, [(chunks[0][0][:1], None)])))
        start = time.perf_counter() - begin
        rates = []
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            found = sum(len(rows) for rows in search(len(chunks), chunks))
            rates.append(found / (time.perf_counter() - begin))
            assert found == sentences
    return {"start_seconds": start, "sentences_per_second": rates[1:]}


def main() -> None:
    """Run the command line."""
    from standalone import loopback_settings, standalone_cluster

    options = parser().parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.data is None:
            generate(folder, options.pairs, options.sentences)
        home = DataBin(options.data or folder)
        open_retriever(home, SETTINGS, "pair", options.shards)  # makes the index
        pairs, queries = len(home.pair("train")[0]), list(home.pair("test")[0])[: options.sentences]
        chunks = [(queries[start : start + CHUNK], None) for start in range(0, len(queries), CHUNK)]
        environment = loopback_settings(folder)
        os.environ.update(environment)
        results = {ALONE: measure(alone(home, options), chunks, options.rounds)}
        local = f"local[{options.cores}]"
        results[local] = measure(on_spark(local, home, options), chunks, options.rounds)
        with standalone_cluster(folder, environment, options.cores) as cluster:
            name = f"standalone, {options.cores} workers"
            results[name] = measure(on_spark(cluster.master, home, options), chunks, options.rounds)
    usual = statistics.median(results[ALONE]["sentences_per_second"])
    compared = {name: [rate / usual for rate in row["sentences_per_second"]] for name, row in results.items()}
    print(f"\n{len(queries):,} sentences, memory of {pairs:,} pairs, {options.rounds} rounds\n")
    print("| | start (s) | sentences/s | of seg-attach alone |\n|---|---|---|---|")
    for name, row in results.items():
        rate = statistics.median(row["sentences_per_second"])
        print(f"| {name} | {row['start_seconds']:.1f} | {rate:.1f} | {spread(compared[name])} |")
    lines = {f"Spark {name}, of {ALONE}": of_alone for name, of_alone in compared.items() if name != ALONE}
    write_json(options.json, {"ratios": lines, "pairs": pairs, "sentences": len(queries), "rows": results})


if __name__ == "__main__":
    main()
