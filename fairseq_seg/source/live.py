"""Retrieval at translation time: for sentences without attached pairs, or from the user's own memories."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs, Row
from fairseq_seg.corpus.selection import greedy_coverage
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.retrieval.fuzzy import fuzzy_scores
from fairseq_seg.retrieval.unit import make_unit
from fairseq_seg.source.memories import Match, OwnMemory, Searchable, TrainingSet, as_table, parse_memories
from fairseq_seg.source.pair_source import Sentences, Wanted, as_sequences, is_exact, live_signature

logger = logging.getLogger(__name__)


class OpenMemory(NamedTuple):
    """A memory, by the name that --memory gave it, and the penalty on its scores."""

    name: str
    memory: Searchable
    penalty: float


class Live:
    """Searches the user's own memories and the training set.

    All pairs share one ranking by score, less the penalty of their memory. Among equal scores, the memory named first
    comes first. A pair that is in two memories counts once.
    """

    def __init__(self, data: DataBin, wanted: Wanted, settings: SearchSettings):
        self.signature = live_signature(wanted)
        self._data, self._wanted = data, wanted
        self._unit = make_unit(settings.score_unit, data.spellings[0])
        self._candidates = settings.candidates
        self._memories: list[OpenMemory] = []
        for name, penalty in parse_memories(wanted.memories):
            memory = TrainingSet(data, settings) if name == TRAIN else OwnMemory(name, settings, self._unit)
            self._memories.append(OpenMemory(name, memory, penalty))

    def within(self, names: Collection[str]) -> Live:
        """Return the same search in some of the memories only, which both share: do not close it."""
        part = copy(self)
        part._memories = [memory for memory in self._memories if memory.name in names]
        return part

    def retrieve(
        self, sentences: Sentences, first: int = 0, given: Sequence[Match | None] | None = None
    ) -> RankedPairs:
        """Return the pairs of sentences from the memories as they are now; the table holds these pairs alone.

        A pair that is `given` for a sentence comes first, only exact matches come before it.
        """
        began = time.perf_counter()
        queries = as_sequences(sentences)
        found: list[Sequence[list[Match]]] = [()] * len(queries)
        if self._memories:
            found = list(zip(*(memory.search(list(queries)) for _, memory, _ in self._memories), strict=True))
        numbers: dict[tuple, int] = {}
        pairs: list[Match] = []
        rows: list[Row] = []
        for number, proposals in enumerate(found):
            matches, scores = self._rank(queries[number], queries.values_of(number) or [], proposals)
            if given is not None and (pair := given[number]) is not None:
                matches, scores = self._put_first(queries[number], pair, matches, scores)
            ids = []
            for match in matches:
                key = *match.key, match.origin
                if key not in numbers:
                    numbers[key] = len(pairs)
                    pairs.append(match)
                ids.append(numbers[key])
            rows.append((np.array(ids, dtype=np.int64), scores, np.ones(len(ids), dtype=bool)))
        logger.info("retrieval: %d sentences in %.3f seconds", len(rows), time.perf_counter() - began)
        return RankedPairs.from_rows(rows, as_table(pairs, self._data))

    def _rank(
        self, query: np.ndarray, values: list[str], proposals: Sequence[list[Match]]
    ) -> tuple[list[Match], np.ndarray]:
        """Merge the matches of all memories for a sentence, and select; return pairs and scores (P,), best first."""
        ranked = sorted(
            (np.float32(penalty) - match.score, order, match.id, match)
            for order, ((_, _, penalty), matches) in enumerate(zip(self._memories, proposals, strict=True))
            for match in matches
            if not (self._wanted.exact == "ignore" and is_exact(query, match.source) and values == match.values[0])
        )
        distinct: dict[tuple, tuple[float, Match]] = {}
        for distance, _, _, match in ranked:
            distinct.setdefault(match.key, (float(-distance), match))
        best = list(distinct.values())[: self._candidates]
        matches = [match for _, match in best]
        scores = np.array([score for score, _ in best], dtype=np.float32)
        covering = np.zeros(len(best), dtype=bool)
        selection = self._wanted.selection
        if selection.mode == "adaptive":  # Alg. 1, once per sentence, over the pairs of all memories
            characters = [self._unit.characters(match.source) for match in matches]
            covering = greedy_coverage(self._unit.query_characters(query), characters)
        chosen = RankedPairs.from_rows([(np.arange(len(best)), scores, covering)]).select(selection)
        return [matches[place] for place in chosen.ids], chosen.scores

    def _put_first(
        self, query: np.ndarray, pair: Match, matches: list[Match], scores: np.ndarray
    ) -> tuple[list[Match], np.ndarray]:
        """Add a pair to the selected ones of a sentence; one of them makes room for it."""
        [score] = fuzzy_scores(self._unit.characters(query), [self._unit.characters(pair.source)])
        ranked = [(match, score) for match, score in zip(matches, scores, strict=True) if match.key != pair.key]
        exact = [item for item in ranked if item[1] == 1]
        ranked = [*exact, (pair, score), *ranked[len(exact) :]]
        if self._wanted.selection.mode == "topk":
            ranked = ranked[: self._wanted.selection.k]
        return [match for match, _ in ranked], np.array([score for _, score in ranked], dtype=np.float32)

    def close(self) -> None:
        """Close the memories."""
        for _, memory, _ in self._memories:
            memory.close()
