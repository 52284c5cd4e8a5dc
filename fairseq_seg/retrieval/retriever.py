"""Candidates of a search engine, re-ranked by the fuzzy score: the retrieval that all commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fairseq_seg.retrieval.fuzzy import fuzzy_scores
from fairseq_seg.retrieval.select import greedy_coverage, rank
from fairseq_seg.retrieval.sequences import Sequences, row_keys
from fairseq_seg.retrieval.unit import Symbols, Words

# The engine is asked for so many times the candidates, and the fuzzy score decides which of them stay: in a repetitive
# corpus hundreds of sentences look alike to BM25, and comparing one more costs a thousandth of the search.
OVERFETCH = 3


class Engine(Protocol):
    """A search engine over the distinct pairs of a memory; `LuceneIndex` is the default one."""

    signature: str

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Returns, for each text, the numbers of up to ``count`` distinct pairs, best first."""


class Memory:
    """The pairs that can be retrieved. Identical pairs are one: a copy would only count twice in the model's softmax.

    ``ids`` (D,) are the rows of the D distinct pairs in the corpus, the lowest row of each; engines number pairs by
    their position in it.
    """

    def __init__(self, source: Sequences, target: Sequences):
        self.source = source
        self.pair_keys, self.ids = np.unique(row_keys(source, target), return_index=True)
        order = np.argsort(self.ids)
        self.pair_keys, self.ids = self.pair_keys[order], self.ids[order]

    def __len__(self) -> int:
        return len(self.ids)


class Retriever:
    """Finds the pairs of a memory whose source is most like a sentence (the paper's retrieval stage)."""

    def __init__(
        self,
        memory: Memory,
        engine: Engine,
        query_unit: Symbols | Words,
        score_unit: Symbols | Words,
        candidates: int = 100,
        exclusion: str = "pair",
    ):
        """Gives each sentence up to ``candidates`` pairs; ``exclusion`` says what the keys of `search` are keys of."""
        self.memory = memory
        self.engine = engine
        self.query_unit = query_unit
        self.candidates = candidates
        self.score_unit = score_unit
        characters = score_unit.characters_of_all(memory.source)
        self._characters = [characters[row] for row in memory.ids]
        self.keys = memory.pair_keys if exclusion == "pair" else row_keys(memory.source)[memory.ids]

    def search(
        self, queries: Sequence[Sequence[int]], exclude: np.ndarray | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Returns, for each query (token ids without eos), the ranked ids of its pairs and their fuzzy scores.

        Ids are rows of the memory's corpus; higher scores come first, of equal scores the lower id. ``exclude`` holds a
        key for each query (`row_keys` of the pair, or of the source alone): pairs with that key are left out, and more
        candidates are fetched in their place.
        """
        found = self.search_and_cover(queries, exclude)
        return [ids for ids, _, _ in found], [scores for _, scores, _ in found]

    def search_and_cover(
        self, queries: Sequence[Sequence[int]], exclude: np.ndarray | None = None
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """As `search`, with a third array for each query that marks the pairs which Alg. 1 selects."""
        sentences = [np.asarray(query, dtype=np.int64) for query in queries]
        keys = [None] * len(sentences) if exclude is None else exclude
        return list(map(self._rank, sentences, self._candidates(sentences, keys)))

    def _rank(self, symbols: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        characters = self.score_unit.characters(symbols)
        sources = [self._characters[position] for position in positions]
        scores = fuzzy_scores(characters, sources)
        ids = self.memory.ids[positions]
        order = rank(ids, scores)[: self.candidates]
        covering = greedy_coverage(characters, [sources[position] for position in order])
        return ids[order], scores[order], covering

    def _candidates(self, sentences: list[np.ndarray], keys: Sequence[np.uint64 | None]) -> list[np.ndarray]:
        """Fetches until each sentence has enough pairs left after the exclusion, or no more can be had."""
        texts = [self.query_unit.text(symbols) for symbols in sentences]
        found: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * len(texts)
        wanted, asking = OVERFETCH * self.candidates, list(range(len(texts)))
        while asking:
            starving = []
            answers = self.engine.search_all([texts[row] for row in asking], wanted)
            for row, positions in zip(asking, answers, strict=True):
                found[row] = positions if keys[row] is None else positions[self.keys[positions] != keys[row]]
                if len(found[row]) < self.candidates and len(positions) == wanted:
                    starving.append(row)
            wanted, asking = 2 * wanted, starving
        return found
