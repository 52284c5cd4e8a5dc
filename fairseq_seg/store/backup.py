"""Backup, restore and merge: a whole memory from and to another folder, while others read and write it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole
from fairseq_seg.store.database import NAME
from fairseq_seg.store.pair import Conflict, ImportCounts, StoredPair, TranslationUnit
from fairseq_seg.store.rows import COLUMNS
from fairseq_seg.store.store import TranslationMemory

PAGES = 4096
RESTORED = COLUMNS.replace("revision", ":revision")
# All but the revision, which says when a row came in, not what it is.
CONTENT = COLUMNS.replace("revision, ", "")
# What the memory has otherwise than the backup goes, and what the backup has otherwise comes, with a new revision, so
# that whoever follows the changes hears of it.
STEPS = f"""
CREATE TEMP TABLE wrong AS
    SELECT id FROM (SELECT {CONTENT} FROM main.entries EXCEPT SELECT {CONTENT} FROM kept.entries);
CREATE TEMP TABLE missing AS
    SELECT id FROM (SELECT {CONTENT} FROM kept.entries EXCEPT SELECT {CONTENT} FROM main.entries);
DELETE FROM main.entries WHERE id IN (SELECT id FROM wrong);
INSERT INTO main.entries ({COLUMNS}, source_key)
    SELECT {RESTORED}, source_key FROM kept.entries WHERE id IN (SELECT id FROM missing);
INSERT INTO main.deleted SELECT id, :revision FROM wrong WHERE id NOT IN (SELECT id FROM missing);
DELETE FROM main.deleted WHERE id IN (SELECT id FROM missing)
"""


def back_up(memory: TranslationMemory, path: Path) -> None:
    """Copy a memory, as it is at one moment, to a new folder, which is a memory itself; the index is not copied."""
    if path.exists():
        raise SegError(f"{path} exists already: choose another name, or delete it first.")
    with make_whole(path) as folder:
        for file in memory.path.iterdir():
            if file.name.startswith(("dict.", "spm.")):
                shutil.copyfile(file, folder / file.name)
        with tqdm(desc=path.name, unit=" pages", leave=False) as bar:

            def show(status: int, left: int, total: int) -> None:
                bar.total = total
                bar.update(total - left - bar.n)

            copy = sqlite3.connect(folder / NAME)
            try:
                memory.database.copy_to(copy, PAGES, show)
                [(verdict,), *_] = copy.execute("PRAGMA quick_check(1)").fetchall()
            finally:
                copy.close()
        if verdict != "ok":
            raise SegError(f"{memory.path} is damaged ({verdict}): restore it from an older backup.")


def restore(path: Path, backup: Path) -> dict[str, int]:
    """Make a memory what it was when it was backed up, in one transaction; count the pairs put back and removed.

    Processes that use the memory see the restored pairs. A memory that is lost is copied back.
    """
    with TranslationMemory(backup, read_only=True) as kept:
        if not path.exists():
            back_up(kept, path)
            return {"restored": len(kept), "removed": 0}
        with TranslationMemory(path) as memory:
            if (memory.source_lang, memory.target_lang, memory.symbols_fingerprint) != (
                kept.source_lang,
                kept.target_lang,
                kept.symbols_fingerprint,
            ):
                raise SegError(
                    f"{backup} is not a backup of {path}, it has other languages or subwords: merge it instead."
                )
            database = memory.database
            with database.attached(backup, "kept"), database.transaction() as revision:
                for step in STEPS.split(";\n"):
                    database.execute(step, {"revision": revision} if ":revision" in step else ())
                [(restored,)] = database.rows("SELECT count(*) FROM missing")
                [(removed,)] = database.rows("SELECT count(*) FROM wrong WHERE id NOT IN (SELECT id FROM missing)")
                for table in ("wrong", "missing"):
                    database.execute(f"DROP TABLE temp.{table}")
            database.checkpoint()
            return {"restored": restored, "removed": removed}


def merge(memory: TranslationMemory, other: Path, conflict: Conflict = "keep") -> ImportCounts:
    """Add all pairs of another memory, with what it knows of them; to resume a killed run, merge again."""
    if other.resolve() == memory.path.resolve():
        raise SegError(f"{other} is the memory itself: name another one.")
    with TranslationMemory(other, read_only=True) as source:
        if (source.source_lang, source.target_lang) != (memory.source_lang, memory.target_lang):
            raise SegError(
                f"{other} is a memory for {source.source_lang}-{source.target_lang}, and {memory.path} for "
                f"{memory.source_lang}-{memory.target_lang}: merge memories of the same languages."
            )
        pairs = tqdm(source.pairs(), other.name, len(source), leave=False, unit=" pairs")
        longest = 1 << 30  # what is in a memory was short enough for its owner
        return memory.add_many(as_units(pairs), conflict, longest)


def as_units(pairs: Iterator[StoredPair]) -> Iterator[TranslationUnit]:
    """Return stored pairs as pairs on their way into a memory."""
    for pair in pairs:
        texts = pair.source, pair.target, pair.origin, pair.unit, pair.attributes
        yield TranslationUnit(*texts, pair.created, pair.changed, pair.codes)
