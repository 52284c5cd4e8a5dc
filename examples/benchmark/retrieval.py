"""Measures the quality and the speed of the retrieval on a data-bin, against brute force and two other engines.

    python examples/benchmark/retrieval.py DATA-BIN

Everything is measured in one run, on the same training set and the same sentences of the test set.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq_seg.data.attached import write_attached
from fairseq_seg.data.databin import DataBin
from fairseq_seg.data.search import SearchSettings, open_retriever, retriever_pool
from fairseq_seg.retrieval.fuzzy import fuzzy_scores
from fairseq_seg.retrieval.lucene import LuceneIndex, build_index, start_java
from fairseq_seg.retrieval.retriever import OVERFETCH, Memory, Retriever
from fairseq_seg.retrieval.sequences import Sequences
from fairseq_seg.retrieval.unit import Symbols
from preprocess.attach import keep, parser

DEFAULTS = parser().parse_args(["DATA-BIN"])
SETTINGS = SearchSettings()


def queries_per_second(work: Callable[[], None], count: int, repeats: int) -> float:
    """The best of some runs, after one that warms up: Java compiles what it runs often, which takes many sentences."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / min(seconds)


def make_retriever(source: Sequences, target: Sequences, folder: Path) -> Retriever:
    """Indexes a training set with the settings that seg-attach has by default."""
    unit = Symbols()
    memory = Memory(source, target)
    build_index(folder, (unit.text(source[row]) for row in memory.ids), {})
    engine = LuceneIndex(folder, {}, SETTINGS.k1, SETTINGS.b)
    return Retriever(memory, engine, unit, unit, SETTINGS.candidates)


def retrieve_and_write(search: Callable, queries: list[np.ndarray], folder: Path) -> None:
    """All that seg-attach does for a sentence: search, bring over, re-rank, select and write."""
    header = dict.fromkeys(("signature", "memory_fingerprint", "split_fingerprint", "memory_data", "settings"))
    chunks = [(queries[start : start + 25], None) for start in range(0, len(queries), 25)]
    rows = [keep(*found, DEFAULTS.keep, DEFAULTS.min_score) for chunk in search(chunks) for found in chunk]
    write_attached(folder / "test.memory", header | {"kept": DEFAULTS.keep}, rows)


def pyserini_search(texts: list[str], queries: list[str], folder: Path, threads: int) -> Callable[[], None]:
    """Pyserini's batch_search with reading number and score of every hit.

    Its LuceneSearcher cannot be imported without gigabytes of other packages, so the calls that it makes are made here.
    """
    import json

    java, _ = start_java()
    arguments = ["-index", str(folder), "-pretokenized", "-collection", "JsonCollection", "-input", "", "-threads", "1"]
    indexer = java("io.anserini.index.SimpleIndexer")(arguments)
    for number, text in enumerate(texts):
        indexer.addRawDocument(json.dumps({"id": str(number), "contents": text}))
    indexer.close()
    searcher = java("io.anserini.search.SimpleSearcher")(str(folder))
    searcher.set_analyzer(java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")())
    searcher.set_bm25(SETTINGS.k1, SETTINGS.b)

    def search() -> None:
        names, lines = java("java.util.ArrayList")(), java("java.util.ArrayList")()
        for number, query in enumerate(queries):
            names.add(str(number))
            lines.add(query)
        results = searcher.batch_search(lines, names, SETTINGS.candidates, threads)
        for result in results.entrySet().toArray():
            [(hit.docid, hit.score) for hit in result.getValue()]

    return search


def bm25s_search(texts: list[str], queries: list[str], threads: int) -> Callable[[], None]:
    """The BM25 library bm25s with numba: search alone."""
    import bm25s

    engine = bm25s.BM25(k1=SETTINGS.k1, b=SETTINGS.b, backend="numba")
    engine.index([text.split() for text in texts], show_progress=False)
    tokens = [query.split() for query in queries]
    return lambda: engine.retrieve(tokens, k=SETTINGS.candidates, n_threads=threads, show_progress=False)


def report_quality(retriever: Retriever, queries: list[np.ndarray]) -> float:
    """Compares the best score found with the best of all; returns how many sentences brute force does in a second."""
    unit = Symbols()
    everything = [unit.characters(row) for row in retriever.memory.source]
    start = time.perf_counter()
    true = np.array([fuzzy_scores(unit.characters(query), everything).max() for query in queries])
    rate = len(queries) / (time.perf_counter() - start)
    best = np.array([scores[0] if len(scores) else 0.0 for scores in retriever.search(queries)[1]])
    reached, good = best >= true, true >= 0.5
    print(f"best score reached: {reached.mean():.1%} of all, {reached[good].mean():.2%} where the true best is >= 0.5")
    print(f"mean best score: {best.mean():.4f} found, {true.mean():.4f} true, {best.mean() / true.mean():.4f} of it")
    return rate


def report_stages(retriever: Retriever, queries: list[np.ndarray]) -> None:
    """Times the search and the re-ranking by themselves, in one thread."""
    unit, count = Symbols(), OVERFETCH * retriever.candidates
    start = time.perf_counter()
    found = retriever.engine.search_all([unit.text(query) for query in queries], count)
    search = time.perf_counter() - start
    source, ids = retriever.memory.source, retriever.memory.ids
    candidates = [[unit.characters(source[row]) for row in ids[positions]] for positions in found]
    start = time.perf_counter()
    for query, sources in zip(queries, candidates, strict=True):
        fuzzy_scores(unit.characters(query), sources)
    rerank = time.perf_counter() - start
    milliseconds = 1000 / len(queries)
    print(
        f"one thread: search {search * milliseconds:.2f} ms, re-ranking {rerank * milliseconds:.2f} ms a sentence "
        f"({rerank / (search + rerank):.1%} of both)",
        flush=True,
    )


def main() -> None:
    """Runs all measurements and prints them."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("data", metavar="DATA-BIN")
    options.add_argument("--queries", type=int, default=3000, help="random test sentences to time (default: 3000)")
    options.add_argument("--brute", type=int, default=500, help="of these, compared with brute force (default: 500)")
    options.add_argument("--threads", type=int, default=2, help="for the other engines, and our processes (default: 2)")
    options.add_argument("--repeats", type=int, default=3, help="timed runs, of which the best counts (default: 3)")
    options.add_argument("--sizes", type=int, nargs="*", default=[20_000, 80_000], help="smaller memories to time")
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()

    data = DataBin(options.data)
    source, target = data.pair("train")
    test = data.pair("test")[0]
    generator = np.random.default_rng(options.seed)
    chosen = generator.choice(len(test), min(options.queries, len(test)), replace=False)
    queries = [test[row] for row in chosen]
    unit = Symbols()
    query_texts = [unit.text(query) for query in queries]
    print(f"{len(source):,} pairs, {len(queries)} sentences, {options.threads} at a time, seed {options.seed}")

    retriever, _ = open_retriever(data, SETTINGS)
    print(f"engine: {retriever.engine.signature}, {retriever.candidates} candidates", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)

        def rate_of(search: Callable) -> float:
            work = partial(retrieve_and_write, search, queries, folder)
            return queries_per_second(work, len(queries), options.repeats)

        with retriever_pool(data, SETTINGS, "pair", options.threads) as search:
            rates = {"seg-attach, all steps": rate_of(search)}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak += options.threads * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"peak memory, all processes, Java included: {peak / 2**20:.2f} GB", flush=True)
        report_stages(retriever, queries)
        texts = [unit.text(row) for row in source]
        rates["pyserini batch_search and reading"] = queries_per_second(
            pyserini_search(texts, query_texts, folder / "pyserini", options.threads), len(queries), options.repeats
        )
        try:
            work = bm25s_search(texts, query_texts, options.threads)
            rates["bm25s with numba, search alone"] = queries_per_second(work, len(queries), options.repeats)
        except ImportError:
            print("bm25s is left out: run 'pip install bm25s numba' to compare with it")
        rates["brute-force rapidfuzz, one thread"] = report_quality(retriever, queries[: options.brute])
        for name, rate in rates.items():
            print(f"{rate:8.1f} sentences/s  {rate / rates['seg-attach, all steps']:6.2f}  {name}", flush=True)

        order = generator.permutation(len(source))
        print("growth, one process:")
        for size in (*(size for size in options.sizes if size < len(source)), len(source)):
            part = [Sequences.from_rows(side[row] for row in order[:size]) for side in (source, target)]
            alone = make_retriever(*part, folder / f"index{size}")
            rate = rate_of(lambda chunks, one=alone: (one.search_and_cover(*chunk) for chunk in chunks))
            print(f"{rate:8.1f} sentences/s, {1000 / rate:.2f} ms a sentence, from {size:,} pairs", flush=True)


if __name__ == "__main__":
    main()
