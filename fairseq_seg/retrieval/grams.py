"""A search engine in numpy. The grams of a sentence are its symbols and its pairs of neighbouring symbols.

Each edit breaks at most three grams, so sentences at a small edit distance share many, and the rare ones find them with
a few thousand postings. A hash of the gram names its list, so there is no table of terms. Two grams may share a list:
this only adds candidates, which the fuzzy score sorts out. A gram's second occurrence in a sentence counts as another
gram.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from tqdm import tqdm

from fairseq_seg.corpus.sequences import mix
from fairseq_seg.errors import SegError
from fairseq_seg.files import make_whole
from fairseq_seg.retrieval.index import LENGTH_RATIO, STATISTICS, Hits, first_distinct, index_identity, write_identity

# The number of lists.
LISTS = 2**20
# The rarest grams of a query are searched for: at least this many, and more up to this many postings in all.
FEWEST_GRAMS = 8
POSTINGS = 24_000
# An idf is rounded to this share of one, so that sums are exact in any order.
UNIT = 256
# Texts indexed at once.
BLOCK = 20_000


def grams(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lists (M,) of all grams, the row (M,) of each in ascending order, and each text's length (N,)."""
    codes: list[int] = []
    lengths = []
    for text in texts:
        symbols = text.encode().split()
        codes.extend(map(crc32, symbols))
        lengths.append(len(symbols))
    single, rows = np.array(codes, dtype=np.uint64), np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    pairs = mix(single[:-1] << np.uint64(32) | single[1:], 0) >> np.uint64(32)
    inside = rows[:-1] == rows[1:]
    found = np.concatenate([rows << np.uint64(32) | single, (rows[:-1] << np.uint64(32) | pairs)[inside]])
    found.sort()
    # The same gram again in a row stands beside the first: count from where its run begins.
    begins = np.flatnonzero(np.append(np.ones(min(len(found), 1), bool), found[1:] != found[:-1]))
    counts = np.diff(np.append(begins, len(found)))
    occurrence = (np.arange(len(found)) - np.repeat(begins, counts)).astype(np.uint64)
    rows, code = found >> np.uint64(32), found & np.uint64(2**32 - 1)
    return mix(occurrence << np.uint64(32) | code, 1) % LISTS, rows.astype(np.int64), np.array(lengths, dtype=np.int32)


class Statistics(NamedTuple):
    """Counts over some texts; the counts of an index's shards add up to the counts of the whole."""

    texts: int
    filled: int  # texts with any symbol
    symbols: int
    postings: np.ndarray  # of each list, (LISTS,)

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """Add up the statistics of parts."""
        texts, filled, symbols, postings = (np.sum(column, axis=0) for column in zip(*parts, strict=True))
        return cls(int(texts), int(filled), int(symbols), postings)

    @classmethod
    def load(cls, path: Path) -> Statistics:
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(int(file["texts"]), int(file["filled"]), int(file["symbols"]), file["postings"].astype(np.int64))

    def save(self, path: Path) -> None:
        """Write all counts to a file."""
        np.savez(path, **self._replace(postings=self.postings.astype(np.int32))._asdict())


def build_index(folder: Path, texts: Iterable[str], identity: dict) -> None:
    """Index texts of whitespace-separated symbols, shorter ones first; the folder appears whole or not at all.

    ``identity`` says what was indexed (see `Index`).
    """
    texts = list(texts)
    sizes = np.array([len(text.split()) for text in texts], dtype=np.int32)
    order = np.argsort(sizes, kind="stable").astype(np.int32)
    with make_whole(folder) as beside:
        blocks = [grams([])[0]]
        begins = range(0, len(texts), BLOCK)
        rows_of = []
        for begin in tqdm(begins, desc="index", unit_scale=BLOCK, unit=" pairs", dynamic_ncols=True):
            lists, rows, _ = grams(texts[number] for number in order[begin : begin + BLOCK])
            blocks.append(lists.astype(np.int32))
            rows_of.append(rows.astype(np.int32) + begin)
        counts = sum((np.bincount(block, minlength=LISTS) for block in blocks[1:]), np.zeros(LISTS, dtype=np.int64))
        free = np.cumsum(counts) - counts  # the next free place of each list
        postings = np.lib.format.open_memmap(beside / "postings.npy", "w+", np.int32, (int(counts.sum()),))
        for lists, rows in zip(blocks[1:], rows_of, strict=True):
            by_list = np.argsort(lists, kind="stable")
            lists = lists[by_list]
            firsts = np.searchsorted(lists, lists)
            postings[free[lists] + np.arange(len(lists)) - firsts] = rows[by_list]
            free += np.bincount(lists, minlength=LISTS)
        postings.flush()
        np.savez(beside / "documents.npz", numbers=order, lengths=sizes[order])
        Statistics(len(texts), int((sizes > 0).sum()), int(sizes.sum()), counts).save(beside / STATISTICS)
        write_identity(beside, identity)


class Index:
    """Search in an index that `build_index` wrote.

    A text's score is that of BM25 in which a gram occurs once: the sum of the idf of the grams that it shares with the
    query, divided by 1 + k1 * (1 - b + b * length / average). Only texts of a plausible length are searched, as long
    as they give enough hits: one that is less than half or more than twice as long as the query cannot reach a fuzzy
    score of 0.5 (Eq. 3). Texts are in the order of their lengths, so these stand together in each list.

    The shards of a larger index use its statistics, and so give each text the score that it has there.
    """

    def __init__(self, folder: Path, identity: dict, k1: float, b: float, whole: Statistics | None = None):
        """Open an index, and refuse one of anything but ``identity``.

        ``whole`` are the statistics of the index that this one is a shard of.
        """
        if index_identity(folder) != identity:
            raise SegError(f"{folder} is not an index of this training set: run seg-attach to rebuild it.")
        own = Statistics.load(folder / STATISTICS)
        whole = whole or own
        with np.load(folder / "documents.npz") as documents:
            self._numbers, self._lengths = documents["numbers"], documents["lengths"]
        self._postings = np.load(folder / "postings.npy", mmap_mode="r")
        if len(self._postings) != own.postings.sum():
            raise ValueError("postings.npy is not of these statistics")
        self._starts = np.concatenate([[0], np.cumsum(own.postings)])
        self._frequencies = whole.postings
        average = max(whole.symbols, 1) / max(whole.filled, 1)
        self._norms = 1 / (1 + k1 * (1 - b + b * self._lengths / average))
        self._filled = whole.filled
        self._scratch = threading.local()
        self.signature = f"grams-1|k1:{k1:g}|b:{b:g}|length:{LENGTH_RATIO:g}|postings:{POSTINGS}"

    def search_all(self, texts: Sequence[str], count: int) -> list[np.ndarray]:
        """Return, for each text, the numbers of up to ``count`` texts, best first."""
        return [first_distinct((hits.numbers for hits in searches), count) for searches in self.hits(texts, count)]

    def hits(self, texts: Sequence[str], count: int) -> list[list[Hits]]:
        """Return, for each text, the hits of the quick search, and of wider ones if these are too few."""
        found: list[list[Hits]] = [[] for _ in texts]
        lacking = np.arange(len(texts))
        query = QueryGrams(texts, self._frequencies)
        for rare, ratio in ((True, LENGTH_RATIO), (False, LENGTH_RATIO), (False, 0.0)):
            for row, hits in zip(lacking.tolist(), self._search(query, lacking, rare, ratio, count), strict=True):
                found[row].append(hits)
            lacking = lacking[[len(found[row][-1].numbers) < count for row in lacking.tolist()]]
            if not len(lacking):
                break
        return found

    def _search(self, query: QueryGrams, rows: np.ndarray, rare: bool, ratio: float, count: int) -> Iterator[Hits]:
        """Search the texts of plausible lengths for grams of some of the queries."""
        sizes = query.lengths[rows]
        first = np.searchsorted(self._lengths, np.ceil(sizes * ratio))
        last = np.searchsorted(self._lengths, sizes / ratio, side="right") if ratio else first + len(self._lengths)
        lists, of = query.chosen(rows, rare)
        begin = self._bisect(self._starts[lists], self._starts[lists + 1], first[of])
        end = self._bisect(begin, self._starts[lists + 1], last[of])
        spans = np.searchsorted(of, np.arange(len(rows) + 1)).tolist()
        idf = np.log((self._filled + 1) / (self._frequencies[lists] + 0.5))
        weights = np.maximum(np.rint(UNIT * idf), 1)
        for span in map(slice, spans, spans[1:]):
            yield self._best(begin[span], end[span] - begin[span], weights[span], count)

    def _bisect(self, low: np.ndarray, high: np.ndarray, bound: np.ndarray) -> np.ndarray:
        """Find where the first posting of at least ``bound`` stands in each stretch from ``low`` to ``high``."""
        open_ = np.flatnonzero(low < high)
        low, high = low.copy(), high.copy()
        while len(open_):
            middle = (low[open_] + high[open_]) // 2
            less = self._postings[middle] < bound[open_]
            low[open_[less]] = middle[less] + 1
            high[open_[~less]] = middle[~less]
            open_ = open_[low[open_] < high[open_]]
        return low

    def _best(self, begin: np.ndarray, counts: np.ndarray, weights: np.ndarray, count: int) -> Hits:
        """Return the best texts in some stretches of the postings, by the sum of their weights; shorter ones first."""
        total = int(counts.sum())
        places = np.arange(total) + np.repeat(begin - np.cumsum(counts) + counts, counts)
        documents = self._postings[places].astype(np.int64)
        if not hasattr(self._scratch, "sums"):  # each thread has its own; always zero between searches
            self._scratch.sums = np.zeros(len(self._lengths))
            self._scratch.last = np.zeros(len(self._lengths), dtype=np.int64)
        sums, last = self._scratch.sums, self._scratch.last
        np.add.at(sums, documents, np.repeat(weights, counts))
        order = np.arange(total)
        last[documents] = order
        documents = documents[last[documents] == order]  # each once
        scores = (sums[documents] * self._norms[documents]).astype(np.int64)
        sums[documents] = 0
        # Scores and, among equal ones, the order of the texts in one number, greatest first.
        keys = scores << 32 | (2**32 - 1 - documents)
        if len(keys) > count:
            keys = np.partition(keys, len(keys) - count)[len(keys) - count :]
        keys = np.sort(keys)[::-1]
        documents = 2**32 - 1 - (keys & 2**32 - 1)
        return Hits(
            self._numbers[documents].astype(np.int64), (keys >> 32).astype(np.float32), self._lengths[documents]
        )


class QueryGrams:
    """The grams of some queries, rarest first: which list (M,) and of which query (M,); frequencies of each list."""

    def __init__(self, texts: Sequence[str], frequencies: np.ndarray):
        lists, rows, self.lengths = grams(texts)
        counts = frequencies[lists]
        order = np.lexsort((lists, counts, rows))
        order = order[counts[order] > 0]
        self._lists, self._rows = lists[order].astype(np.int64), rows[order]
        first = np.searchsorted(self._rows, self._rows)
        before = np.cumsum(counts[order])
        before -= (before - counts[order])[first] if len(first) else 0
        self._rare = (before <= POSTINGS) | (np.arange(len(order)) - first < FEWEST_GRAMS)

    def chosen(self, rows: np.ndarray, rare: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the lists to search for some queries, and where in ``rows`` the query of each is."""
        wanted = np.isin(self._rows, rows)
        if rare:
            wanted &= self._rare
        return self._lists[wanted], np.searchsorted(rows, self._rows[wanted])
