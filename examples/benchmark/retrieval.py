"""Measure the quality and the speed of the retrieval, against brute force and other engines.

    python examples/benchmark/retrieval.py [DATA-BIN]

Everything is measured in one run, on the same training set and the same sentences of the test set, which are generated
if no data-bin is given. The engines take turns. Growth is measured in one process per size of the memory, which opens
an existing index, as the processes of seg-attach do.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
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
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.retrieval.attach import Attaching
from fairseq_seg.retrieval.fuzzy import OVERFETCH, fuzzy_scores
from fairseq_seg.retrieval.lucene import start_java
from fairseq_seg.retrieval.parts import trim
from fairseq_seg.retrieval.retriever import DistinctPairs, Retriever
from fairseq_seg.retrieval.search import Chunk, open_retriever, retriever_pool
from fairseq_seg.retrieval.shards import ENGINES, open_engine
from fairseq_seg.retrieval.unit import SymbolUnit

DEFAULTS = Attaching()
SETTINGS = DEFAULTS.settings._replace(engine="grams")
OURS = "seg-attach --engine grams, all steps"
LUCENE = "seg-attach, all steps"
BM25S = "bm25s with numba, same candidates and re-ranking"
PYSERINI = "pyserini batch_search and reading"


def make_retriever(source: Sequences, target: Sequences, folder: Path) -> Retriever:
    """Return a retriever over an index that `index` made, with the default settings of seg-attach."""
    unit = SymbolUnit()
    engine = open_engine(folder, {}, SETTINGS)
    return Retriever(DistinctPairs(source, target), engine, unit, unit, SETTINGS.candidates)


def index(source: Sequences, target: Sequences, folder: Path) -> None:
    """Index a training set."""
    texts = (SymbolUnit().text(source[row]) for row in DistinctPairs(source, target).ids)
    ENGINES[SETTINGS.engine].build_index(folder, texts, {})


def retrieve_and_write(
    search: Callable[[list[Chunk]], Iterable[RankedPairs]], queries: list[np.ndarray], folder: Path
) -> None:
    """Do all that seg-attach does for sentences: search, bring over, re-rank, select and write."""
    size = min(100, -(-len(queries) // 8))
    header = dict.fromkeys(("signature", "memory_fingerprint", "split_fingerprint", "memory_data", "settings"))
    chunks = [Chunk(queries[start : start + size]) for start in range(0, len(queries), size)]
    found = (trim(found, DEFAULTS.best) for found in search(chunks))
    write_attached(folder / "test.memory", header | {"kept": DEFAULTS.keep}, found)


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


class Bm25s:
    """The BM25 library bm25s with numba, as a search engine."""

    signature = "bm25s"

    def __init__(self, texts: Iterable[str]):
        import bm25s

        self._engine = bm25s.BM25(k1=SETTINGS.k1, b=SETTINGS.b, backend="numba")
        self._engine.index([text.split() for text in texts], show_progress=False)

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of ``count`` distinct pairs, best first."""
        tokens = [text.split() for text in texts]
        found, _ = self._engine.retrieve(tokens, k=count, n_threads=1, show_progress=False)
        return list(found.astype(np.int64))


_bm25s: Retriever  # of a process


def start_bm25s(folder: Path, languages: tuple[str, str]) -> None:
    """Index the training set in a process; re-ranking and Alg. 1 are ours."""
    global _bm25s
    unit, pairs = SymbolUnit(), DistinctPairs(*DataBin(folder, *languages).pair("train"))
    engine = Bm25s(unit.text(pairs.source[row]) for row in pairs.ids)
    _bm25s = Retriever(pairs, engine, unit, unit, SETTINGS.candidates)


def search_bm25s(chunk: Chunk) -> RankedPairs:
    """Search in such a process."""
    return _bm25s.search(chunk.queries)


def first_result(data: tuple, engine: str, query: np.ndarray) -> float:
    """Measure seconds until one sentence is found in a process that has opened nothing yet."""
    start = time.perf_counter()
    open_retriever(DataBin(*data), SETTINGS._replace(engine=engine)).search([query])
    return time.perf_counter() - start


def report_first(data: DataBin, queries: list[np.ndarray], starts: int) -> dict[str, list[float]]:
    """Measure the milliseconds until one typed sentence is found, in new processes and in one that has everything."""
    where, lines, rows = (data.folder, data.source_lang, data.target_lang), {}, []
    for engine in ENGINES:
        cold = []
        for query in queries[:starts]:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cold.append(pool.apply(first_result, (where, engine, query)))
        retriever = open_retriever(data, SETTINGS._replace(engine=engine))
        warm = []
        for query in queries:
            start = time.perf_counter()
            retriever.search([query])
            warm.append(time.perf_counter() - start)
        for name, seconds in (("cold", cold), ("warm", warm[len(warm) // 2 :])):
            half, most = (1000 * float(np.percentile(seconds, share)) for share in (50, 95))
            rows.append((engine, name, f"{half:.1f}", f"{most:.1f}"))
            lines |= {f"one sentence, {engine}, {name}, ms, p50": [half], f"{engine}, {name}, ms, p95": [most]}
    print_table("one sentence | | p50, ms | p95, ms", rows)
    return lines


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
    """Measure seconds per round over all sentences in one process, and its peak size."""
    retriever = make_retriever(*part, folder / f"index{len(part[0])}")

    def search(chunks: list[Chunk]) -> list[RankedPairs]:
        return [retriever.search(chunk.queries) for chunk in chunks]

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
    lucene = SETTINGS._replace(engine="lucene")
    open_retriever(data, lucene)  # makes the index
    with ExitStack() as stack:
        for name, settings in ((OURS, SETTINGS), (LUCENE, lucene)):
            pool = stack.enter_context(retriever_pool(data, settings, "pair", options.threads))
            others[name] = partial(retrieve_and_write, pool, queries, folder)
        if find_spec("bm25s") and find_spec("numba"):
            start = start_bm25s, (data.folder, (data.source_lang, data.target_lang))
            spawn = multiprocessing.get_context("spawn")
            processes = stack.enter_context(ProcessPoolExecutor(options.threads, spawn, *start))
            others[BM25S] = partial(retrieve_and_write, partial(processes.map, search_bm25s), queries, folder)
        else:
            print("bm25s is left out: run pip install 'fairseq-seg[bench]' to compare with it")
        seconds = interleave(others, options.repeats, time.perf_counter)
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

    print_table("pairs in the memory | ms per sentence, one process | peak MB", grown())
    lines = {f"retrieval, of {name}": ratios(taken, seconds[OURS]) for name, taken in seconds.items() if name != OURS}
    lines |= report_first(data, queries, options.starts)
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
        ("--starts", 5, "new processes, to time their first sentence"),
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
