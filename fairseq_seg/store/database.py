"""The SQLite database of a translation memory: its tables, and transactions of several processes at once.

The processes run on one machine: SQLite's write-ahead log lies in RAM that they share.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_seg.errors import SegError

NAME = "memory.sqlite"
FORMAT = "2"
# Seconds that a writer waits for another's transaction to end, and between two attempts. SQLite's own handler sleeps
# for up to 100 ms, in which a writer of many pairs may have taken the lock again.
PATIENCE = 60
PAUSE = 0.002
# Of the database's pages in RAM: the index of sources is written at random places.
CACHE_KB = 65_536
# Changed rows, a transaction counting as some more, after which a writer copies the log into the database. SQLite would
# do it within the commit of whoever comes to 1,000 pages, be it a hundred megabytes that others have written.
CHECKPOINT_ROWS = 8_000
TRANSACTION_ROWS = 32

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (revision INTEGER NOT NULL);
INSERT INTO state VALUES (0);
-- AUTOINCREMENT: an id is never given again, so that a deleted id cannot come to mean another pair.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    source_symbols BLOB NOT NULL,
    target_symbols BLOB NOT NULL,
    origin TEXT NOT NULL,
    unit TEXT NOT NULL,
    created TEXT NOT NULL,
    changed TEXT NOT NULL,
    attributes TEXT NOT NULL,
    revision INTEGER NOT NULL,
    source_key INTEGER NOT NULL,
    codes TEXT NOT NULL DEFAULT ''
);
CREATE INDEX entries_by_source ON entries (source_key);
CREATE INDEX entries_by_revision ON entries (revision);
CREATE TABLE deleted (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL);
CREATE INDEX deleted_by_revision ON deleted (revision);
"""


class Database:
    """A connection to the database in a memory's folder, for reading and writing or `read_only`.

    What SQLite complains about (a full disk, a damaged file, no permission) becomes a `SegError`.
    """

    def __init__(self, folder: Path, read_only: bool):
        self.file = folder / NAME
        self.read_only = read_only
        if not self.file.is_file():
            raise SegError(f"{folder} is not a translation memory: make one with `seg-memory create`.")
        if not read_only and not (os.access(folder, os.W_OK) and os.access(self.file, os.W_OK)):
            raise SegError(f"{folder} is read-only: get write permission, or copy the memory.")
        self._since_checkpoint = 0
        with self._errors_as_sentences():
            self._connect()
            self._migrate()

    def _connect(self) -> None:
        # Readers share two small files with the writers. A reader who may not make them, and finds none because nobody
        # is writing, has to tell SQLite that the database never changes, and to watch for changes itself.
        self._unchanging = None
        mode = "mode=ro" if self.read_only else "mode=rw"
        if self.read_only and not os.access(self.file.parent, os.W_OK) and not self._state()[0]:
            self._unchanging = self._state()
            mode = "immutable=1"
        uri = f"{self.file.resolve().as_uri()}?{mode}"
        # isolation_level None: transactions begin and end where this class says so, not where Python guesses.
        self._connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
        self._connection.execute("PRAGMA trusted_schema = OFF")
        if self._connection.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone():
            self._connection.close()
            raise SegError(f"{self.file} holds triggers or views, which could run somebody else's code: do not use it.")
        self._connection.create_function("fold", 1, fold, deterministic=True)
        if not self.read_only:
            # FULL, not NORMAL: an acknowledged change survives a power cut too.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA wal_autocheckpoint = 0")
            self._connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")

    def _migrate(self) -> None:
        """Give a database of format 1 the column that it lacks."""
        if self.meta.get("format") == "1":
            if self.read_only:
                try:
                    Database(self.file.parent, read_only=False).close()
                except SegError:
                    raise SegError(
                        f"{self.file.parent} is of format 1: have its owner run seg-memory stats, which converts it."
                    ) from None
            else:
                with self.transaction():
                    if self.meta.get("format") == "1":  # nobody else has done it meanwhile
                        self.execute("ALTER TABLE entries ADD COLUMN codes TEXT NOT NULL DEFAULT ''")
                        self.execute("UPDATE meta SET value = ? WHERE name = 'format'", (FORMAT,))
        if self.meta.get("format") != FORMAT:
            format = self.meta.get("format")
            raise SegError(f"{self.file.parent} is of format {format}, not {FORMAT}: use the version that made it.")

    @property
    def meta(self) -> dict[str, str]:
        """What the memory was made for: its format, languages, and fingerprints."""
        return dict(self.rows("SELECT name, value FROM meta"))

    def _state(self) -> tuple[bool, int, int]:
        """Tell whether anybody has the database open, and its date and size, which show a change."""
        status = self.file.stat()
        return self.file.with_name(f"{NAME}-wal").exists(), status.st_mtime_ns, status.st_size

    def _watch(self) -> None:
        """Reopen a database that was opened as unchanging and did change."""
        if self._unchanging and self._unchanging != self._state() and not self._connection.in_transaction:
            self._connection.close()
            self._connect()

    @staticmethod
    def create(folder: Path, meta: dict[str, str]) -> None:
        """Make an empty database in a folder."""
        connection = sqlite3.connect(folder / NAME)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        with connection:
            connection.executemany("INSERT INTO meta VALUES (?, ?)", ({"format": FORMAT} | meta).items())
        connection.close()

    def close(self) -> None:
        """Close the connection; all that was acknowledged is in the database already."""
        self._connection.close()

    def rows(self, query: str, values: tuple = ()) -> list[tuple]:
        """Return all rows that a query finds."""
        with self._errors_as_sentences():
            self._watch()
            return self._connection.execute(query, values).fetchall()

    def execute(self, statement: str, values: tuple | dict = ()) -> int:
        """Change something within a transaction, and return the id of the inserted row, 0 if there is none."""
        with self._errors_as_sentences():
            return self._connection.execute(statement, values).lastrowid or 0

    def change(self, statement: str, values: tuple = ()) -> int:
        """Change something within a transaction, and return the number of rows that it changed."""
        with self._errors_as_sentences():
            return self._connection.execute(statement, values).rowcount

    def execute_many(self, statement: str, rows: list[tuple]) -> None:
        """Run a statement for each of many rows within a transaction."""
        with self._errors_as_sentences():
            self._connection.executemany(statement, rows)

    @property
    def revision(self) -> int:
        """The number that every transaction that changes something raises."""
        return self.rows("SELECT revision FROM state")[0][0]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state within the block, whatever others write meanwhile."""
        with self._errors_as_sentences():
            self._watch()
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("COMMIT")

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[int]:
        """Run the block as one transaction, all or nothing, and yield the revision of the rows that it changes.

        One that is not `durable` survives a killed process at once, but a power cut only after the next `checkpoint`.
        """
        if not durable:
            self.execute("PRAGMA synchronous = NORMAL")
        self._begin()
        try:
            before = self._connection.total_changes
            yield self.revision + 1
            changed = self._connection.total_changes - before
            if changed:
                self.execute("UPDATE state SET revision = revision + 1")
            self.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            if not durable:
                self.execute("PRAGMA synchronous = FULL")
        self._since_checkpoint += changed + TRANSACTION_ROWS
        if self._since_checkpoint > CHECKPOINT_ROWS:
            self.checkpoint()

    @contextmanager
    def attached(self, folder: Path, name: str) -> Iterator[None]:
        """Read another memory's database under a name within the block."""
        uri = f"{(folder / NAME).resolve().as_uri()}?mode=ro"
        self.execute(f"ATTACH DATABASE ? AS {name}", (uri,))
        try:
            yield
        finally:
            self.execute(f"DETACH DATABASE {name}")

    def copy_to(self, other: sqlite3.Connection, pages: int, progress: Callable[[int, int, int], None]) -> None:
        """Copy one state of the whole database into another connection's, while others write."""
        with self._errors_as_sentences(), self.snapshot():
            self.rows("SELECT 1 FROM state")  # from here on the snapshot holds, so that no writer makes it start again
            self._connection.backup(other, pages=pages, progress=progress)

    def _begin(self) -> None:
        """Begin a transaction that writes, when no other does."""
        # IMMEDIATE: wait for other writers here, not in the middle, where SQLite would have to refuse.
        end = time.monotonic() + PATIENCE
        self.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                        raise SegError(f"{self.file} cannot be used: {error}.") from None
                time.sleep(PAUSE)
        finally:
            self.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE}")

    def checkpoint(self) -> None:
        """Copy the log into the database, as far as nobody reads what is there; writers go on meanwhile."""
        self._since_checkpoint = 0
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def _errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            raise SegError(f"{self.file} cannot be used: {error}.") from None


def fold(text: object) -> str | None:
    """Return a text without regard to case, for conditions."""
    return None if text is None else str(text).casefold()
