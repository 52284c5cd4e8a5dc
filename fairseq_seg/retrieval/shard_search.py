"""Search and ranking by shards: each shard scores its own pairs, and merging needs no source sentence.

A shard has the sources of its own pairs. For each hit it reports the BM25 score, the fuzzy score (Eq. 3), the pair's
row, and a bit for each symbol of the query that says whether the source holds it. The best hits by BM25 of all shards,
ranked by their fuzzy scores and run through Alg. 1 on the bits, are what `Retriever` finds in an index in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_seg.corpus.pairs import Row
from fairseq_seg.corpus.selection import coverage_bits, greedy_coverage_of_bits, rank
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.retrieval.fuzzy import fuzzy_scores
from fairseq_seg.retrieval.index import Hits
from fairseq_seg.retrieval.shards import Shard, join, pairs_path
from fairseq_seg.retrieval.unit import make_unit


class Scored(NamedTuple):
    """The H hits of a search for one sentence, with all that ranking needs. Their numbers are the rows of the pairs."""

    hits: Hits
    fuzzy: np.ndarray  # (H,) float32
    excluded: np.ndarray  # (H,) bool
    bits: np.ndarray  # (H, ceil(length of the sentence / 8)) uint8, see `coverage_bits`


class ShardSearch:
    """Searches one shard and scores its pairs."""

    def __init__(
        self,
        folder: Path,
        identity: dict,
        number: int,
        count: int,
        settings: SearchSettings,
        exclusion: str,
        spelling: Spelling,
    ):
        """Open a shard of the index in ``folder``; ``exclusion`` is what `search` excludes, pair or source."""
        self._shard, self._count = Shard(folder, identity, number, count, settings), count
        with np.load(pairs_path(folder, number)) as pairs:
            self._rows, self._keys = pairs["rows"], pairs[f"{exclusion}_keys"]
            lengths = pairs["lengths"]
            sources = Sequences(pairs["symbols"], np.cumsum(lengths) - lengths, lengths)
        self._query_unit, self._score_unit = (make_unit(name, spelling) for name in settings[:2])
        self._characters = self._score_unit.characters_of_all(sources)

    def search(
        self, queries: Sequence[np.ndarray], exclude: np.ndarray | None, count: int
    ) -> list[tuple[int, list[Scored]]]:
        """Return each query's length, and what this shard can add to its best ``count`` hits, search by search."""
        found = self._shard.hits([self._query_unit.text(query) for query in queries], count)
        answers = []
        for row, (query, searches) in enumerate(zip(queries, found, strict=True)):
            characters = self._score_unit.query_characters(query)
            key = None if exclude is None else exclude[row]
            answers.append((len(characters), [self._score(characters, key, hits) for hits in searches]))
        return answers

    def _score(self, query: str, key: np.uint64 | None, hits: Hits) -> Scored:
        places = hits.numbers // self._count
        sources = [self._characters[place] for place in places.tolist()]
        excluded = np.zeros(len(places), dtype=bool) if key is None else self._keys[places] == key
        hits = hits._replace(numbers=self._rows[places])
        return Scored(hits, fuzzy_scores(query, sources), excluded, coverage_bits(query, sources))


def rank_scored(length: int, shards: Sequence[Sequence[Scored]], wanted: int, candidates: int) -> Row | None:
    """Rank what the searches of each shard found for a sentence of some length, when ``wanted`` hits were asked for.

    Return None if more must be asked for, because too many were excluded to leave as many as ``candidates``.
    """
    rows = join([[search.hits for search in searches] for searches in shards], wanted)
    scored = [search for searches in shards for search in searches]
    fuzzy, excluded, bits = (
        np.concatenate([getattr(search, name) for search in scored]) for name in Scored._fields[1:]
    )
    # A row may stand in several searches of its shard, each time with the same values.
    ids, first = np.unique(np.concatenate([search.hits.numbers for search in scored]), return_index=True)
    places = first[np.searchsorted(ids, rows)]
    left = ~excluded[places]
    if left.sum() < candidates and len(rows) == wanted:
        return None
    rows, places = rows[left], places[left]
    order = rank(rows, fuzzy[places])[:candidates]
    covering = greedy_coverage_of_bits(bits[places[order]], length)
    return rows[order], fuzzy[places[order]], covering
