"""Pairs that are known for single sentences, beside those that a search finds: the translation of an older version."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.source.live import Live
from fairseq_seg.source.memories import Match
from fairseq_seg.source.pair_source import Sentences
from fairseq_seg.source.terms import WithTerms


class WithGiven:
    """A live search that is given a pair for each sentence of a batch, or None."""

    def __init__(self, live: Live | WithTerms, given: Sequence[Match | None]):
        self.signature = live.signature
        self._live, self._given = live, given

    def retrieve(self, sentences: Sentences, first: int = 0) -> RankedPairs:
        """Return the pairs of the sentences, each sentence's own first."""
        return self._live.retrieve(sentences, first, self._given)

    def close(self) -> None:
        """Leave the search open: it outlives the batch."""
