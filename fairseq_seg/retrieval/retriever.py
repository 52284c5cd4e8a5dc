"""Candidates of a search engine, re-ranked by the fuzzy score: the retrieval that all commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fairseq_seg.corpus.pairs import RankedPairs, Row
from fairseq_seg.corpus.selection import greedy_coverage
from fairseq_seg.corpus.sequences import Sequences, row_keys
from fairseq_seg.retrieval.fuzzy import OVERFETCH, best_matches
from fairseq_seg.retrieval.unit import Unit


class Engine(Protocol):
    """A search engine over the distinct pairs of a memory; see `fairseq_seg.retrieval.grams` and `.lucene`."""

    signature: str

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of up to ``count`` distinct pairs, best first."""
        ...


class DistinctPairs:
    """The pairs that can be retrieved. Identical pairs are one: a copy would count twice in the softmax.

    ``ids`` (D,) are the rows of the D distinct pairs in the corpus, the lowest row of each; engines number pairs by
    their position in it.
    """

    def __init__(self, source: Sequences, target: Sequences):
        self.source = source
        self.keys, self.ids = np.unique(row_keys(source, target), return_index=True)
        order = np.argsort(self.ids)
        self.keys, self.ids = self.keys[order], self.ids[order]

    def __len__(self) -> int:
        return len(self.ids)

    def exclusion_keys(self, exclusion: str) -> np.ndarray:
        """Return the key (D,) by which a pair is excluded: its own, or that of its source alone."""
        return self.keys if exclusion == "pair" else row_keys(self.source)[self.ids]


class Retriever:
    """Finds the pairs whose source is most like a sentence (the paper's retrieval stage)."""

    def __init__(
        self,
        pairs: DistinctPairs,
        engine: Engine,
        query_unit: Unit,
        score_unit: Unit,
        candidates: int = 100,
        exclusion: str = "pair",
    ):
        """Give each sentence up to ``candidates`` pairs; ``exclusion`` is what `search` excludes, pair or source."""
        self.pairs = pairs
        self.engine = engine
        self.query_unit = query_unit
        self.candidates = candidates
        self.score_unit = score_unit
        characters = score_unit.characters_of_all(pairs.source)
        self._characters = [characters[row] for row in pairs.ids]
        self.keys = pairs.exclusion_keys(exclusion)

    def search(
        self, queries: Sequence[np.ndarray | Sequence[int]], exclude: np.ndarray | None = None, cover: bool = True
    ) -> RankedPairs:
        """Return the ranked pairs of each query (token ids without eos).

        Ids are rows of the corpus; higher scores come first, of equal scores the lower id. ``exclude`` holds a key for
        each query (`row_keys` of the pair, or of the source alone): pairs with that key are left out, and more
        candidates are fetched in their place. Without ``cover`` Alg. 1 does not run, and no pair counts as covering.
        """
        sentences = [np.asarray(query, dtype=np.int64) for query in queries]
        found = zip(sentences, self._candidates(sentences, exclude), strict=True)
        return RankedPairs.from_rows(self._rank(symbols, positions, cover) for symbols, positions in found)

    def _rank(self, symbols: np.ndarray, positions: np.ndarray, cover: bool) -> Row:
        characters = self.score_unit.query_characters(symbols)
        sources = [self._characters[position] for position in positions]
        ids = self.pairs.ids[positions]
        order, scores = best_matches(characters, ids, sources, self.candidates)
        covering = np.zeros(len(order), dtype=bool)
        if cover:
            covering = greedy_coverage(characters, [sources[position] for position in order])
        return ids[order], scores, covering

    def _candidates(self, sentences: list[np.ndarray], exclude: np.ndarray | None) -> list[np.ndarray]:
        """Fetch until each sentence has enough pairs left after the exclusion, or no more can be had."""
        texts = [self.query_unit.text(symbols) for symbols in sentences]
        found: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * len(texts)
        wanted, asking = OVERFETCH * self.candidates, list(range(len(texts)))
        while asking:
            starving = []
            answers = self.engine.search_all([texts[row] for row in asking], wanted)
            for row, positions in zip(asking, answers, strict=True):
                found[row] = positions if exclude is None else positions[self.keys[positions] != exclude[row]]
                if len(found[row]) < self.candidates and len(positions) == wanted:
                    starving.append(row)
            wanted, asking = 2 * wanted, starving
        return found
