"""The memories that `--memory` names: the training set, and the user's own memories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import UNKNOWN, dictionary_fingerprint
from fairseq_seg.corpus.pairs import TRAIN, PairTable
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.corpus.values import Values
from fairseq_seg.errors import SegError
from fairseq_seg.files import file_fingerprint
from fairseq_seg.retrieval.search import open_retriever
from fairseq_seg.retrieval.unit import Unit
from fairseq_seg.store.index import MemorySearch
from fairseq_seg.store.pair import StoredPair
from fairseq_seg.store.store import TranslationMemory


class Match(NamedTuple):
    """A pair that a memory proposes; symbols are int32, without eos."""

    score: float
    id: int
    source: np.ndarray
    target: np.ndarray
    origin: str
    texts: tuple[str, str] | None  # None: to be spelled from the symbols
    values: tuple[list[str], list[str]] = ([], [])  # of the reserved symbols of both sides

    @property
    def key(self) -> tuple:
        """What tells distinct pairs apart, whatever their memory: symbols, and texts that these cannot spell."""
        spelled = UNKNOWN not in self.source and UNKNOWN not in self.target
        texts = None if spelled else self.texts
        return self.source.tobytes(), self.target.tobytes(), *map(tuple, self.values), texts


class Searchable(Protocol):
    """A memory that can be searched: the training set, or one of the user's own."""

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        """Return the best pairs of each query (token ids without eos), best first."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class TrainingSet:
    """The training set of a data-bin as a memory."""

    def __init__(self, home: DataBin, settings: SearchSettings):
        self._retriever = open_retriever(home, settings)
        self._table = home.table()

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        """Return the best pairs of each query."""
        found = self._retriever.search(queries, cover=False)
        return [[self._match(*pair) for pair in zip(ids, scores, strict=True)] for ids, scores, _ in found]

    def _match(self, row: int, score: float) -> Match:
        table = self._table
        source, target = (side[row].astype(np.int32) for side in (table.source, table.target))
        return Match(score, int(row), source, target, table.origin(row), None, table.values(row))

    def close(self) -> None:
        """Do nothing: the index is memory-mapped, and its files may be removed at any time."""


class OwnMemory:
    """A memory created by seg-memory, which may grow while it is searched."""

    def __init__(self, path: str, settings: SearchSettings, score_unit: Unit):
        self._search = MemorySearch(path, settings, score_unit)
        self._name = Path(path).name
        self._count = settings.candidates

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        """Return the best pairs of each query from the memory's current contents."""
        rows = self._search.search(queries, self._count)
        return [[own_match(self._name, self._search.memory, *found) for found in row] for row in rows]

    def close(self) -> None:
        """Close the database and its index."""
        self._search.close()


def own_match(name: str, memory: TranslationMemory, pair: StoredPair, score: float) -> Match:
    """Return a pair of a memory as a match; its origin is memory and id, then the file and unit of its import."""
    place = ", ".join(filter(None, (pair.origin, pair.unit and f"unit {pair.unit}")))
    origin = f"{name}:{pair.id}" + (f" ({place})" if place else "")
    sides = pair.source_symbols, pair.target_symbols
    texts, reserved = (pair.source, pair.target), memory.spelling.reserved
    protected = reserved is not None and reserved.is_reserved[pair.source_symbols].any()
    return Match(score, pair.id, *sides, origin, texts, memory.values(*texts) if protected else ([], []))


def every_pair(home: DataBin, names: str) -> list[PairTable]:
    """Return all pairs of the memories in `names` (see `parse_memories`), one table per memory."""
    tables = []
    for name, _ in parse_memories(names):
        if name == TRAIN:
            tables.append(home.table())
            continue
        with TranslationMemory(name, read_only=True) as memory:
            matches = [own_match(Path(name).name, memory, pair, 1.0) for pair in memory.pairs()]
        tables.append(as_table(matches, home))
    return tables


def as_table(matches: Sequence[Match], home: DataBin) -> PairTable:
    """Return matches as a table, numbered in order."""
    source = Sequences.from_rows(match.source for match in matches)
    target = Sequences.from_rows(match.target for match in matches)
    if home.protections is not None:
        source = source.with_values(Values.from_rows(match.values[0] for match in matches))
        target = target.with_values(Values.from_rows(match.values[1] for match in matches))
    return PairTable(
        source,
        target,
        home.spellings,
        ids=[match.id for match in matches],
        origins=[match.origin for match in matches],
        texts=[match.texts for match in matches],
    )


def parse_memories(names: str) -> list[tuple[str, float]]:
    """Parse ``client.mem,domain.mem:0.05,train`` into memories and the penalties on their scores."""
    memories = []
    for part in names.split(","):
        name, colon, penalty = part.strip().rpartition(":")
        try:
            memory = (name, float(penalty)) if colon else (penalty, 0.0)
        except ValueError:  # a colon in the name
            memory = (part.strip(), 0.0)
        if not memory[0] or not 0 <= memory[1] <= 1:
            raise SegError(
                f"--memory {names}: '{part}' is not a memory: write PATH, or PATH:PENALTY with a penalty from 0 to 1."
            )
        memories.append(memory)
    return memories


def check_memories(names: str, langs: tuple[str, str], dictionaries: tuple[Sequence[str], Sequence[str]]) -> None:
    """Refuse memories whose language pair or symbols differ from the model's, before any work is done.

    ``dictionaries`` are the model's source and target symbols in id order.
    """
    first: TranslationMemory | None = None
    for name, _ in parse_memories(names):
        if name == TRAIN:
            continue
        with TranslationMemory(name, read_only=True) as memory:
            if (memory.source_lang, memory.target_lang) != langs:
                raise SegError(
                    f"{name} is a memory for {memory.source_lang}-{memory.target_lang}, but the model translates "
                    f"{'-'.join(langs)}: name a memory for these languages."
                )
            memory.check_symbols(*map(dictionary_fingerprint, dictionaries))
            first = memory if first is None else first
            if memory.subword_fingerprints != first.subword_fingerprints:
                raise SegError(
                    f"{name} and {first.path} use different subword models: create {name} again with the model's own "
                    "(seg-memory create), and import an export of the old one."
                )


def check_subwords(names: str, subword_model: str | Path) -> None:
    """Refuse memories whose source was encoded by another sentencepiece model than typed sentences are."""
    for name, _ in parse_memories(names):
        if name != TRAIN:
            with TranslationMemory(name, read_only=True) as memory:
                if memory.subword_fingerprints[0] not in ("", file_fingerprint(Path(subword_model))):
                    raise SegError(
                        f"{name} does not use the subword model {subword_model}: create it again with this model "
                        "(seg-memory create), and import an export of the old one."
                    )
