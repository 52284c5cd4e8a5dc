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
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rounds import add_data_options, data_folder, new_parser, print_table, spread, write_json
from standalone import loopback_settings, standalone_cluster

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.retrieval.attach import CHUNK, Attaching
from fairseq_seg.retrieval.search import Chunk, open_training_set, retriever_pool
from fairseq_seg.retrieval.spark import connect
from fairseq_seg.retrieval.spark_search import cluster_search

SETTINGS = SearchSettings()
ALONE = "seg-attach alone"


@contextmanager
def alone(home: DataBin, options: argparse.Namespace) -> Iterator[Callable]:
    """Open the processes of seg-attach."""
    with retriever_pool(home, SETTINGS, "pair", options.cores) as pool:
        yield lambda count, chunks: pool(chunks)


@contextmanager
def on_spark(master: str, home: DataBin, options: argparse.Namespace) -> Iterator[Callable]:
    """Connect to Spark as seg-attach does; executors get a copy of the training set, except within one process."""
    searchable = open_training_set(home, SETTINGS, options.shards)
    shared = str(home.folder.resolve()) if master.startswith("local") else None
    with connect(master) as cluster:
        yield cluster_search(cluster, searchable, home, SETTINGS, "pair", Attaching().best, None, shared)


def measure(opened, chunks: list[Chunk], rounds: int) -> dict:
    """Measure seconds until the first sentence, and each round after one that warms up.

    Of a round: sentences per second, and this process's own processor time per sentence, in milliseconds.
    """
    sentences = sum(len(chunk.queries) for chunk in chunks)
    begin = time.perf_counter()
    with opened as search:
        next(iter(search(1, [Chunk(chunks[0].queries[:1])])))
        start = time.perf_counter() - begin
        rates, own = [], []
        for _ in range(rounds + 1):
            begin, used = time.perf_counter(), time.process_time()
            found = sum(len(rows) for rows in search(len(chunks), chunks))
            rates.append(found / (time.perf_counter() - begin))
            own.append(1000 * (time.process_time() - used) / found)
            assert found == sentences
    return {"start_seconds": start, "sentences_per_second": rates[1:], "own_ms": own[1:]}


def main() -> None:
    """Run the command line."""
    parser = new_parser(__doc__)
    add_data_options(parser)
    for name, default, meaning in (
        ("--sentences", 10_000, "how many to search for, at most"),
        ("--cores", 2, "processes, cores of Spark, workers"),
        ("--rounds", 3, "rounds measured after one that warms up"),
        ("--shards", None, "split the index into this many shards"),
    ):
        parser.add_argument(name, type=int, default=default, help=meaning)
    options = parser.parse_args()
    with data_folder(options, options.sentences) as data, tempfile.TemporaryDirectory() as settings:
        home, folder = DataBin(data), Path(settings)
        open_training_set(home, SETTINGS, options.shards)  # makes the index
        pairs, queries = len(home.pair("train")[0]), list(home.pair("test")[0])[: options.sentences]
        chunks = [Chunk(queries[start : start + CHUNK]) for start in range(0, len(queries), CHUNK)]
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
    print(f"\n{len(queries):,} sentences, memory of {pairs:,} pairs, {options.rounds} rounds")
    rows = []
    for name, row in results.items():
        rate = statistics.median(row["sentences_per_second"])
        own = f"{statistics.median(row['own_ms']):.3f}"
        rows.append((name, f"{row['start_seconds']:.1f}", f"{rate:.1f}", spread(compared[name]), own))
    print_table(" | start (s) | sentences/s | of seg-attach alone | this process, ms per sentence", rows)
    lines = {f"Spark {name}, of {ALONE}": of_alone for name, of_alone in compared.items() if name != ALONE}
    write_json(options.json, {"ratios": lines, "pairs": pairs, "sentences": len(queries), "rows": results})


if __name__ == "__main__":
    main()
