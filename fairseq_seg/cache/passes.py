"""What a frozen translator makes of sentence pairs, computed once and reused as long as only its memory learns.

A row is a target step: its context c', its state z' and log p_gen of its symbol; the attention follows as for the
overlap. M, N and the gate, which learn, are applied to rows after they are read. Training sentences are pairs of the
memory too, so that a pair is computed once, whether it is translated or retrieved.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.cache.address import pair_address
from fairseq_seg.cache.frozen import RowCache
from fairseq_seg.modules.memory import Entries
from fairseq_seg.modules.translator import Pass

if TYPE_CHECKING:
    from fairseq_seg.models.guided import GuidedModel


class KeptPass(NamedTuple):
    """A pass over sentences or pairs, as it was kept."""

    passed: Pass
    generated: Tensor  # log p_gen of each target symbol, fp32, (B, T)


def translator_fingerprint(model: GuidedModel) -> str:
    """Identify the translator's parameters, and which of its layers gives the contexts."""
    translator = model.guided.translator
    digest = blake2b(
        str(("pass", vars(translator).get("layer"), vars(translator).get("heads"))).encode(), digest_size=16
    )
    for name, parameter in sorted(translator.state_dict().items()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


class PassCache(RowCache):
    """Passes of a frozen translator, kept in a folder."""

    def __init__(self, model: GuidedModel, folder: str | Path, number_type: str, limit: int):
        translator = model.guided.translator
        sizes = translator.context_size, translator.state_size, 1
        super().__init__(model, folder, number_type, limit, translator_fingerprint(model), sizes)

    def _compute(self, pairs: dict) -> Entries:
        guided = self._model.guided
        translator = guided.translator
        annotations = translator.encode(pairs["src_tokens"], pairs["src_lengths"])
        passed = translator.run(pairs["prev_output_tokens"], annotations)
        logits = translator.logits(passed.states, translator.logits_from_context(passed.contexts), passed.inputs)
        log_gen = torch.log_softmax(logits.float(), dim=-1).gather(-1, pairs["tokens"].unsqueeze(-1))
        return Entries(passed.contexts, passed.states, log_gen, passed.attention)

    def read(self, pairs: dict) -> KeptPass:
        """Return the pass over P pairs, given with their addresses as `ExamplePairs.collate` lays them out."""
        found = self.fill(pairs)
        tokens, sources = pairs["tokens"], pairs["src_tokens"]
        lengths, source_lengths = pairs["lengths"].tolist(), pairs["src_lengths"].tolist()
        rows = np.zeros((*tokens.shape, self.format.row_bytes), np.uint8)
        weights = np.zeros((*tokens.shape, sources.size(1)), np.float32)
        for place, (of_pair, length, width) in enumerate(zip(found, lengths, source_lengths, strict=True)):
            rows[place, :length] = of_pair[:length]
            weights[place, :length, :width] = self.format.unpack_attention(of_pair[length:], (length, width))
        decoded = self.format.decode(torch.from_numpy(rows).to(tokens.device))
        contexts, states = (x.to(self._dtype) for x in (decoded.keys, decoded.gate_values))
        attention = torch.from_numpy(weights).to(tokens.device, self._dtype)
        return KeptPass(Pass(states, contexts, attention, None), decoded.values.squeeze(-1))

    def read_sentences(self, sample: dict) -> KeptPass:
        """Return the pass over the sentences of a batch of fairseq's, with their targets."""
        net_input, target = sample["net_input"], sample["target"]
        lengths = (target != self._model.guided.pad).sum(1)
        rows = {
            "src_tokens": net_input["src_tokens"],
            "src_lengths": net_input["src_lengths"],
            "prev_output_tokens": net_input["prev_output_tokens"],
            "tokens": target,
            "lengths": lengths,
        }
        sizes = zip(net_input["src_lengths"].tolist(), lengths.tolist(), strict=True)
        sides = zip(net_input["src_tokens"].cpu().numpy(), target.cpu().numpy(), sizes, strict=True)
        addresses = [pair_address(source[:width], tokens[:length]) for source, tokens, (width, length) in sides]
        return self.read({**rows, "addresses": addresses})
