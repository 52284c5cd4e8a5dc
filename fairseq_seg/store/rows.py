"""The rows of a memory's table: pairs to columns, and columns to pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b

import numpy as np

from fairseq_seg.errors import SegError
from fairseq_seg.store.pair import Codes, StoredPair, SymbolPair, TranslationUnit

COLUMNS = (
    "id, source, target, source_symbols, target_symbols, origin, unit, created, changed, attributes, revision, codes"
)
# In the order of `as_row`, the date of the change last.
WRITTEN = "source, target, source_key, source_symbols, target_symbols, origin, unit, attributes, codes, changed"
# Takes what `as_new_row` returns, and the revision.
INSERT = f"INSERT INTO entries ({WRITTEN}, created, revision) VALUES ({', '.join('?' * 12)})"


def as_row(pair: TranslationUnit, symbols: SymbolPair) -> tuple:
    """Return the values of the columns `WRITTEN`, except for the date of the change."""
    source_symbols, target_symbols = (side.astype("<i4", copy=False).tobytes() for side in symbols)
    attributes = json.dumps(pair.attributes, ensure_ascii=False) if pair.attributes else "{}"
    texts = (pair.source, pair.target, text_key(pair.source), source_symbols, target_symbols)
    codes = pair.codes.within(pair.source, pair.target).spelled() if pair.codes.format else ""
    return (*texts, pair.origin, pair.unit, attributes, codes)


def as_new_row(pair: TranslationUnit, symbols: SymbolPair) -> tuple:
    """Return the values that `INSERT` takes, except for the revision, which is known only within a transaction."""
    created = pair.created or now()
    return (*as_row(pair, symbols), pair.changed or created, created)


def as_pair(row: tuple) -> StoredPair:
    """Turn a row of `COLUMNS` into a pair."""
    (
        id,
        source,
        target,
        source_symbols,
        target_symbols,
        origin,
        unit,
        created,
        changed,
        attributes,
        revision,
        spelled,
    ) = row
    symbols = as_symbols(id, source_symbols), as_symbols(id, target_symbols)
    try:
        known = json.loads(attributes)
        codes = Codes.parse(spelled)
    except (TypeError, ValueError, AttributeError):
        raise damaged(id) from None
    texts = (source, target, origin, unit, created, changed)
    if not isinstance(known, dict) or not all(isinstance(text, str) for text in (*texts, *known.values())):
        raise damaged(id)
    return StoredPair(id, source, target, *symbols, origin, unit, created, changed, known, revision, codes)


def as_symbols(id: int, column: bytes) -> np.ndarray:
    """Return the symbols in a column of a pair."""
    try:
        symbols = np.frombuffer(column, dtype="<i4")
    except (TypeError, ValueError):
        raise damaged(id) from None
    if symbols.min(initial=0) < 0:
        raise damaged(id)
    return symbols


def damaged(id: int) -> SegError:
    """Return the error about a pair that this package did not write like that."""
    return SegError(f"Pair {id} of the memory is damaged: restore the memory from a copy.")


def text_key(text: str) -> int:
    """Return a text's 64-bit key, by which the database finds it without an index of whole texts."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def as_ids(ids: Iterable[int]) -> str:
    """Return ids or keys as SQLite's json_each takes them."""
    return json.dumps(list(ids))


def now() -> str:
    """Return the time, UTC, in whole seconds as in TMX."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
