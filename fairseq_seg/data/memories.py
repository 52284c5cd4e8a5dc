"""The memories that can be searched at translation time: the training set, and memories of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from fairseq_seg.data.databin import DataBin
from fairseq_seg.data.search import SearchSettings, open_retriever
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.unit import Symbols, Words
from fairseq_seg.store.index import MemorySearch
from fairseq_seg.store.store import Entry, TranslationMemory
from fairseq_seg.store.symbols import dictionary_hash, file_hash

# What the training set is called among memories.
TRAIN = "train"


class Match(NamedTuple):
    """A pair that a memory proposes: its id there, its fuzzy score, both sides (int32, without eos), its origin."""

    id: int
    score: float
    source: np.ndarray
    target: np.ndarray
    origin: str


class Searchable(Protocol):
    """A memory that can be searched: the training set, or one of the user's own."""

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        """Returns the best pairs of each query (token ids without eos), best first."""


class TrainingSet:
    """The training set of a data-bin as a memory."""

    def __init__(self, home: DataBin, settings: SearchSettings):
        self._retriever, _ = open_retriever(home, settings)
        self._sides = home.pair("train")

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        found = self._retriever.search_and_cover(queries)
        return [[self._match(*pair) for pair in zip(ids, scores, strict=True)] for ids, scores, _ in found]

    def _match(self, row: int, score: float) -> Match:
        source, target = (side[row].astype(np.int32) for side in self._sides)
        return Match(int(row), score, source, target, f"{TRAIN}:{row}")


class OwnMemory:
    """A memory that seg-memory made; it may grow while it is searched."""

    def __init__(self, path: str, settings: SearchSettings, score_unit: Symbols | Words):
        self._search = MemorySearch(path, settings, score_unit)
        self._name = Path(path).name
        self._count = settings.candidates

    def search(self, queries: Sequence[np.ndarray]) -> list[list[Match]]:
        rows = self._search.search(queries, self._count)
        return [[self._match(*found) for found in row] for row in rows]

    def _match(self, entry: Entry, score: float) -> Match:
        place = ", ".join(filter(None, (entry.origin, entry.unit and f"unit {entry.unit}")))
        origin = f"{self._name}:{entry.id}" + (f" ({place})" if place else "")
        return Match(entry.id, score, entry.source_symbols, entry.target_symbols, origin)


def parse_memories(names: str) -> list[tuple[str, float]]:
    """Reads ``client.mem,domain.mem:0.05,train``: memories, each with the penalty that its scores are lowered by."""
    memories = []
    for part in names.split(","):
        name, colon, penalty = part.strip().rpartition(":")
        try:
            memory = (name, float(penalty)) if colon else (penalty, 0.0)
        except ValueError:  # a colon of the name
            memory = (part.strip(), 0.0)
        if not memory[0] or not 0 <= memory[1] <= 1:
            raise SegError(
                f"--memory {names}: '{part}' is no memory; write its path, and after a colon a penalty from 0 to 1."
            )
        memories.append(memory)
    return memories


def check_memories(names: str, langs: tuple[str, str], dictionaries: tuple[Sequence[str], Sequence[str]]) -> None:
    """Refuses memories of another language pair or of other symbols than those of the model, before any work is done.

    ``dictionaries`` are the model's symbols, source and target, in the order of their ids.
    """
    first: TranslationMemory | None = None
    for name, _ in parse_memories(names):
        if name == TRAIN:
            continue
        with TranslationMemory(name, read_only=True) as memory:
            if (memory.source_lang, memory.target_lang) != langs:
                raise SegError(
                    f"{name} is a memory of {memory.source_lang}-{memory.target_lang}, and the model translates "
                    f"{'-'.join(langs)}: name a memory of these languages."
                )
            memory.check_symbols(*map(dictionary_hash, dictionaries))
            first = memory if first is None else first
            if memory.subword_hashes != first.subword_hashes:
                raise SegError(
                    f"{name} was made with another subword model than {first.path}: make it again with the model's "
                    "(seg-memory create), and import its export."
                )


def check_subwords(names: str, subword_model: str) -> None:
    """Refuses memories whose source was cut by another sentencepiece model than that of typed sentences."""
    for name, _ in parse_memories(names):
        if name != TRAIN:
            with TranslationMemory(name, read_only=True) as memory:
                if memory.subword_hashes[0] not in ("", file_hash(Path(subword_model))):
                    raise SegError(
                        f"{name} was made with another subword model than {subword_model}: make it again with this one "
                        "(seg-memory create), and import its export."
                    )
