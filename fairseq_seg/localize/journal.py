"""What is to be translated and what has been, on disk: a killed run resumes, and repetitions cost nothing.

A task is a distinct source (with its codes and its previous version); segments that share one share its result.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_seg.documents.segment import Edit, Pair, Segment
from fairseq_seg.errors import SegError

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (identity TEXT);
CREATE TABLE IF NOT EXISTS task (
  key BLOB UNIQUE, length INTEGER, source TEXT, codes TEXT, previous TEXT, result TEXT
);
CREATE INDEX IF NOT EXISTS waiting ON task (length) WHERE result IS NULL;
"""


class Task(NamedTuple):
    """A distinct source to translate."""

    key: bytes
    source: str
    codes: dict[str, str]
    previous: tuple[str, str] | None


@dataclass
class Result:
    """A translation; without an edit the segment stays untranslated, and `flags` say why."""

    text: str | None
    final: bool = False
    pair: Pair | None = None
    flags: tuple[str, ...] = ()
    explanation: dict[str, Any] | None = None

    @property
    def edit(self) -> Edit | None:
        """The new target."""
        return None if self.text is None else Edit(self.text, self.final, self.pair, self.flags)


def kind_of(flag: str) -> str:
    """Return the kind of a flag, without the words that it is about."""
    known = re.match(r"(lost|extra|wrong|missing) \w+|\w+( long)?", flag)
    return known[0] if known else flag


def key_of(segment: Segment) -> bytes:
    """Return what is equal for segments that share a translation."""
    parts = [segment.source, sorted(segment.codes), segment.previous]
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()


class Journal:
    """The tasks of a run. One process at a time has it open."""

    def __init__(self, path: Path, identity: str):
        """Open or create it; what another model or other options left is removed."""
        self.path = path
        with self._errors():
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode=TRUNCATE")
            # A killed process loses nothing by this, only a power failure may.
            self._database.execute("PRAGMA synchronous=OFF")
            self._database.execute("PRAGMA cache_size=-32768")
            self._database.executescript(f"BEGIN EXCLUSIVE; {SCHEMA} COMMIT")
            if self._database.execute("SELECT identity FROM about").fetchall() != [(identity,)]:
                with self._transaction():
                    self._database.execute("DELETE FROM task")
                    self._database.execute("DELETE FROM about")
                    self._database.execute("INSERT INTO about VALUES (?)", [identity])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise SegError(f"{self.path} is in use: another seg-translate is writing the same output.") from None
            raise SegError(
                f"{self.path}, which keeps what has been translated, cannot be used ({error}): make room or remove it."
            ) from None

    def add(self, segments: Iterable[Segment]) -> None:
        """Add the sources of segments that are not there yet."""
        rows = (
            (
                key_of(segment),
                len(segment.source),
                segment.source,
                json.dumps(dict(segment.codes)),
                json.dumps(segment.previous),
            )
            for segment in segments
        )
        with self._errors(), self._transaction():
            self._database.executemany("INSERT OR IGNORE INTO task VALUES (?, ?, ?, ?, ?, NULL)", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def count(self, done: bool) -> int:
        """Count the tasks that are done, or that wait."""
        wanted = "NOT NULL" if done else "NULL"
        with self._errors():
            return self._database.execute(f"SELECT count(*) FROM task WHERE result IS {wanted}").fetchone()[0]

    def waiting(self, size: int) -> list[Task]:
        """Return the shortest tasks that wait."""
        with self._errors():
            rows = self._database.execute(
                "SELECT key, source, codes, previous FROM task WHERE result IS NULL ORDER BY length, key LIMIT ?",
                [size],
            ).fetchall()
        return [
            Task(key, source, json.loads(codes), tuple(json.loads(previous)) if previous != "null" else None)
            for key, source, codes, previous in rows
        ]

    def save(self, tasks: Sequence[Task], results: Sequence[Result]) -> None:
        """Keep the results of tasks."""
        rows = [(json.dumps(asdict(result)), task.key) for task, result in zip(tasks, results, strict=True)]
        with self._errors(), self._transaction():
            self._database.executemany("UPDATE task SET result = ? WHERE key = ?", rows)

    def result(self, segment: Segment) -> Result | None:
        """Return what became of a segment's source."""
        with self._errors():
            row = self._database.execute("SELECT result FROM task WHERE key = ?", [key_of(segment)]).fetchone()
        if row is None or row[0] is None:
            return None
        values = json.loads(row[0])
        pair = None if values["pair"] is None else Pair(*values["pair"])
        return Result(**values | {"pair": pair, "flags": tuple(values["flags"])})

    def close(self, remove: bool) -> None:
        """Close it; `remove` it when the output is whole."""
        self._database.close()
        if remove:
            for path in (self.path, self.path.with_name(f"{self.path.name}-journal")):
                path.unlink(missing_ok=True)
