"""Retrieval at translation time: pairs for sentences that no attached file knows, or from memories of one's own."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.data.attached import AttachedError, AttachedMemory, attached_path
from fairseq_seg.data.databin import DataBin
from fairseq_seg.data.memories import TRAIN, Match, OwnMemory, Searchable, TrainingSet, parse_memories
from fairseq_seg.data.search import SearchSettings
from fairseq_seg.retrieval.select import choose, greedy_coverage
from fairseq_seg.retrieval.sequences import EOS, UNKNOWN, Sequences
from fairseq_seg.retrieval.unit import Symbols, Words
from fairseq_seg.store.symbols import read_dictionary

logger = logging.getLogger(__name__)


class Retrieved(NamedTuple):
    """The pairs of N sentences as ragged rows, best first: starts (N + 1,), ids (P,) and scores (P,)."""

    starts: np.ndarray
    ids: np.ndarray
    scores: np.ndarray


class Side:
    """The sources, or the targets, of the pairs retrieved so far: token ids with eos, as fairseq's datasets have it."""

    def __init__(self):
        self._rows: list[Tensor] = []
        self._sizes = array("q")

    def append(self, symbols: np.ndarray) -> None:
        """Takes the next pair's symbols, without eos."""
        self._rows.append(torch.tensor([*symbols.tolist(), EOS]))
        self._sizes.append(len(symbols) + 1)

    def __getitem__(self, pair: int) -> Tensor:
        return self._rows[pair]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def sizes(self) -> np.ndarray:
        """The length of each row, eos included."""
        return np.array(self._sizes)


class RetrievedPairs:
    """Every distinct pair that was retrieved so far, numbered in the order in which they were first found.

    A pair stays as it was when it was found, even where its memory has changed since: what was read can be looked up.
    """

    def __init__(self):
        self.source, self.target = Side(), Side()
        self.ids: list[int] = []
        self.origins: list[str] = []
        self._numbers: dict[tuple, int] = {}

    def number(self, match: Match) -> int:
        """The number of a pair, a new one where it was never retrieved."""
        key = match.origin, match.source.tobytes(), match.target.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self.source.append(match.source)
            self.target.append(match.target)
            self.ids.append(match.id)
            self.origins.append(match.origin)
        return self._numbers[key]


class LiveRetrieval:
    """Searches memories of one's own and the training set, with the settings that seg-attach used there.

    The pairs of all memories stand in one ranking by their score, lowered by their memory's penalty; of equal scores
    the memory named first comes first. A pair that two memories hold counts once. Pairs go by a number of their own,
    under which `source`, `target` and `origin` give them.
    """

    def __init__(
        self,
        data: str,
        source_lang: str,
        target_lang: str,
        k: int,
        mode: str,
        min_score: float,
        memories: str = TRAIN,
        ignore_exact: bool = False,
    ):
        """Opens what `parse_memories` reads in ``memories``; ``ignore_exact`` leaves out pairs with the very source."""
        try:
            recorded = AttachedMemory.load(attached_path(data, "train", source_lang, target_lang)).settings
        except AttachedError:  # never attached
            recorded = {}
        settings = SearchSettings(**{name: recorded[name] for name in SearchSettings._fields if name in recorded})
        self._unit = Symbols()
        if settings.score_unit == "word":
            self._unit = Words(read_dictionary(Path(data) / f"dict.{source_lang}.txt"))
        self._memories: list[tuple[Searchable, float]] = []
        for name, penalty in parse_memories(memories):
            if name == TRAIN:
                memory = TrainingSet(DataBin(data, source_lang, target_lang), settings)
            else:
                memory = OwnMemory(name, settings, self._unit)
            self._memories.append((memory, penalty))
        self._candidates = settings.candidates
        self.k, self.mode, self.min_score, self.ignore_exact = k, mode, min_score, ignore_exact
        self.pairs = RetrievedPairs()

    @property
    def source(self) -> Side:
        """The sources of the pairs, by id."""
        return self.pairs.source

    @property
    def target(self) -> Side:
        """The targets of the pairs, by id."""
        return self.pairs.target

    def id(self, pair: int) -> int:
        """The pair's own id in the memory that it comes from; of the training set, its row."""
        return self.pairs.ids[pair]

    def origin(self, pair: int) -> str:
        """Says where a pair comes from: ``train:17`` is the 18th pair of the training set; of a memory it says the
        name, the entry's id, and the file and unit that it was imported from."""
        return self.pairs.origins[pair]

    def retrieve(self, sentences: Sequence) -> Retrieved:
        """Finds the pairs of sentences of token ids (with or without eos)."""
        began = time.perf_counter()
        queries = list(Sequences.from_rows(sentences))
        found = zip(*(memory.search(queries) for memory, _ in self._memories), strict=True)
        rows, scores = [], []
        for query, proposals in zip(queries, found, strict=True):
            matches, lowered = self._rank(query, proposals)
            query_characters = self._unit.characters(query)
            covering = greedy_coverage(query_characters, [self._unit.characters(match.source) for match in matches])
            chosen, kept = choose(np.arange(len(matches)), lowered, covering, self.k, self.mode, self.min_score)
            rows.append([self.pairs.number(matches[place]) for place in chosen])
            scores.append(kept)
        logger.info("retrieval: %d sentences in %.3f seconds", len(rows), time.perf_counter() - began)
        return Retrieved(
            np.cumsum([0, *map(len, rows)]),
            np.array([pair for row in rows for pair in row], dtype=np.int64),
            np.concatenate([np.zeros(0, np.float32), *scores]),
        )

    def _rank(self, query: np.ndarray, proposals: Sequence[list[Match]]) -> tuple[list[Match], np.ndarray]:
        """Merges what the memories propose for a sentence; returns the pairs and their scores (C,), best first."""
        ranked = sorted(
            (np.float32(penalty) - match.score, order, match.id, match)
            for order, ((_, penalty), matches) in enumerate(zip(self._memories, proposals, strict=True))
            for match in matches
            if not (self.ignore_exact and is_exact(query, match.source))
        )
        distinct: dict[tuple[bytes, bytes], tuple[float, Match]] = {}
        for distance, _, _, match in ranked:
            distinct.setdefault((match.source.tobytes(), match.target.tobytes()), (-distance, match))
        best = list(distinct.values())[: self._candidates]
        return [match for _, match in best], np.array([score for score, _ in best], dtype=np.float32)


def is_exact(query: np.ndarray, source: np.ndarray) -> bool:
    """Tells whether two sentences are the same; with an unknown symbol nobody knows, and they are not."""
    return np.array_equal(query, source) and UNKNOWN not in query


def _retrieve(sentences: list, *arguments) -> tuple[Retrieved, RetrievedPairs]:
    live = LiveRetrieval(*arguments)
    return live.retrieve(sentences), live.pairs


def retrieve_apart(sentences: list[np.ndarray], *arguments) -> tuple[Retrieved, RetrievedPairs]:
    """As `LiveRetrieval(*arguments).retrieve(sentences)`, with the Java machine in a process of its own.

    For a split that data-loader workers will read: they are forked, and a process with Java inside should not be.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_retrieve, sentences, *arguments).result()
