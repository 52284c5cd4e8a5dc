"""Concordance: the pairs in which words occur, on either side, with SQLite's full-text index.

The index lies beside the memory's database as `concordance.sqlite`, and takes over what has changed when somebody asks;
writers of the memory need not know of it. It holds no texts: a pair that has changed since is left out by its revision.
Without permission to write there, and for scripts that put no blanks between words, all pairs are read.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from tqdm import tqdm

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.errors import SegError
from fairseq_seg.store.database import PATIENCE
from fairseq_seg.store.pair import StoredPair
from fairseq_seg.store.store import TranslationMemory

NAME = "concordance.sqlite"
BATCH = 20_000
Side = Literal["source", "target", "both"]
# Thai, Lao, Burmese, Khmer, Japanese, Chinese.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
SCHEMA = """
CREATE TABLE progress (revision INTEGER NOT NULL, id INTEGER NOT NULL);
INSERT INTO progress VALUES (0, 0);
CREATE TABLE rows (number INTEGER PRIMARY KEY, id INTEGER NOT NULL, revision INTEGER NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (source, target, content = '', tokenize = 'unicode61 remove_diacritics 2');
"""


class Term(NamedTuple):
    """Words in a row; the last may be the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False


def find_words(memory: TranslationMemory, query: str, side: Side = "both", count: int = 100) -> list[StoredPair]:
    """Return up to `count` pairs with all the words of a query on one side, the best first.

    `"..."` is a phrase, and `word*` the beginning of a word. Case and accents do not count.
    """
    terms = parse_query(query)
    if UNSPACED.search(query):
        return scan(memory, query, terms, side, count)
    try:
        with closing(open_index(memory.path)) as index:
            update(index, memory)
            return search(index, memory, terms, side, count)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise SegError(f"{memory.path / NAME} cannot be used: {error}.") from None
        return scan(memory, query, terms, side, count)
    except sqlite3.DatabaseError as error:
        raise SegError(f"{memory.path / NAME} cannot be used ({error}): delete it, it will be made again.") from None


def parse_query(query: str) -> list[Term]:
    """Parse words and phrases."""
    terms = []
    for match in re.finditer(r'"([^"]*)"?(\*?)|([^\s"]+)', query):
        text = match[1] if match[3] is None else match[3]
        words = tuple(re.findall(r"[^\W_]+", fold(text)))
        if words:
            terms.append(Term(words, text.endswith("*") or match[2] == "*"))
    if not terms:
        raise SegError(f"'{query}' has no word: give words to look for.")
    return terms


def fold(text: str) -> str:
    """Return a text without accents, in small letters."""
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part)).lower()


def open_index(path: Path) -> sqlite3.Connection:
    """Open the index of a memory, and make it if there is none."""
    index = sqlite3.connect(path / NAME, timeout=PATIENCE, isolation_level=None)
    index.execute("PRAGMA journal_mode = WAL")
    index.execute("PRAGMA synchronous = NORMAL")  # it can be made again
    index.execute("BEGIN IMMEDIATE")
    if not index.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in SCHEMA.split(";\n"):
            index.execute(statement)
    index.execute("COMMIT")
    return index


def update(index: sqlite3.Connection, memory: TranslationMemory) -> None:
    """Take over what has changed in a memory, batch by batch; a killed process resumes."""
    query = f"""SELECT id, revision, source, target FROM entries WHERE revision > ? OR (revision = ? AND id > ?)
        ORDER BY revision, id LIMIT {BATCH}"""
    bar = tqdm(desc="concordance", leave=False, unit=" pairs", delay=1)
    while True:
        index.execute("BEGIN IMMEDIATE")
        try:
            [(revision, id)] = index.execute("SELECT revision, id FROM progress").fetchall()
            if revision > memory.revision:  # an older copy of the memory was put back
                for statement in ("DROP TABLE words", "DROP TABLE rows", "DROP TABLE progress", *SCHEMA.split(";\n")):
                    index.execute(statement)
                revision = id = 0
            changed = memory.database.rows(query, (revision, revision, id))
            for pair_id, changed_at, source, target in changed:
                number = index.execute("INSERT INTO rows (id, revision) VALUES (?, ?)", (pair_id, changed_at)).lastrowid
                texts = without_codes(source), without_codes(target)
                index.execute("INSERT INTO words (rowid, source, target) VALUES (?, ?, ?)", (number, *texts))
            if changed:
                index.execute("UPDATE progress SET revision = ?, id = ?", (changed[-1][1], changed[-1][0]))
            index.execute("COMMIT")
        except BaseException:
            index.rollback()
            raise
        bar.update(len(changed))
        if len(changed) < BATCH:
            bar.close()
            return


def search(
    index: sqlite3.Connection, memory: TranslationMemory, terms: list[Term], side: Side, count: int
) -> list[StoredPair]:
    """Return the pairs that the index finds, as far as they are still what it knows of them."""
    wanted = " AND ".join(f'"{" ".join(term.words)}"{" *" * term.prefix}' for term in terms)
    sides = ("source", "target") if side == "both" else (side,)
    match = " OR ".join(f"({name} : ({wanted}))" for name in sides)
    hits = index.execute(
        "SELECT rows.id, rows.revision FROM words JOIN rows ON rows.number = words.rowid "
        "WHERE words MATCH ? ORDER BY rank",
        (match,),
    )
    found: list[StoredPair] = []
    while len(found) < count and (some := hits.fetchmany(2 * count)):
        pairs = {(pair.id, pair.revision): pair for pair in memory.pairs_of(id for id, _ in some)}
        found += [pairs[hit] for hit in some if hit in pairs]
    return found[:count]


def scan(memory: TranslationMemory, query: str, terms: list[Term], side: Side, count: int) -> list[StoredPair]:
    """Read all pairs; words of a script without blanks may be within others."""
    found = []
    unspaced = bool(UNSPACED.search(query))
    patterns = [as_pattern(term, unspaced) for term in terms]
    for pair in tqdm(memory.pairs(), "reading", len(memory), leave=False, unit=" pairs", delay=1):
        texts = [fold(without_codes(text)) for text in sides_of(pair, side)]
        if any(all(pattern.search(text) for pattern in patterns) for text in texts):
            found.append(pair)
            if len(found) == count:
                break
    return found


def sides_of(pair: StoredPair, side: Side) -> Iterator[str]:
    """Yield the texts that are looked through."""
    if side != "target":
        yield pair.source
    if side != "source":
        yield pair.target


def as_pattern(term: Term, within: bool) -> re.Pattern[str]:
    """Return a term as an expression for folded text; `within`: also in the middle of a word."""
    words = r"[\W_]+".join(map(re.escape, term.words))
    end = "" if term.prefix else r"(?![^\W_])"
    return re.compile(words if within else rf"(?<![^\W_]){words}{end}")
