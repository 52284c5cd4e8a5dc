"""Ranked pairs of many sentences as ragged rows, and the table of pairs that their ids point into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling

# The name of the training set in --memory.
TRAIN = "train"

# The pairs of one sentence in rank order: ids (P,), fuzzy scores (P,), and whether Alg. 1 picks them (P,), bool.
Row = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass
class PairTable:
    """Pairs by number: symbols of both sides for the model; id, origin and text for people.

    A training set has no `ids`, `origins` and `texts`: a pair's row is its id, and its symbols spell its text.
    """

    source: Sequences
    target: Sequences
    spellings: tuple[Spelling, Spelling]
    place: str = ""  # where the training set is, if not beside the sentences
    ids: Sequence[int] | None = None
    origins: Sequence[str] | None = None
    texts: Sequence[tuple[str, str] | None] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def id(self, pair: int) -> int:
        """Return a pair's id in its memory; in the training set, its row."""
        return int(pair) if self.ids is None else self.ids[pair]

    def origin(self, pair: int) -> str:
        """Describe where a pair comes from: its memory and id, then the file and unit it was imported from."""
        if self.origins is not None:
            return self.origins[pair]
        return f"{TRAIN}:{pair}" + (f" ({self.place})" if self.place else "")

    def text(self, pair: int) -> tuple[str, str]:
        """Return source and target as readable text."""
        if self.texts is not None and (texts := self.texts[pair]) is not None:
            return texts
        return self._spelled(pair)

    def values(self, pair: int) -> tuple[list[str], list[str]]:
        """Return the values of the reserved symbols of source and target."""
        return self.source.values_of(pair) or [], self.target.values_of(pair) or []

    def _spelled(self, pair: int) -> tuple[str, str]:
        """Return what the symbols and values of both sides spell."""
        (source, target), (of_source, of_target) = self.spellings, self.values(pair)
        return source.text(self.source[pair], of_source), target.text(self.target[pair], of_target)

    def is_spelled(self, pair: int) -> bool:
        """Tell whether the symbols of a pair say all of its text: none is unknown, and they spell it to the letter."""
        known = UNKNOWN not in self.source[pair] and UNKNOWN not in self.target[pair]
        return known and self._spelled(pair) == self.text(pair)


@dataclass(frozen=True)
class RankedPairs:
    """The pairs of N sentences as ragged rows, best first; ids point into `table`, if there is one."""

    starts: np.ndarray  # (N + 1,)
    ids: np.ndarray  # (P,)
    scores: np.ndarray  # (P,) fuzzy scores, less their memory's penalty
    covering: np.ndarray  # (P,) bool or uint8, where Alg. 1 picks the pair
    table: PairTable | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[Row], table: PairTable | None = None) -> RankedPairs:
        """Join the rows of sentences."""
        rows = list(rows)
        ids, scores, covering = (
            np.concatenate([np.zeros(0, dtype), *(row[column] for row in rows)])
            for column, dtype in enumerate((np.int32, np.float32, bool))
        )
        return cls(np.cumsum([0, *(len(row[0]) for row in rows)]), ids, scores, covering, table)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Row:
        span = slice(self.starts[index], self.starts[index + 1])
        return self.ids[span], self.scores[span], self.covering[span].astype(bool)

    def __iter__(self) -> Iterator[Row]:
        return (self[index] for index in range(len(self)))

    @property
    def counts(self) -> np.ndarray:
        """The number of pairs of each sentence, (N,)."""
        return np.diff(self.starts)

    @property
    def ranks(self) -> np.ndarray:
        """The rank of each pair in its row, from 0, (P,)."""
        return np.arange(len(self.ids)) - np.repeat(self.starts[:-1], self.counts)

    def rows(self, wanted: slice) -> RankedPairs:
        """Return the pairs of some consecutive sentences."""
        start, stop, _ = wanted.indices(len(self))
        starts = self.starts[start : stop + 1]
        span = slice(starts[0], starts[-1])
        parts = self.ids[span], self.scores[span], self.covering[span]
        return RankedPairs(starts - starts[0], *parts, self.table)

    def keep(self, wanted: np.ndarray) -> RankedPairs:
        """Drop all pairs but the wanted ones, (P,) bool."""
        before = np.concatenate([[0], np.cumsum(wanted)])
        columns = {name: np.asarray(getattr(self, name))[wanted] for name in ("ids", "scores", "covering")}
        return replace(self, starts=before[self.starts], **columns)

    def select(self, selection: Selection) -> RankedPairs:
        """Keep the selected pairs of each sentence.

        Pairs below the minimum score are dropped afterwards. Because pairs are ranked by score, the result is the same
        as dropping them before the selection.
        """
        if selection.mode == "topk":
            wanted = self.ranks < selection.k
        elif selection.mode == "adaptive":
            wanted = np.asarray(self.covering, dtype=bool)
        else:
            raise ValueError(f"selection '{selection.mode}' is unknown; choose topk or adaptive")
        # The scores are float32: compare in float32, so that a score of exactly 0.7 passes a limit of 0.7.
        return self.keep(wanted & (self.scores >= np.float32(selection.min_score)))
