"""The memory of a frozen model with a cache: pairs that it has seen before need no translator pass again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from fairseq_seg.cache.header import Header, spell_size
from fairseq_seg.cache.rows import RowFormat
from fairseq_seg.cache.segments import PairCache
from fairseq_seg.corpus.dictionary import UNKNOWN, dictionary_fingerprint
from fairseq_seg.modules.memory import Entries, Memory

if TYPE_CHECKING:
    from fairseq_seg.models.seg_gru import SegGRUModel

logger = logging.getLogger(__name__)

# What no entry depends on: the search for a slot, the gate's other inputs, and how a state becomes a symbol; and the
# dictionaries, which the header has by themselves.
NOT_IN_ENTRIES = (
    "encoder.symbols",
    "decoder.symbols",
    "decoder.readout.",
    "decoder.output.",
    "decoder.memory.coverage_penalty",
    "decoder.memory.gate.from_context.",
    "decoder.memory.gate.from_state.",
    "decoder.memory.gate.score.",
)


def model_fingerprint(model: SegGRUModel) -> str:
    """Identifies all of a model that an entry depends on: parameters, their type, and what is kept of a slot."""
    decoder = model.decoder
    digest = blake2b(f"{decoder.fusion != 'shallow'} {decoder.target_keys is not None}".encode(), digest_size=16)
    for name, parameter in sorted(model.state_dict().items()):
        if not name.startswith(NOT_IN_ENTRIES):
            digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
            digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


def entry_sizes(model: SegGRUModel) -> tuple[int, int, int]:
    """How many numbers the key, the gate projection and the value of a slot have."""
    memory, units = model.decoder.memory, model.decoder.cell.units
    return memory.total_key_size, memory.gate.from_value.out_features, 0 if model.decoder.fusion == "shallow" else units


class FrozenMemory:
    """Makes the memory of batches with one model, whose entries it keeps in a folder.

    For a sentence it does not matter what the cache holds: a new pair's entry, too, is used as it is read later on.

    Args:
        model: in evaluation, on the device and with the number type that it translates with.
        folder: a cache of this very model, or a folder to be made.
        number_type: fp32, fp16, int8, or auto: that of the cache, and fp32 for a new one.
        limit: bytes that the cache may take; entries that were not used for longest go first.
    """

    def __init__(self, model: SegGRUModel, folder: str | Path, number_type: str, limit: int):
        self._model, self._dtype = model, model.decoder.embed.weight.dtype
        folder = Path(folder)
        there = Header.load(folder)
        if number_type == "auto":
            number_type = there.number_type if there is not None else "fp32"
        symbols = [dictionary_fingerprint(side.dictionary.symbols) for side in (model.encoder, model.decoder)]
        self.format = RowFormat(number_type, entry_sizes(model))
        fingerprint = model_fingerprint(model)
        wanted = Header(fingerprint, tuple(symbols), number_type, self.format.sizes, self.format.row_bytes)
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

    def serves(self, model: SegGRUModel) -> bool:
        """Whether this is the model that the cache was opened for, with the same numbers."""
        return model is self._model and model.decoder.embed.weight.dtype == self._dtype

    @property
    def device(self) -> torch.device:
        """Where the model is, and where a batch's tensors are expected."""
        return self._model.decoder.embed.weight.device

    def write(self, memory: dict) -> Memory:
        """The memory of B sentences from what `ExamplePairs.collate` made of their P distinct pairs."""
        found = self.fill(memory)
        slots = memory["slots"]
        rows = np.zeros((*slots.shape, self.format.row_bytes), np.uint8)
        for sentence, places in enumerate(memory["places"]):
            end = 0
            for place in places:
                start, end = end, end + len(found[place])
                rows[sentence, start:end] = found[place]
        keys, gate_values, values = self.format.decode(torch.from_numpy(rows).to(slots.device))
        # Every step reads these two, so they should lie close together.
        values = None if values is None else values.to(self._dtype).contiguous()
        entries = Entries(keys, gate_values.contiguous(), values)
        return self._model.decoder.memory.write(entries, memory["tokens"], slots, self._model.decoder.pad)

    def fill(self, memory: dict) -> list[np.ndarray]:
        """The rows of each of a batch's P pairs, (T', row_bytes); those that the cache lacks are made and appended."""
        found = self.pairs.find(memory["addresses"])
        missing = [place for place, rows in enumerate(found) if rows is None]
        if missing:
            for place, rows in zip(missing, self._make(memory, missing), strict=True):
                found[place] = rows
            self.pairs.append((memory["addresses"][place], found[place]) for place in missing)
        return found

    @torch.no_grad()
    def _make(self, memory: dict, chosen: Sequence[int]) -> list[np.ndarray]:
        """The rows of the chosen pairs from one translator pass over them."""
        places = torch.tensor(chosen, device=memory["tokens"].device)
        by_pair = ("src_tokens", "src_lengths", "prev_output_tokens", "tokens", "lengths")
        pairs = {name: memory[name].index_select(0, places) for name in by_pair}
        source_width, width = int(pairs["src_lengths"].max()), int(pairs["lengths"].max())
        pairs["src_tokens"] = pairs["src_tokens"][:, :source_width]
        for name in ("prev_output_tokens", "tokens"):
            pairs[name] = pairs[name][:, :width]
        entries = self._model.encoder.pair_entries(pairs)
        # As in `ExamplePairs.collate`, an unknown symbol is no slot.
        real = (pairs["tokens"] != self._model.decoder.pad) & (pairs["tokens"] != UNKNOWN)
        rows = self.format.encode(Entries(*(None if part is None else part[real] for part in entries)))
        return np.split(rows.cpu().numpy(), np.cumsum(real.sum(1).tolist())[:-1])
