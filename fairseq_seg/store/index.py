"""Search in a translation memory: a Lucene index derived from it, and the rows that came after the index.

The index only proposes pairs that may be similar. What a pair holds is always read from the database, so an index
that lags behind never shows a deleted pair or an old text. Pairs that are newer than the index are all compared,
which for some thousands takes less time than Lucene's own search. A memory with no more pairs than that has no index,
and needs no Java.

A search never waits for an index that is behind to be made again.

Indexes lie in the memory's folder as `index.1`, `index.2` ... One process at a time builds a new one beside them and
renames it when it is whole; then the ones that no reader has open are removed.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.files import UNFINISHED, lock_file, make_whole
from fairseq_seg.retrieval.fuzzy import OVERFETCH, best_matches
from fairseq_seg.retrieval.lucene import LuceneIndex, UnwritableIndexError, build_index, index_identity
from fairseq_seg.retrieval.unit import Unit, make_unit
from fairseq_seg.store.pair import StoredPair
from fairseq_seg.store.store import TranslationMemory

logger = logging.getLogger(__name__)

# An index is built when more pairs than this are not in one,
UNINDEXED = 10_000
# and more than this share of the pairs that are: the larger the memory, the longer it takes to build an index.
UNINDEXED_SHARE = 0.1
SETTINGS = SearchSettings()


def symbols_of(memory: TranslationMemory) -> Unit:
    """Return the unit of a memory's index, symbols of its own dictionary."""
    return make_unit("symbol", memory.spelling)


BUILDER = """
import sys
from fairseq_seg.store.index import make_index
from fairseq_seg.store.store import TranslationMemory
make_index(TranslationMemory(sys.argv[1], read_only=True), wait=False)
"""


class ScoredPair(NamedTuple):
    """A pair and the fuzzy score (Eq. 3) of its source against the query."""

    pair: StoredPair
    score: float


class MemorySearch:
    """Finds the pairs of a memory whose source is most like a sentence, in its state at that moment."""

    def __init__(self, path: str | Path, settings: SearchSettings = SETTINGS, score_unit: Unit | None = None):
        """Open a memory for reading, and build its index if that is missing or far behind.

        The settings k1, b and candidates count; the index is always in symbols.
        """
        self.memory = TranslationMemory(path, read_only=True)
        self._settings = settings
        self._unit = symbols_of(self.memory)
        self._score_unit = score_unit or self._unit
        self._index: OpenIndex | None = None
        self._fresh: dict[int, str] = {}  # the sources, for scoring, of the pairs that the index does not know
        self._revision = 0  # of the memory, when `_fresh` was last brought up to date
        self._may_index = True
        self._damaged: set[Path] = set()  # indexes that failed in a search
        self._builder: subprocess.Popen | None = None  # makes a newer index while the open one is used
        self._take_newest_index()
        if self._is_too_many(len(self.memory) - self._indexed):
            self._make_index()
        self._refresh()

    def search(self, queries: Sequence[np.ndarray], count: int) -> list[list[ScoredPair]]:
        """Find, for each query (token ids without eos), the `count` best: higher scores first, then lower ids."""
        self._refresh()
        return [self._search_one(np.asarray(query), count) for query in queries]

    def encode(self, text: str) -> np.ndarray:
        """Cut a text into the symbols of the memory's source side, as `search` takes them."""
        return self.memory.encode(text, "")[0]

    def close(self) -> None:
        """Close the memory, and let its index be removed."""
        self.memory.close()
        if self._builder is not None:
            self._builder.kill()
            self._builder.wait()
        if self._index is not None:
            self._index.close()

    def _search_one(self, query: np.ndarray, count: int) -> list[ScoredPair]:
        hits = self._propose(query)
        sources = dict(self._fresh)
        indexed = self.memory.sources_of(hit for hit in hits if hit not in sources)
        sources |= {id: self._score_unit.characters(symbols) for id, symbols in indexed}
        ids = np.fromiter(sources, dtype=np.int64, count=len(sources))
        best, scores = best_matches(self._score_unit.query_characters(query), ids, list(sources.values()), count)
        found = ids[best].tolist()
        pairs = {pair.id: pair for pair in self.memory.pairs_of(found)}
        ranked = [(pairs.get(id), score) for id, score in zip(found, scores.tolist(), strict=True)]
        # What was changed or deleted since the scoring has no score yet; the next search will score it.
        return [ScoredPair(pair, score) for pair, score in ranked if pair and pair.revision <= self._revision]

    def _propose(self, query: np.ndarray) -> list[int]:
        """Ask the index for ids; one that fails is dropped, and all that it knew is compared, or indexed again."""
        while self._index is not None:
            try:
                return self._index.search(self._unit.text(query), OVERFETCH * self._settings.candidates)
            except Exception as error:  # whatever a damaged file makes numpy or Lucene raise
                say_damaged(self._index.folder, error)
                self._damaged.add(self._index.folder)
                self._may_index = self._may_index and len(self._damaged) == 1
                self._index.close()
                self._index, self._fresh, self._revision = None, {}, 0
                self._refresh()
        return []

    # The index and what it does not know

    @property
    def _indexed(self) -> int:
        return len(self._index.ids) if self._index else 0

    def _is_too_many(self, unindexed: int) -> bool:
        return unindexed > max(UNINDEXED, UNINDEXED_SHARE * self._indexed)

    def _refresh(self) -> None:
        """Take over what changed since the last search; if nothing did, that costs one small query."""
        if self._builder is not None and self._builder.poll() is not None:
            self._end_building()
        elif self.memory.revision == self._revision:
            return
        self._read_changes()
        if self._is_too_many(len(self._fresh)) and (self._take_newest_index() or self._make_index()):
            self._read_changes()

    def _read_changes(self) -> None:
        revision, changed, deleted = self.memory.changed_sources(self._revision)
        for id, symbols in changed:
            self._fresh[id] = self._score_unit.characters(symbols)
        for id in deleted:
            self._fresh.pop(id, None)
        self._revision = revision

    def _take_newest_index(self) -> bool:
        """Open the newest index if it is newer than the open one."""
        for folder in reversed(index_folders(self.memory.path)):
            if folder in self._damaged:
                continue
            if self._index is not None and folder == self._index.folder:
                return False
            index = open_memory_index(folder, self.memory, self._settings)
            if index is not None:
                if self._index is not None:
                    self._index.close()
                self._index, self._fresh, self._revision = index, {}, index.revision
                return True
        return False

    def _make_index(self) -> bool:
        if not self._may_index:
            return False
        if self._index is not None:
            self._start_building()
            return False
        try:
            made = make_index(self.memory, wait=False)
        except (OSError, UnwritableIndexError) as error:  # no permission, or a full disk
            logger.warning(
                "%s cannot be indexed (%s), so every search compares all of its pairs: run seg-memory rebuild when "
                "there is room and permission.",
                self.memory.path,
                error.strerror if isinstance(error, OSError) else error,
            )
            self._may_index = False
            return False
        return made is not None and self._take_newest_index()

    def _start_building(self) -> None:
        """Have a process of its own make a newer index, unless one is at it; searches compare what is new meanwhile."""
        if self._builder is None:
            with only_maker(self.memory.path, wait=False) as alone:
                if not alone:
                    return
            command = [sys.executable, "-c", BUILDER, str(self.memory.path)]
            quiet = subprocess.DEVNULL
            self._builder = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)

    def _end_building(self) -> None:
        assert self._builder is not None
        if self._builder.returncode:
            self._may_index = False
            logger.warning(
                "%s could not be indexed again, so that searches compare what is not in its index: seg-memory rebuild "
                "says why.",
                self.memory.path,
            )
        self._builder = None
        self._take_newest_index()


class OpenIndex:
    """An index that is open for reading, which nobody removes meanwhile."""

    def __init__(self, folder: Path, lock: int, identity: dict, settings: SearchSettings):
        self.folder = folder
        self.revision: int = identity["revision"]
        self.ids = np.load(folder / "ids.npy")
        if crc32(self.ids.tobytes()) != identity["ids"]:
            raise ValueError("ids.npy is not what was written")
        self._lock = lock
        self._lucene = LuceneIndex(folder / "lucene", identity, settings.k1, settings.b)
        self._lucene.check_integrity()

    def search(self, text: str, count: int) -> list[int]:
        """Return the ids of up to ``count`` pairs, best first."""
        return self.ids[self._lucene.search(text, count)].tolist()

    def close(self) -> None:
        """Let the index be removed."""
        os.close(self._lock)


def index_folders(path: Path) -> list[Path]:
    """List the finished indexes of a memory, oldest first."""
    found = [folder for folder in path.glob("index.*") if folder.suffix[1:].isdigit()]
    return sorted(found, key=lambda folder: int(folder.suffix[1:]))


def open_memory_index(folder: Path, memory: TranslationMemory, settings: SearchSettings) -> OpenIndex | None:
    """Open an index of a memory, or return None if it does not fit.

    It may have been removed meanwhile, be of an older format or of other symbols, or be newer than the memory, which is
    then an older copy that was put back.
    """
    try:
        lock = os.open(folder / "ids.npy", os.O_RDONLY)
    except OSError:
        return None
    identity = index_identity(folder / "lucene") if lock_file(lock, "shared") else None
    try:
        if identity and identity["symbols"] == memory.symbols_fingerprint and identity["revision"] <= memory.revision:
            return OpenIndex(folder, lock, identity, settings)
    except SegError:  # no Java
        os.close(lock)
        raise
    except Exception as error:  # whatever a damaged file makes numpy or Lucene raise: an index can be derived again
        say_damaged(folder, error)
    os.close(lock)
    return None


def say_damaged(folder: Path, error: Exception) -> None:
    """Say once that an index cannot be used."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    logger.warning("%s is damaged and is not used; the pairs themselves are whole (%s).", folder, reason)


def make_index(memory: TranslationMemory, wait: bool) -> Path | None:
    """Build a new index of all pairs; return None if another process is at it and this one should not ``wait``.

    A process that is killed at any point leaves what was there before.
    """
    with only_maker(memory.path, wait) as alone:
        if not alone:
            return None
        # Read first: what changes while the pairs are read is newer than the index, and so is compared as well.
        revision = memory.revision
        numbers, texts, unit = [], [], symbols_of(memory)
        for id, symbols in memory.sources():
            numbers.append(id)
            texts.append(unit.text(symbols))
        ids = np.array(numbers, dtype=np.int64)
        for leftover in memory.path.glob(f"index*{UNFINISHED}"):  # of a killed process
            shutil.rmtree(leftover)
        older = index_folders(memory.path)
        number = 1 + max((int(folder.suffix[1:]) for folder in older), default=0)
        identity = {"symbols": memory.symbols_fingerprint, "revision": revision, "ids": crc32(ids.tobytes())}
        with make_whole(memory.path / f"index.{number}") as beside:
            build_index(beside / "lucene", texts, identity)
            np.save(beside / "ids.npy", ids)
        for folder in older:
            remove_unless_open(folder)
        return memory.path / f"index.{number}"


@contextmanager
def only_maker(path: Path, wait: bool) -> Iterator[bool]:
    """Let one process at a time build an index of a memory; yield whether it is this one."""
    lock = os.open(path / "index.lock", os.O_RDWR | os.O_CREAT)
    try:
        yield lock_file(lock, "exclusive", wait)
    finally:
        os.close(lock)


def remove_unless_open(folder: Path) -> None:
    """Remove an index unless a reader has it open; then a later index will remove it."""
    try:
        lock = os.open(folder / "ids.npy", os.O_RDONLY)
    except FileNotFoundError:  # damaged, so nobody reads it
        shutil.rmtree(folder)
        return
    try:
        if lock_file(lock, "exclusive"):
            # Renamed first, so that a killed process leaves no half of an index under its name.
            shutil.rmtree(folder.rename(folder.with_name(folder.name + UNFINISHED)))
    finally:
        os.close(lock)
