"""The entries of a frozen model in a cache, so that a known pair needs no translator pass."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.cache.header import Header, spell_size
from fairseq_seg.cache.rows import RowFormat
from fairseq_seg.cache.segments import PairCache
from fairseq_seg.corpus.dictionary import UNKNOWN, dictionary_fingerprint
from fairseq_seg.modules.memory import Entries, Slots

if TYPE_CHECKING:
    from fairseq_seg.models.guided import GuidedModel

logger = logging.getLogger(__name__)

# Entries do not depend on how a slot is chosen, on the gate's other inputs, or on how a state becomes a symbol. The
# header records the dictionaries separately.
NOT_IN_ENTRIES = (
    "encoder.symbols",
    "decoder.symbols",
    "decoder.readout.",
    "decoder.output.",
    "decoder.memory.coverage_penalty",
    "decoder.memory.overlap.",
    "decoder.memory.gate.from_context.",
    "decoder.memory.gate.from_state.",
    "decoder.memory.gate.score.",
)


def model_fingerprint(model: GuidedModel) -> str:
    """Identify everything in a model that entries depend on: parameters, their type, and the sizes of an entry."""
    kept = model.guided.entry_sizes, model.guided.memory.overlap is not None
    digest = blake2b(str(kept).encode(), digest_size=16)
    for name, parameter in sorted(model.state_dict().items()):
        if not name.startswith(NOT_IN_ENTRIES):
            digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
            digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


class RowCache:
    """Keeps numbers of each target step of pairs in a folder, as rows; a subclass says which numbers.

    Args:
        model: in evaluation mode, on the device and with the number type used.
        folder: a cache of this model, or a new folder.
        number_type: fp32, fp16, int8, or auto: the type of an existing cache, fp32 for a new one.
        limit: maximum size in bytes, beyond which the least recently used pairs are evicted.
        fingerprint: of all that the numbers depend on. sizes: how many numbers each of the three parts of a row has.
    """

    def __init__(
        self,
        model: GuidedModel,
        folder: str | Path,
        number_type: str,
        limit: int,
        fingerprint: str,
        sizes: tuple[int, int, int],
    ):
        self._model, self._dtype = model, next(model.parameters()).dtype
        folder = Path(folder)
        there = Header.load(folder)
        if number_type == "auto":
            number_type = there.number_type if there is not None else "fp32"
        source, target = (dictionary_fingerprint(side.dictionary.symbols) for side in (model.encoder, model.decoder))
        self.format = RowFormat(number_type, sizes)
        wanted = Header(fingerprint, (source, target), number_type, self.format.sizes, self.format.row_bytes)
        if there is not None:
            there.check(wanted, folder)
        else:
            wanted.create(folder)
        self.pairs = PairCache(folder, self.format.row_bytes, limit)
        logger.info(
            "memory cache: %s, %s, %d pairs, %s of %s",
            folder,
            number_type,
            len(self.pairs),
            spell_size(self.pairs.size),
            spell_size(limit),
        )

    def serves(self, model: GuidedModel) -> bool:
        """Return whether the cache was opened for this model, with the same number type."""
        return model is self._model and next(model.parameters()).dtype == self._dtype

    @property
    def device(self) -> torch.device:
        """The device of the model, where a batch's tensors are expected."""
        return next(self._model.parameters()).device

    def fill(self, pairs: dict) -> list[np.ndarray]:
        """Return the rows of each of P pairs, (N, row_bytes); compute and append those missing from the cache."""
        found = self.pairs.find(pairs["addresses"])
        missing = [place for place, rows in enumerate(found) if rows is None]
        if missing:
            for place, rows in zip(missing, self._make(pairs, missing), strict=True):
                found[place] = rows
            self.pairs.append((pairs["addresses"][place], found[place]) for place in missing)
        return found

    def _compute(self, pairs: dict) -> Entries:
        """Return the parts of P pairs, (P, T', ...)."""
        raise NotImplementedError

    def _kept(self, pairs: dict) -> Tensor:
        """Return which steps have a row, (P, T')."""
        return pairs["tokens"] != self._model.guided.pad

    @torch.no_grad()
    def _make(self, pairs: dict, chosen: Sequence[int]) -> list[np.ndarray]:
        """Return the rows of the chosen pairs from one translator pass over them."""
        places = torch.tensor(chosen, device=pairs["tokens"].device)
        by_pair = ("src_tokens", "src_lengths", "prev_output_tokens", "tokens", "lengths")
        pairs = {name: pairs[name].index_select(0, places) for name in by_pair}
        source_width, width = int(pairs["src_lengths"].max()), int(pairs["lengths"].max())
        pairs["src_tokens"] = pairs["src_tokens"][:, :source_width]
        for name in ("prev_output_tokens", "tokens"):
            pairs[name] = pairs[name][:, :width]
        entries, real = self._compute(pairs), self._kept(pairs)
        entries = Entries(*(None if part is None else part[real] for part in entries))
        ends = np.cumsum(real.sum(1).tolist())[:-1]
        rows = np.split(self.format.encode(entries).cpu().numpy(), ends)
        if entries.attention is None:
            return rows
        weights = np.split(entries.attention.float().cpu().numpy(), ends)
        lengths = pairs["src_lengths"].tolist()
        return [
            np.concatenate([of_pair, self.format.pack_attention(attention[:, :length])])
            for of_pair, attention, length in zip(rows, weights, lengths, strict=True)
        ]


class EntryCache(RowCache):
    """Writes the slots of batches for one model, and keeps their entries in a folder.

    A translation does not depend on what is cached: a new entry is used exactly as it will be read later.
    """

    def __init__(self, model: GuidedModel, folder: str | Path, number_type: str, limit: int):
        super().__init__(model, folder, number_type, limit, model_fingerprint(model), model.guided.entry_sizes)

    def _compute(self, pairs: dict) -> Entries:
        return self._model.guided.entries(pairs, self._model.guided.run_pairs(pairs))

    def _kept(self, pairs: dict) -> Tensor:
        # As in `ExamplePairs.collate`, an unknown symbol is not a slot.
        return super()._kept(pairs) & (pairs["tokens"] != UNKNOWN)

    def write(self, pairs: dict) -> Slots:
        """Return the slots of B sentences, given the result of `ExamplePairs.collate` for their P distinct pairs."""
        found = self.fill(pairs)
        slots = pairs["slots"]
        rows = np.zeros((*slots.shape, self.format.row_bytes), np.uint8)
        weights = None
        if self._model.guided.memory.overlap is not None:
            weights = np.zeros((*slots.shape, pairs["shared"].size(-1)), np.float32)
        for sentence, places in enumerate(pairs["places"]):
            end = 0
            for rank, place in enumerate(places):
                count, length = shape = pairs["shapes"][place]
                kept = slice(None) if pairs["kept"] is None else pairs["kept"][sentence][rank]
                of_pair = found[place][:count][kept]
                start, end = end, end + len(of_pair)
                rows[sentence, start:end] = of_pair
                if weights is not None:
                    of_slots = self.format.unpack_attention(found[place][count:], shape)
                    weights[sentence, start:end, :length] = of_slots[kept]
        keys, gate_values, values, _ = self.format.decode(torch.from_numpy(rows).to(slots.device))
        # Every step reads these two, so they should be contiguous.
        values = None if values is None else values.to(self._dtype).contiguous()
        attention = None if weights is None else torch.from_numpy(weights).to(slots.device)
        return self._model.guided.write(Entries(keys, gate_values.contiguous(), values, attention), pairs)
