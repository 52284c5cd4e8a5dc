"""Turn retrieved ids into rows of tokens: the pairs of each example, and the layout of a batch."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor

from fairseq_seg.cache.address import pair_address
from fairseq_seg.corpus.alignment import Renumbering, matching_blocks, shared_positions
from fairseq_seg.corpus.dictionary import EOS, PAD, UNKNOWN
from fairseq_seg.corpus.pairs import PairTable, RankedPairs

PairBatch = dict[str, Any]  # see `ExamplePairs.collate`


def prefix_max(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the running maximum within each row of a ragged array; values (P,), starts (N + 1,) -> (P,)."""
    running = values.copy()
    lengths = np.diff(starts)
    for rank in range(1, lengths.max(initial=0)):
        at = starts[:-1][lengths > rank] + rank
        running[at] = np.maximum(running[at], running[at - 1])
    return running


class ExamplePairs:
    """The retrieved pairs of every example of a dataset.

    Args:
        ranked: the pairs of each example in rank order, with their table.
        exact: per example the pair whose target is to be returned instead of a translation, or None.
        cached: batches say where a cache keeps their pairs, too.
        scored: keep the scores, which only explanations need.
    """

    def __init__(
        self, ranked: RankedPairs, exact: Sequence[int | None] | None = None, cached: bool = False, scored: bool = True
    ):
        assert ranked.table is not None
        self.table: PairTable = ranked.table
        self.cached = cached
        self.starts, self.ids, self._scores = ranked.starts, ranked.ids, ranked.scores if scored else None
        self._exact = exact
        self.counts = ranked.counts
        source, target = (spelling.reserved for spelling in self.table.spellings)
        self._classes = None if source is None else source.classes
        self._renumber = None if source is None or target is None else Renumbering(source, target)
        lengths = np.maximum(self.table.source.lengths[self.ids], self.table.target.lengths[self.ids])
        self.longest = prefix_max(lengths + 1, self.starts)

    def row(self, index: int) -> np.ndarray:
        """Return the pairs of an example, best first, as numbers in the table."""
        start = self.starts[index]
        return self.ids[start : start + self.counts[index]]

    def scores(self, index: int) -> np.ndarray:
        """Return the scores of an example's pairs, best first."""
        assert self._scores is not None
        start = self.starts[index]
        return self._scores[start : start + self.counts[index]]

    def exact_target(self, index: int) -> np.ndarray | None:
        """Return the target (without eos) to return for an example instead of a translation, if there is one."""
        pair = self.exact_pair(index)
        return None if pair is None else self.table.target[pair]

    def exact_pair(self, index: int) -> int | None:
        """Return the pair of that target."""
        return None if self._exact is None else self._exact[index]

    def num_tokens(self, indices: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return the size of examples and their pairs: (1 + pairs) x longest row; own (N',) is their own length."""
        counts = self.counts[indices]
        last = np.maximum(self.starts[indices] + counts - 1, 0)
        longest = self.longest[last] if len(self.longest) else np.zeros_like(own)
        return (1 + counts) * np.maximum(own, np.where(counts > 0, longest, 0))

    def fit(self, indices: np.ndarray, own: np.ndarray, max_tokens: int) -> int:
        """Drop the last pairs of examples that exceed max_tokens; return how many examples lost a pair."""
        lost = np.zeros(len(indices), dtype=bool)
        while True:
            over = (self.num_tokens(indices, own) > max_tokens) & (self.counts[indices] > 0)
            if not over.any():
                return int(lost.sum())
            lost |= over
            self.counts[indices[over]] -= 1

    def collate(
        self, rows: Sequence[Sequence[int] | np.ndarray], sentences: Sequence[Sequence[int]] | None = None
    ) -> PairBatch | None:
        """Lay out the pairs of a batch, each distinct pair once; return None if there are none.

        Args:
            rows: the pairs of each sentence. sentences: the symbols of each sentence, with eos.

        Returns:
            The distinct pairs, lowest rank first: src_tokens (P, S'), src_lengths (P,), prev_output_tokens (P, T'),
            tokens (P, T'), lengths (P,). The slots of each sentence in rank order: slots (B, S), pair * T' + step,
            without unknown symbols, padded with -1; ranks (B, S), the rank of each slot's pair. sizes, a list: for each
            k from 1, the number of pairs in the first k ranks, and the largest number of slots that a sentence has of
            them. With `sentences`: shared (B, R, S'), see `overlap`, and, if tokens are protected, symbols (B, S), the
            slots' symbols with the sentence's own numbers. For a cache: addresses and shapes (slots, S'), one per
            distinct pair; places, the distinct pairs of each sentence; and kept, which of each pair's slots it has, or
            None for all.
        """
        place: dict[int, int] = {}
        pairs_of_ranks = []
        for rank in range(max((len(row) for row in rows), default=0)):
            for row in rows:
                if rank < len(row):
                    place.setdefault(int(row[rank]), len(place))
            pairs_of_ranks.append(len(place))
        if not place:
            return None
        sources, targets = (
            [as_tokens(side[pair]) for pair in place] for side in (self.table.source, self.table.target)
        )
        tokens = data_utils.collate_tokens(targets, PAD)
        width = tokens.size(1)
        # An unknown symbol is not a slot, because a copy of it would be unreadable.
        known = [np.flatnonzero(target.numpy() != UNKNOWN) for target in targets]
        places = [[place[int(pair)] for pair in row] for row in rows]
        chosen = [[known[pair] for pair in row] for row in places]
        more: PairBatch = {}
        if sentences is not None:
            more["shared"], symbols = self._align(sentences, places, sources, targets)
            if symbols is not None:
                chosen = [[np.flatnonzero((x >= 0) & (x != UNKNOWN)) for x in row] for row in symbols]
                of_slots = [
                    joined(x[at] for x, at in zip(*row, strict=True)) for row in zip(symbols, chosen, strict=True)
                ]
                more["symbols"] = data_utils.collate_tokens([torch.from_numpy(row) for row in of_slots], PAD)
        slots = [
            joined(pair * width + at for pair, at in zip(*row, strict=True)) for row in zip(places, chosen, strict=True)
        ]
        ranks = [np.repeat(np.arange(len(row)), [len(at) for at in row]) for row in chosen]
        slots_of_ranks = [max(int((row < k).sum()) for row in ranks) for k in range(1, len(pairs_of_ranks) + 1)]
        if self.cached:
            addresses = [pair_address(*(side.numpy() for side in pair)) for pair in zip(sources, targets, strict=True)]
            shapes = [(len(known[pair]), len(source)) for pair, source in enumerate(sources)]
            more |= {"addresses": addresses, "places": places, "shapes": shapes, "kept": None}
            if "symbols" in more:
                more["kept"] = [
                    [np.searchsorted(known[pair], at) for pair, at in zip(*row, strict=True)]
                    for row in zip(places, chosen, strict=True)
                ]
        return {
            "src_tokens": data_utils.collate_tokens(sources, PAD),
            "src_lengths": torch.tensor([len(source) for source in sources]),
            "prev_output_tokens": data_utils.collate_tokens(targets, PAD, EOS, move_eos_to_beginning=True),
            "tokens": tokens,
            "lengths": torch.tensor([len(target) for target in targets]),
            "slots": data_utils.collate_tokens([torch.from_numpy(row) for row in slots], -1),
            "ranks": data_utils.collate_tokens([torch.from_numpy(row) for row in ranks], -1),
            "sizes": list(zip(pairs_of_ranks, slots_of_ranks, strict=True)),
            **more,
        }

    def _align(
        self,
        sentences: Sequence[Sequence[int]],
        places: Sequence[Sequence[int]],
        sources: Sequence[Tensor],
        targets: Sequence[Tensor],
    ) -> tuple[Tensor, list[list[np.ndarray]] | None]:
        """Align each sentence with the sources of its pairs.

        Returns:
            Which symbols of each source it shares, (B, R, S'); and, if tokens are protected, the symbols of the slots
            of each of its pairs, (T',), -1 for no slot.
        """
        ranks = max(map(len, places))
        shared = torch.zeros(len(sentences), ranks, max(map(len, sources)), dtype=torch.bool)
        as_lists = [source.tolist() for source in sources]
        classes = as_lists if self._classes is None else [self._classes[x].tolist() for x in as_lists]
        symbols: list[list[np.ndarray]] = [[] for _ in sentences]
        for row, sentence, numbers, of_slots in zip(shared, sentences, places, symbols, strict=True):
            own = sentence if self._classes is None else self._classes[sentence].tolist()
            for at_rank, pair in zip(row, numbers, strict=False):
                blocks = matching_blocks(own, classes[pair])
                at_rank[: len(as_lists[pair])] = torch.from_numpy(shared_positions(blocks, as_lists[pair]))
                if self._renumber is not None:
                    of_slots.append(self._renumber(sentence, as_lists[pair], targets[pair].numpy(), blocks))
        return shared, None if self._renumber is None else symbols


def joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Concatenate arrays of ids, of which there may be none."""
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def as_tokens(symbols: np.ndarray) -> Tensor:
    """Return a row of symbols as a tensor with eos, as in fairseq's datasets."""
    return torch.from_numpy(np.append(symbols, EOS).astype(np.int64))


def limit(batch: PairBatch, k: int) -> PairBatch | None:
    """Return the batch as if collated with at most k pairs per sentence, without a device sync."""
    pairs, slots = batch["sizes"][min(k, len(batch["sizes"])) - 1] if k else (0, 0)
    if slots == 0:
        return None
    ranks = batch["ranks"][:, :slots]
    by_pair = ("src_tokens", "src_lengths", "prev_output_tokens", "tokens", "lengths")
    return {
        **{name: batch[name][:pairs] for name in by_pair},
        "slots": batch["slots"][:, :slots].masked_fill(ranks >= k, -1),
        "ranks": ranks,
        "sizes": batch["sizes"][:k],
        **({"shared": batch["shared"][:, :k]} if "shared" in batch else {}),
        **({"symbols": batch["symbols"][:, :slots].masked_fill(ranks >= k, PAD)} if "symbols" in batch else {}),
        **({"addresses": batch["addresses"][:pairs]} if "addresses" in batch else {}),
    }
