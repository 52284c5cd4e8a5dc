"""A translation memory: pairs of texts with their symbols, origin, dates and attributes, in one SQLite database.

A memory is a folder with the database `memory.sqlite` (the truth), copies of the two dictionaries and of the two
subword models that its symbols were made with, and whatever indexes are derived from it. Every change is one
transaction, and its commit is the acknowledgement: it survives a killed process. Several processes may read and write
at once.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.corpus.dictionary import dictionary_fingerprint, read_dictionary
from fairseq_seg.corpus.protection import Protection
from fairseq_seg.corpus.subwords import Spelling, SubwordModel, SymbolEncoder, check_protection
from fairseq_seg.errors import SegError
from fairseq_seg.files import file_fingerprint, make_whole
from fairseq_seg.store.bulk import add_batch
from fairseq_seg.store.conditions import EVERY, Condition, all_of
from fairseq_seg.store.database import Database
from fairseq_seg.store.pair import (
    MAX_SYMBOLS,
    Changes,
    Conflict,
    ImportCounts,
    Outcome,
    Skipped,
    StoredPair,
    SymbolPair,
    TranslationUnit,
    unfit,
)
from fairseq_seg.store.rows import (
    COLUMNS,
    INSERT,
    WRITTEN,
    as_ids,
    as_new_row,
    as_pair,
    as_row,
    as_symbols,
    now,
    text_key,
)

# Pairs per transaction: enough that a commit costs nothing, few enough that other writers get their turn.
BATCH = 1000


class TranslationMemory:
    """A translation memory, opened for reading and writing or `read_only`; close it, or use it in a `with`."""

    @classmethod
    def create(
        cls,
        path: str | Path,
        source_lang: str,
        target_lang: str,
        data_bin: str | Path,
        spm_source: str | Path | None = None,
        spm_target: str | Path | None = None,
    ) -> TranslationMemory:
        """Make an empty memory for the dictionaries of a data-bin, and open it.

        Without a sentencepiece model, texts must be in symbols already, with blanks between them.
        """
        path = Path(path)
        if path.exists():
            raise SegError(f"{path} exists already: choose another name, or delete it first.")
        meta = {"source_lang": source_lang, "target_lang": target_lang}
        try:
            with make_whole(path) as folder:
                for side, lang, model in (("source", source_lang, spm_source), ("target", target_lang, spm_target)):
                    dictionary = Path(data_bin) / f"dict.{lang}.txt"
                    symbols = read_dictionary(dictionary)
                    subwords = SubwordModel(Path(model)) if model else None
                    if subwords is not None:
                        check_protection(symbols, subwords, dictionary)
                    elif Protection.of(symbols):
                        raise SegError(
                            f"{dictionary} has protected tokens, which texts in symbols cannot have: give --spm-source "
                            "and --spm-target."
                        )
                    share = SymbolEncoder(symbols, subwords).known_share()
                    if share < 0.5:
                        raise SegError(
                            f"{dictionary} knows only {share:.0%} of the symbols of {model}: name the subword model "
                            "that the data-bin was made with."
                        )
                    shutil.copyfile(dictionary, folder / f"dict.{lang}.txt")
                    meta[f"{side}_dictionary"] = dictionary_fingerprint(symbols)
                    meta[f"{side}_subwords"] = ""
                    if model is not None:
                        shutil.copyfile(model, folder / f"spm.{lang}.model")
                        meta[f"{side}_subwords"] = file_fingerprint(Path(model))
                Database.create(folder, meta)
        except OSError as error:
            raise SegError(
                f"{path} cannot be made ({error.strerror}): choose a folder that you may write to."
            ) from None
        return cls(path)

    def __init__(self, path: str | Path, read_only: bool = False):
        self.path = Path(path)
        self._database = Database(self.path, read_only)
        meta = self._database.meta
        self.source_lang: str = meta["source_lang"]
        self.target_lang: str = meta["target_lang"]
        self.dictionary_fingerprints: tuple[str, str] = (meta["source_dictionary"], meta["target_dictionary"])
        self.subword_fingerprints: tuple[str, str] = (meta["source_subwords"], meta["target_subwords"])

    def close(self) -> None:
        """Close the database; all that was acknowledged is in it already."""
        self._database.close()

    def __enter__(self) -> TranslationMemory:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # Symbols

    @property
    def symbols_fingerprint(self) -> str:
        """Identify the dictionaries and subword models that the symbols of the pairs were made with."""
        return blake2b(
            " ".join(self.dictionary_fingerprints + self.subword_fingerprints).encode(), digest_size=8
        ).hexdigest()

    def check_symbols(self, source_fingerprint: str, target_fingerprint: str) -> None:
        """Refuse dictionaries, by their fingerprints, other than those the memory was made with."""
        for lang, own, other in zip(
            (self.source_lang, self.target_lang),
            self.dictionary_fingerprints,
            (source_fingerprint, target_fingerprint),
            strict=True,
        ):
            if own != other:
                raise SegError(
                    f"{self.path} does not use the model's {lang} dictionary: export it, create it again with "
                    "`seg-memory create --data-bin` and the model's data-bin, and import the export."
                )

    @cached_property
    def _encoders(self) -> tuple[SymbolEncoder, SymbolEncoder]:
        encoders = []
        for lang, own, subwords in zip(
            (self.source_lang, self.target_lang), self.dictionary_fingerprints, self.subword_fingerprints, strict=True
        ):
            dictionary, model = self.path / f"dict.{lang}.txt", self.path / f"spm.{lang}.model"
            symbols = read_dictionary(dictionary)
            if dictionary_fingerprint(symbols) != own:
                raise SegError(f"{dictionary} has changed since the memory was created: restore the original.")
            if subwords and (not model.is_file() or file_fingerprint(model) != subwords):
                raise SegError(f"{model} has changed since the memory was created: restore the original.")
            encoders.append(SymbolEncoder(symbols, SubwordModel(model) if subwords else None))
        return encoders[0], encoders[1]

    def encode(self, source: str, target: str) -> SymbolPair:
        """Return the symbols of both sides of a pair as a pair holds them."""
        of_source, of_target = self._encoders
        source, target = self._readable(source), self._readable(target)
        return of_source.encode(source), of_target.encode_target(target, source, of_source.protection)

    def encode_all(self, pairs: Sequence[TranslationUnit]) -> list[SymbolPair]:
        """Run `encode` for many pairs, in a fraction of the time."""
        of_source, of_target = self._encoders
        sources = [self._readable(pair.source) for pair in pairs]
        targets = [self._readable(pair.target) for pair in pairs]
        encoded = of_target.encode_all_targets(targets, sources, of_source.protection)
        return list(zip(of_source.encode_all(sources), encoded, strict=True))

    def _readable(self, text: str) -> str:
        """Return what of a text is cut into symbols: inline codes have none unless tags are protected."""
        protection = self._encoders[0].protection
        return text if protection is not None and "tags" in protection.kinds else without_codes(text)

    @cached_property
    def spelling(self) -> Spelling:
        """The spelling of the source's symbols."""
        return Spelling(read_dictionary(self.path / f"dict.{self.source_lang}.txt"))

    def values(self, source: str, target: str) -> tuple[list[str], list[str]]:
        """Return what the reserved symbols of both sides of a pair stand for."""
        of_source, of_target = (encoder.protection for encoder in self._encoders)
        if of_source is None or of_target is None:
            return [], []
        source, target = self._readable(source), self._readable(target)
        return of_source.source(source).values, of_target.target(target, source, of_source).values

    # Reading

    def __len__(self) -> int:
        return self._database.rows("SELECT count(*) FROM entries")[0][0]

    @property
    def revision(self) -> int:
        """A number that every transaction that changes something raises; cheap enough to ask for each sentence."""
        return self._database.revision

    def pair(self, id: int) -> StoredPair:
        """Return one pair."""
        rows = self._database.rows(f"SELECT {COLUMNS} FROM entries WHERE id = ?", (id,))
        if not rows:
            raise SegError(f"{self.path} has no pair {id}.")
        return as_pair(rows[0])

    def sources_of(self, ids: Iterable[int]) -> list[tuple[int, np.ndarray]]:
        """Return the id and source symbols of each id that exists, in a quarter of the time of whole pairs."""
        query = "SELECT id, source_symbols FROM entries WHERE id IN (SELECT value FROM json_each(?))"
        return [(id, as_symbols(id, symbols)) for id, symbols in self._database.rows(query, (as_ids(ids),))]

    def pairs_of(self, ids: Iterable[int]) -> list[StoredPair]:
        """Return the pairs that exist among these ids, in order."""
        query = f"SELECT {COLUMNS} FROM entries WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        return [as_pair(row) for row in self._database.rows(query, (as_ids(ids),))]

    def pairs(self, conditions: Sequence[Condition] = ()) -> Iterator[StoredPair]:
        """Iterate over all pairs by id, or over those that fulfil all conditions.

        Reads page by page, and so sees what is written meanwhile unless within a `snapshot`. To miss
        nothing without one, read `revision` first, and the `changes` since then afterwards.
        """
        return map(as_pair, self._pages(COLUMNS, all_of(conditions)))

    def sources(self) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over the ids and source symbols of all pairs like `pairs`, in a quarter of the time."""
        for id, symbols in self._pages("id, source_symbols"):
            yield id, as_symbols(id, symbols)

    def _pages(self, columns: str, condition: Condition = EVERY) -> Iterator[tuple]:
        query = f"SELECT {columns} FROM entries WHERE id > ? AND ({condition.sql}) ORDER BY id LIMIT {BATCH}"
        last = 0
        while rows := self._database.rows(query, (last, *condition.values)):
            yield from rows
            last = rows[-1][0]

    def count(self, conditions: Sequence[Condition]) -> int:
        """Return the number of pairs that fulfil all conditions."""
        condition = all_of(conditions)
        return self._database.rows(f"SELECT count(*) FROM entries WHERE {condition.sql}", condition.values)[0][0]

    def changes(self, since: int) -> Changes:
        """Return what changed after the revision `since`; what was added and deleted since is only a deleted id."""
        # By revision: asked for the order of ids, SQLite would walk through all pairs.
        condition = "WHERE revision > ? ORDER BY revision, id"
        with self.snapshot():
            pairs = self._database.rows(f"SELECT {COLUMNS} FROM entries {condition}", (since,))
            deleted = self._database.rows(f"SELECT id FROM deleted {condition}", (since,))
            return Changes(self.revision, [as_pair(row) for row in pairs], [id for (id,) in deleted])

    def changed_sources(self, since: int) -> tuple[int, list[tuple[int, np.ndarray]], list[int]]:
        """Return `changes` with nothing of a pair but its id and source symbols: revision, pairs, deleted ids."""
        condition = "WHERE revision > ? ORDER BY revision, id"
        with self.snapshot():
            pairs = self._database.rows(f"SELECT id, source_symbols FROM entries {condition}", (since,))
            deleted = self._database.rows(f"SELECT id FROM deleted {condition}", (since,))
            changed = [(id, as_symbols(id, symbols)) for id, symbols in pairs]
            return self.revision, changed, [id for (id,) in deleted]

    def statistics(self) -> dict[str, int | str]:
        """Sum up what the memory holds, under names for people."""
        totals = "count(*), count(DISTINCT source_key), count(DISTINCT origin), min(created), max(changed)"
        lengths = "total(length(source_symbols)), total(length(target_symbols))"
        with self.snapshot():
            [row] = self._database.rows(f"SELECT {totals}, {lengths} FROM entries")
            [(deleted,)] = self._database.rows("SELECT count(*) FROM deleted")
            revision = self.revision
        pairs, sources, origins, first, last, *symbols = row
        return {
            "languages": f"{self.source_lang}-{self.target_lang}",
            "pairs": pairs,
            "sources": sources,
            "origins": origins,
            # Four bytes per symbol.
            "source symbols": f"{symbols[0] / 4 / max(pairs, 1):.1f} per pair",
            "target symbols": f"{symbols[1] / 4 / max(pairs, 1):.1f} per pair",
            "first created": first or "-",
            "last changed": last or "-",
            "deleted": deleted,
            "revision": revision,
            "fingerprint": self.symbols_fingerprint,
        }

    @property
    def database(self) -> Database:
        """The database, for what reads or changes many pairs at once."""
        return self._database

    def snapshot(self) -> AbstractContextManager[None]:
        """Read one state of the memory within the block, whatever others write meanwhile."""
        return self._database.snapshot()

    # Writing

    def add(
        self,
        source: str,
        target: str,
        *,
        origin: str = "",
        unit: str = "",
        attributes: dict[str, str] | None = None,
        conflict: Conflict = "keep",
    ) -> int:
        """Add a pair and return its id; a pair that is there already keeps its id.

        `conflict` says what happens to a source that has another target already: "keep" both; "overwrite", so that the
        new target is the only one; or "skip" the new pair (and get the id of the pair that stays).
        """
        pair = TranslationUnit(source, target, origin, unit, attributes)
        symbols = self._symbols(pair, MAX_SYMBOLS)
        if isinstance(symbols, Skipped):
            raise SegError(f"The pair cannot be added to {self.path}: it has {symbols.reason}.")
        with self._database.transaction() as revision:
            return self.put(pair, symbols, conflict, revision)[1]

    def add_many(
        self, units: Iterable[TranslationUnit | Skipped], conflict: Conflict = "keep", max_symbols: int = MAX_SYMBOLS
    ) -> ImportCounts:
        """Add pairs in transactions of a few thousand, and count what became of them and why.

        Each transaction is kept when a later one fails or the process is killed. To resume, add the same pairs again:
        those already there take little time. A pair with a side of more than `max_symbols` symbols is skipped.
        """
        counts = ImportCounts()
        units = iter(units)
        while batch := list(itertools.islice(units, BATCH)):
            add_batch(self, batch, conflict, max_symbols, counts)
        # Only now is the import acknowledged: until here, a power cut may take its last transactions.
        self._database.checkpoint()
        return counts

    def update(
        self, id: int, source: str | None = None, target: str | None = None, attributes: dict[str, str] | None = None
    ) -> None:
        """Change a pair: what is not given stays, given attributes replace all of them."""
        with self._database.transaction() as revision:
            old = self.pair(id)
            pair = TranslationUnit(
                old.source if source is None else source,
                old.target if target is None else target,
                old.origin,
                old.unit,
                old.attributes if attributes is None else attributes,
                codes=old.codes,
            )
            # A pair that was let in with more symbols than usual may stay so.
            longest = max(MAX_SYMBOLS, len(old.source_symbols), len(old.target_symbols))
            if reason := unfit(pair, None, longest) or unfit(
                pair, symbols := self.encode(pair.source, pair.target), longest
            ):
                raise SegError(f"Pair {id} of {self.path} cannot be changed: it would have {reason}.")
            if any(twin != id and text == pair.target for twin, text in self._same_source(pair.source)):
                raise SegError(f"{self.path} already holds that pair: delete pair {id} instead.")
            self._overwrite(id, pair, symbols, revision)

    def delete(self, *ids: int) -> None:
        """Delete pairs, all or none; their ids are remembered as deleted and never given again."""
        with self._database.transaction() as revision:
            for id in ids:
                self.pair(id)
                self._remove(id, revision)

    def delete_where(self, conditions: Sequence[Condition]) -> int:
        """Delete the pairs that fulfil all conditions, all or none, and return their number."""
        condition = all_of(conditions)
        with self._database.transaction() as revision:
            chosen = f"FROM entries WHERE {condition.sql}"
            self._database.execute(f"INSERT INTO deleted SELECT id, ? {chosen}", (revision, *condition.values))
            return self._database.change(f"DELETE {chosen}", condition.values)

    def _symbols(self, pair: TranslationUnit, max_symbols: int) -> SymbolPair | None | Skipped:
        """Return a pair's symbols, None if the memory holds the pair already, or why it cannot hold it."""
        if reason := unfit(pair, max_symbols=max_symbols):
            return Skipped(reason)
        if any(target == pair.target for _, target in self._same_source(pair.source)):
            return None
        symbols = self.encode(pair.source, pair.target)
        reason = unfit(pair, symbols, max_symbols)
        return Skipped(reason) if reason else symbols

    def targets_of(self, sources: Sequence[str]) -> dict[str, set[str]]:
        """Return the targets of the sources that the memory has."""
        found: dict[str, set[str]] = {}
        query = "SELECT source, target FROM entries WHERE source_key IN (SELECT value FROM json_each(?))"
        for source, target in self._database.rows(query, (as_ids(map(text_key, sources)),)):
            found.setdefault(source, set()).add(target)
        return found

    def _same_source(self, source: str) -> list[tuple[int, str]]:
        """List the pairs with a source text, as (id, target)."""
        query = "SELECT id, target FROM entries WHERE source_key = ? AND source = ? ORDER BY id"
        return self._database.rows(query, (text_key(source), source))

    def put(
        self, pair: TranslationUnit, symbols: SymbolPair | None, conflict: Conflict, revision: int
    ) -> tuple[Outcome, int]:
        """Add a pair within a transaction; return what became of it, and the id of it or of what stays instead."""
        found = self._same_source(pair.source)
        same = [id for id, target in found if target == pair.target]
        if same and (conflict != "overwrite" or len(found) == 1):
            return "present", same[0]
        if found and conflict == "skip":
            return "skipped", found[0][0]
        # The pair may have been there when its symbols were asked for, and have been deleted since.
        symbols = symbols or self.encode(pair.source, pair.target)
        if found and conflict == "overwrite":
            kept = (same or [found[0][0]])[0]
            for id, _ in found:
                if id != kept:
                    self._remove(id, revision)
            self._overwrite(kept, pair, symbols, revision)
            return "updated", kept
        return "added", self._database.execute(INSERT, (*as_new_row(pair, symbols), revision))

    def _overwrite(self, id: int, pair: TranslationUnit, symbols: SymbolPair, revision: int) -> None:
        row = (*as_row(pair, symbols), pair.changed or now(), revision)
        query = f"UPDATE entries SET ({WRITTEN}, revision) = ({', '.join('?' * len(row))}) WHERE id = ?"
        self._database.execute(query, (*row, id))

    def _remove(self, id: int, revision: int) -> None:
        self._database.execute("DELETE FROM entries WHERE id = ?", (id,))
        self._database.execute("INSERT INTO deleted VALUES (?, ?)", (id, revision))
