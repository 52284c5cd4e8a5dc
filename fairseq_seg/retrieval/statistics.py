"""What BM25 and the choice of a query's rarest symbols need to know about all texts, by band of length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

# The longest text of each band: the first number of symbols, then each time this factor more; the last band is open.
SHORTEST_BAND = 8
BAND_GROWTH = 1.6
BANDS = np.append(SHORTEST_BAND * BAND_GROWTH ** np.arange(15), np.inf)
# Symbols in fewer than this share of the texts count as found nowhere, which keeps the table of shares small.
RARE_SHARE = 0.001


def band_of(lengths: np.ndarray | float) -> np.ndarray:
    """Name the band of each length."""
    return np.searchsorted(BANDS, lengths)


class Statistics:
    """Counts over some texts; the counts of an index's shards add up to the counts of the whole.

    ``texts`` is their number. For each of the B bands ``filled`` (B,) counts the texts with any symbol and ``symbols``
    (B,) the symbols in them; ``found_in`` (V, B) counts the texts that hold a symbol, whose row is in ``rows``.
    """

    def __init__(
        self, texts: int, filled: np.ndarray, symbols: np.ndarray, vocabulary: Sequence[str], found_in: np.ndarray
    ):
        self.texts, self.filled, self.symbols, self.found_in = texts, filled, symbols, found_in
        self.rows = {symbol: row for row, symbol in enumerate(vocabulary)}

    @classmethod
    def of_texts(cls, texts: Sequence[str], lengths: np.ndarray) -> Statistics:
        """Count texts of whitespace-separated symbols, with their numbers of symbols."""
        bands = band_of(lengths)
        counters: list[Counter[str]] = [Counter() for _ in BANDS]
        for text, band in zip(texts, bands.tolist(), strict=True):
            counters[band].update(set(text.split()))
        vocabulary = sorted(set().union(*counters))
        found_in = np.array([[counter[symbol] for counter in counters] for symbol in vocabulary], dtype=np.int32)
        return cls(
            len(texts),
            np.bincount(bands[lengths > 0], minlength=len(BANDS)),
            np.bincount(bands, lengths, minlength=len(BANDS)).astype(np.int64),
            vocabulary,
            found_in.reshape(-1, len(BANDS)),
        )

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """Add up the statistics of parts."""
        vocabulary = sorted(set().union(*(part.rows for part in parts)))
        whole = cls(
            sum(part.texts for part in parts),
            np.sum([part.filled for part in parts], axis=0),
            np.sum([part.symbols for part in parts], axis=0),
            vocabulary,
            np.zeros((len(vocabulary), len(BANDS)), dtype=np.int32),
        )
        for part in parts:
            whole.found_in[[whole.rows[symbol] for symbol in part.rows]] += part.found_in
        return whole

    @classmethod
    def load(cls, path: Path) -> Statistics:
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(
                int(file["texts"]), file["filled"], file["symbols"], file["vocabulary"].tolist(), file["found_in"]
            )

    def save(self, path: Path) -> None:
        """Write all counts to a file."""
        np.savez(
            path,
            texts=self.texts,
            filled=self.filled,
            symbols=self.symbols,
            vocabulary=np.array(list(self.rows), dtype=str),
            found_in=self.found_in,
        )

    def shares(self) -> dict[str, float]:
        """Return the share of the texts that hold a symbol, for symbols that are not rare."""
        counts = self.found_in.sum(axis=1).tolist()
        return {
            symbol: count / self.texts
            for symbol, count in zip(self.rows, counts, strict=True)
            if count > RARE_SHARE * self.texts
        }

    def average_length(self, first: int, last: int) -> float:
        """Return the average length of the non-empty texts of the bands from ``first`` up to, not including, ``last``.

        In single precision, as in Lucene.
        """
        return float(np.float32(self.symbols[first:last].sum() / self.filled[first:last].sum()))

    def idf(self, symbols: Sequence[str], first: int, last: int) -> np.ndarray:
        """Return Lucene's inverse document frequency of each symbol in some bands, in single precision."""
        rows = [self.rows.get(symbol, len(self.rows)) for symbol in symbols]
        counts = self._cumulative[rows, last] - self._cumulative[rows, first]
        return np.log1p((self.filled[first:last].sum() - counts + 0.5) / (counts + 0.5)).astype(np.float32)

    @cached_property
    def _cumulative(self) -> np.ndarray:
        """How many texts of all shorter bands hold a symbol, (V + 1, B + 1); the last row is for unknown symbols."""
        return np.pad(self.found_in.cumsum(axis=1, dtype=np.int32), ((0, 1), (1, 0)))
