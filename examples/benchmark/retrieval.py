"""Measure the quality and the speed of the retrieval, against brute force and two other engines.

    python examples/benchmark/retrieval.py [DATA-BIN]

Everything is measured in one run, on the same training set and the same sentences of the test set, which are generated
if no data-bin is given. The engines take turns. Growth is measured in one process per size of the memory, which opens
an existing index, as the processes of seg-attach do.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from rounds import (
    add_data_options,
    data_folder,
    interleave,
    new_parser,
    peak_megabytes,
    print_table,
    ratios,
    spread,
    write_json,
)

from fairseq_seg.corpus.attached import write_attached
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.retrieval.attach import Attaching, trim
from fairseq_seg.retrieval.fuzzy import OVERFETCH, fuzzy_scores
from fairseq_seg.retrieval.lucene import LuceneIndex, build_index, start_java
from fairseq_seg.retrieval.retriever import DistinctPairs, Retriever
from fairseq_seg.retrieval.search import Chunk, open_retriever, retriever_pool
from fairseq_seg.retrieval.unit import SymbolUnit

DEFAULTS = Attaching()
SETTINGS = DEFAULTS.settings
OURS = "seg-attach, all steps"
PYSERINI = "pyserini batch_search and reading"


def make_retriever(source: Sequences, target: Sequences, folder: Path) -> Retriever:
    """Return a retriever over an index that `index` made, with the default settings of seg-attach."""
    unit = SymbolUnit()
    engine = LuceneIndex(folder, {}, SETTINGS.k1, SETTINGS.b)
    return Retriever(DistinctPairs(source, target), engine, unit, unit, SETTINGS.candidates)


def index(source: Sequences, target: Sequences, folder: Path) -> None:
    """Index a training set."""
    build_index(folder, (SymbolUnit().text(source[row]) for row in DistinctPairs(source, target).ids), {})


def retrieve_and_write(
    search: Callable[[list[Chunk]], Iterable[RankedPairs]], queries: list[np.ndarray], folder: Path
) -> None:
    """Do all that seg-attach does for sentences: search, bring over, re-rank, select and write."""
    header = dict.fromkeys(("signature", "memory_fingerprint", "split_fingerprint", "memory_data", "settings"))
    chunks: list[Chunk] = [(queries[start : start + 25], None) for start in range(0, len(queries), 25)]
    best = Selection(DEFAULTS.keep, "topk", DEFAULTS.min_score)
    write_attached(folder / "test.memory", header | {"kept": best.k}, (trim(found, best) for found in search(chunks)))


def pyserini_search(texts: list[str], queries: list[str], folder: Path, threads: int) -> Callable[[], None]:
    """Return Pyserini's batch_search with reading number and score of every hit.

    Its LuceneSearcher cannot be imported without gigabytes of other packages, so the calls that it makes are made here.
    """
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
    """Return the search alone of the BM25 library bm25s with numba."""
    import bm25s

    engine = bm25s.BM25(k1=SETTINGS.k1, b=SETTINGS.b, backend="numba")
    engine.index([text.split() for text in texts], show_progress=False)
    tokens = [query.split() for query in queries]
    return lambda: engine.retrieve(tokens, k=SETTINGS.candidates, n_threads=threads, show_progress=False)


def report_quality(retriever: Retriever, queries: list[np.ndarray]) -> tuple[float, dict[str, float]]:
    """Compare the best score found with the best of all.

    Return how many sentences brute force does in a second, and the shares that were reached.
    """
    unit = SymbolUnit()
    everything = [unit.characters(row) for row in retriever.pairs.source]
    start = time.perf_counter()
    true = np.array([fuzzy_scores(unit.characters(query), everything).max() for query in queries])
    rate = len(queries) / (time.perf_counter() - start)
    best = np.array([scores[0] if len(scores) else 0.0 for _, scores, _ in retriever.search(queries)])
    reached, good = best >= true, true >= 0.5
    print(f"best score reached: {reached.mean():.1%} of all, {reached[good].mean():.2%} where the true best is >= 0.5")
    print(f"mean best score: {best.mean():.4f} found, {true.mean():.4f} true, {best.mean() / true.mean():.4f} of it")
    shares = {"best pair found, where its score is >= 0.5": reached[good].mean() if good.any() else 1.0}
    return rate, shares | {"mean best score found, of the true one": best.mean() / true.mean()}


def report_stages(retriever: Retriever, queries: list[np.ndarray]) -> None:
    """Time the search and the re-ranking by themselves, in one thread."""
    unit, count = SymbolUnit(), OVERFETCH * retriever.candidates
    start = time.perf_counter()
    found = retriever.engine.search_all([unit.text(query) for query in queries], count)
    search = time.perf_counter() - start
    source, ids = retriever.pairs.source, retriever.pairs.ids
    candidates = [[unit.characters(source[row]) for row in ids[positions]] for positions in found]
    start = time.perf_counter()
    for query, sources in zip(queries, candidates, strict=True):
        fuzzy_scores(unit.characters(query), sources)
    rerank = time.perf_counter() - start
    milliseconds = 1000 / len(queries)
    each = f"search {search * milliseconds:.2f} ms, re-ranking {rerank * milliseconds:.2f} ms per sentence"
    print(f"one thread: {each} ({rerank / (search + rerank):.1%} of both)", flush=True)


def grow(part: tuple[Sequences, Sequences], queries: list[np.ndarray], folder: Path, repeats: int) -> dict:
    """Measure seconds per round over all sentences in one process, and its peak size, Java included."""
    retriever = make_retriever(*part, folder / f"index{len(part[0])}")

    def search(chunks: list[Chunk]) -> list[RankedPairs]:
        return [retriever.search(*chunk) for chunk in chunks]

    work = partial(retrieve_and_write, search, queries, folder)
    seconds = interleave({f"{len(part[0]):,} pairs": work}, repeats, time.perf_counter)
    (taken,) = seconds.values()
    return {"pairs": len(part[0]), "sentences": len(queries), "seconds": taken, "peak MB": peak_megabytes()}


def measure(options: argparse.Namespace, data: DataBin, folder: Path) -> dict:
    """Run all measurements and print them."""
    source, target = data.pair("train")
    test = data.pair("test")[0]
    generator = np.random.default_rng(options.seed)
    chosen = generator.choice(len(test), min(options.queries, len(test)), replace=False)
    queries = [test[row] for row in chosen]
    unit = SymbolUnit()
    query_texts = [unit.text(query) for query in queries]
    print(f"{len(source):,} pairs, {len(queries)} sentences, {options.threads} at a time, seed {options.seed}")

    retriever = open_retriever(data, SETTINGS)
    print(f"engine: {retriever.engine.signature}, {retriever.candidates} candidates", flush=True)
    texts = [unit.text(row) for row in source]
    others = {PYSERINI: pyserini_search(texts, query_texts, folder / "pyserini", options.threads)}
    try:
        others["bm25s with numba, search alone"] = bm25s_search(texts, query_texts, options.threads)
    except ImportError:
        print("bm25s is left out: run pip install 'fairseq-seg[bench]' to compare with it")
    with retriever_pool(data, SETTINGS, "pair", options.threads) as search:
        jobs = {OURS: partial(retrieve_and_write, search, queries, folder)} | others
        seconds = interleave(jobs, options.repeats, time.perf_counter)
    children = options.threads * peak_megabytes(resource.RUSAGE_CHILDREN)
    print(f"peak memory of the {options.threads} processes, Java included: {children / 1024:.2f} GB", flush=True)
    report_stages(retriever, queries)
    brute, shares = report_quality(retriever, queries[: options.brute])
    rates = {name: len(queries) / statistics.median(taken) for name, taken in seconds.items()}
    rows = [(name, f"{rates[name]:.1f}", spread(ratios(seconds[OURS], taken))) for name, taken in seconds.items()]
    rows.append(("brute-force rapidfuzz, one thread", f"{brute:.1f}", f"{brute / rates[OURS]:.2f}"))
    print_table(" | sentences/s | of ours", rows)

    order, growth = generator.permutation(len(source)), []

    def grown() -> Iterator[tuple]:
        for size in (*(size for size in options.sizes if size < len(source)), len(source)):
            part = tuple(Sequences.from_rows(side[row] for row in order[:size]) for side in (source, target))
            index(*part, folder / f"index{size}")
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                growth.append(pool.apply(grow, (part, queries, folder, options.repeats)))
            milliseconds = 1000 * statistics.median(growth[-1]["seconds"]) / len(queries)
            yield f"{size:,}", f"{milliseconds:.2f}", f"{growth[-1]['peak MB']:.0f}"

    print_table("pairs in the memory | ms per sentence, one process | peak MB, Java included", grown())
    lines = {f"retrieval, of {PYSERINI}": ratios(seconds[PYSERINI], seconds[OURS])}
    lines |= {name: [float(share)] for name, share in shares.items()}
    return {"ratios": lines, "pairs": len(source), "rates": rates, "growth": growth}


def main() -> None:
    """Run the command line."""
    parser = new_parser(__doc__)
    add_data_options(parser)
    for name, default, meaning in (
        ("--queries", 3000, "random test sentences to time"),
        ("--brute", 500, "how many of these to compare with brute force"),
        ("--threads", 2, "threads of the other engines, and our processes"),
        ("--repeats", 3, "timed rounds after one that warms up"),
        ("--seed", 1, "seed of the choice of sentences"),
    ):
        parser.add_argument(name, type=int, default=default, help=meaning)
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000, 80_000], help="smaller memories to time")
    options = parser.parse_args()
    with data_folder(options, options.queries, options.seed) as data, tempfile.TemporaryDirectory() as folder:
        results = measure(options, DataBin(data), Path(folder))
    write_json(options.json, results)


if __name__ == "__main__":
    main()
