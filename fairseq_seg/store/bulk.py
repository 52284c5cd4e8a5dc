"""Adding many pairs: what takes time happens before others are locked out, and for thousands of pairs at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.store.pair import Conflict, ImportCounts, Outcome, Skipped, SymbolPair, TranslationUnit, unfit
from fairseq_seg.store.rows import INSERT, as_new_row

if TYPE_CHECKING:
    from fairseq_seg.store.store import TranslationMemory

# A pair with its symbols and its row; None for a pair that the memory had when they were asked for.
Ready = list[tuple[TranslationUnit, tuple[SymbolPair, tuple] | None]]


def add_batch(
    memory: TranslationMemory,
    batch: Sequence[TranslationUnit | Skipped],
    conflict: Conflict,
    max_symbols: int,
    counts: ImportCounts,
) -> None:
    """Add pairs in one transaction, with the same outcome as one after the other, and count what became of them."""
    fit: list[TranslationUnit] = []
    for unit in batch:
        reason = unit if isinstance(unit, Skipped) else unfit(unit, max_symbols=max_symbols)
        if reason is None:
            fit.append(unit)  # type: ignore[arg-type]
        else:
            counts.count(reason if isinstance(reason, Skipped) else Skipped(reason))
    if not fit:
        return
    before = memory.revision
    known = memory.targets_of([pair.source for pair in fit])
    ready = encode(memory, fit, known, max_symbols, counts)
    outcomes: Counter[Outcome] = Counter()
    with memory.database.transaction(durable=False) as revision:
        if revision != before + 1:  # somebody has changed the memory meanwhile
            known = memory.targets_of([pair.source for pair, _ in ready])
        put_all(memory, ready, known, conflict, revision, outcomes)
    counts.added += outcomes["added"]
    counts.updated += outcomes["updated"]
    counts.present += outcomes["present"]
    if outcomes["skipped"]:
        counts.skipped["a source that has another target"] += outcomes["skipped"]


def encode(
    memory: TranslationMemory,
    pairs: Sequence[TranslationUnit],
    known: dict[str, set[str]],
    max_symbols: int,
    counts: ImportCounts,
) -> Ready:
    """Cut the pairs into symbols that the memory does not have, and leave out those that it cannot hold."""
    new = [pair for pair in pairs if pair.target not in known.get(pair.source, ())]
    symbols = iter(memory.encode_all(new))
    ready: Ready = []
    all_symbols: list[np.ndarray] = []
    for pair in pairs:
        if pair.target in known.get(pair.source, ()):
            ready.append((pair, None))
            continue
        sides = next(symbols)
        if reason := unfit(pair, sides, max_symbols):
            counts.count(Skipped(reason))
        else:
            ready.append((pair, (sides, as_new_row(pair, sides))))
            all_symbols += sides
    if all_symbols:
        joined = np.concatenate(all_symbols)
        counts.symbols += len(joined)
        counts.unknown_symbols += int(np.sum(joined == UNKNOWN))
    return ready


def put_all(
    memory: TranslationMemory,
    ready: Ready,
    known: dict[str, set[str]],
    conflict: Conflict,
    revision: int,
    outcomes: Counter[Outcome],
) -> None:
    """Add pairs within a transaction; `known` are the targets that the memory has, and is kept up to date."""
    rows: list[tuple] = []
    for pair, made in ready:
        targets = known.setdefault(pair.source, set())
        if pair.target in targets and (conflict != "overwrite" or len(targets) == 1):
            outcomes["present"] += 1
        elif not targets or conflict == "keep":
            # The pair may have been there when its symbols were asked for, and have been deleted since.
            row = made[1] if made else as_new_row(pair, memory.encode(pair.source, pair.target))
            rows.append((*row, revision))
            targets.add(pair.target)
            outcomes["added"] += 1
        else:
            # What is decided by the rows of the same source needs these in the table.
            memory.database.execute_many(INSERT, rows)
            rows = []
            outcome, _ = memory.put(pair, made[0] if made else None, conflict, revision)
            outcomes[outcome] += 1
            if outcome == "updated":
                known[pair.source] = {pair.target}
    memory.database.execute_many(INSERT, rows)
