"""fairseq's Transformer as the translator inside the memory.

    h    = the encoder's output
    z_t  = the decoder's features, from which its output layer makes the logits
    c_t  = sum_tau alpha_t,tau h_tau                     (Eq. 2)

where alpha is the attention over the source of one decoder layer, the mean over its heads. Parameters, layers and their
arithmetic are fairseq's. Only the loop over the layers is here: fairseq's own looks at the padding on the host at every
step, and expands the beam's sources.
"""

from typing import NamedTuple

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor

from fairseq_seg.errors import SegError
from fairseq_seg.modules.encoder import padding_mask
from fairseq_seg.modules.translator import Pass, Translator


class Annotations(NamedTuple):
    """A batch of encoded source sentences."""

    states: Tensor | None  # h, (B, S, C)
    mask: Tensor  # (B, S), True at padding
    projected: list | None = (
        None  # for steps: of each decoder layer, its keys and values of h, (B, heads, S, C / heads)
    )


class TransformerTranslator(Translator):
    """fairseq's encoder and decoder, which may share embeddings.

    Args:
        layer: the decoder layer whose attention gives the contexts. heads: how many of its heads, 0: all.
    """

    encoder: TransformerEncoderBase
    decoder: TransformerDecoderBase
    sums_annotations = True

    def __init__(self, encoder: TransformerEncoderBase, decoder: TransformerDecoderBase, layer: int, heads: int):
        super().__init__()
        self.encoder, self.decoder, self.layer, self.heads = encoder, decoder, layer, heads or None
        self.state_size, self.context_size = decoder.output_embed_dim, encoder.cfg.encoder.embed_dim
        self.embedding_size = decoder.embed_tokens.embedding_dim
        self.key_scale = self.context_size**-0.5  # as of the products in fairseq's own attention

    def encode(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        refuse_long(self.encoder, tokens.size(1), "source")
        mask = padding_mask(lengths, tokens.size(1))
        x, _ = self.encoder.forward_embedding(tokens)
        x = (x * (1 - mask.unsqueeze(-1).type_as(x))).transpose(0, 1)
        for layer in self.encoder.layers:
            x = layer(x, encoder_padding_mask=mask)
        if self.encoder.layer_norm is not None:
            x = self.encoder.layer_norm(x)
        return Annotations(x.transpose(0, 1), mask)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.decoder.embed_scale * self.decoder.embed_tokens(tokens)

    def run(self, previous: Tensor, annotations: Annotations) -> Pass:
        refuse_long(self.decoder, previous.size(1), "target")
        decoder = self.decoder
        x = self._inputs(previous, decoder.embed_positions and decoder.embed_positions(previous))
        # Padding is on the right, where no real step sees it.
        future = torch.triu(x.new_full((len(x), len(x)), float("-inf")), 1)
        sources, weights = annotations.states.transpose(0, 1), None
        layers = list(decoder.layers) or [decoder.layers[self.layer]]  # without those that --decoder-layerdrop drops
        aligned = min(self.layer, len(layers) - 1)
        for number, layer in enumerate(layers):
            wanted = number == aligned
            x, attention, _ = layer(
                x, sources, annotations.mask, None, self_attn_mask=future, need_attn=wanted, need_head_weights=wanted
            )
            weights = attention if wanted else weights
        attention = self._mean(weights).type_as(x)
        return Pass(self._features(x), torch.bmm(attention, annotations.states), attention, None)

    def for_steps(self, annotations: Annotations) -> Annotations:
        projected = []
        for layer in self.decoder.layers:
            attend = layer.encoder_attn
            both = (project(annotations.states) for project in (attend.k_proj, attend.v_proj))
            heads = (x.view(*x.shape[:2], attend.num_heads, -1).transpose(1, 2).contiguous() for x in both)
            projected.append(list(heads))
        return annotations._replace(projected=projected)

    def step(self, previous: Tensor, state: list | None, annotations: Annotations) -> tuple[list, Pass]:
        """Take a step; the state holds the self-attention's keys and values of each layer, (R, heads, t, H / heads)."""
        decoder, sentences = self.decoder, annotations.mask.size(0)
        length = 1 if state is None else state[0][0].size(2) + 1
        refuse_long(decoder, length, "target")
        previous = previous.unsqueeze(1)
        # fairseq asks how many steps there have been, and not for their symbols.
        so_far = previous.expand(-1, length)
        x = self._inputs(previous, decoder.embed_positions and decoder.embed_positions(so_far, incremental_state={}))
        state = [None] * len(decoder.layers) if state is None else state
        following, weights = [], None
        for number, (layer, own, source) in enumerate(zip(decoder.layers, state, annotations.projected, strict=True)):
            kept: dict = {}
            for attend, saved, mask in ((layer.self_attn, own, None), (layer.encoder_attn, source, annotations.mask)):
                if saved is not None:
                    buffer = {"prev_key": saved[0], "prev_value": saved[1], "prev_key_padding_mask": mask}
                    attend._set_input_buffer(kept, buffer)
            wanted = number == self.layer
            # Instead of x, which is in the place of the source's states, it takes the keys and values of these.
            x, attention, _ = layer(x, x, None, kept, need_attn=wanted, need_head_weights=wanted)
            weights = attention if wanted else weights
            buffer = layer.self_attn._get_input_buffer(kept)
            following.append([buffer["prev_key"], buffer["prev_value"]])
        states, attention = (
            y.view(sentences, -1, y.size(-1)) for y in (self._features(x), self._mean(weights).type_as(x))
        )
        return following, Pass(states, None, attention, None)

    def logits_from_context(self, contexts: Tensor) -> None:
        return None

    def logits(self, states: Tensor, from_context: Tensor | None, inputs: Tensor | None) -> Tensor:
        return self.decoder.output_layer(states)

    def _inputs(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        """Return the first layer's input (T, B, H) of target symbols (B, T)."""
        decoder, x = self.decoder, self.embed(tokens)
        for change in (decoder.quant_noise, decoder.project_in_dim):
            x = x if change is None else change(x)
        x = x if positions is None else x + positions
        x = x if decoder.layernorm_embedding is None else decoder.layernorm_embedding(x)
        return decoder.dropout_module(x).transpose(0, 1)

    def _features(self, x: Tensor) -> Tensor:
        """Return z (B, T, H) from the last layer's output (T, B, ...)."""
        x = x if self.decoder.layer_norm is None else self.decoder.layer_norm(x)
        x = x.transpose(0, 1)
        return x if self.decoder.project_out_dim is None else self.decoder.project_out_dim(x)

    def _mean(self, weights: Tensor) -> Tensor:
        """Return the attention (B, T, S) of some heads from that of each, (heads, B, T, S)."""
        return weights[: self.heads].mean(dim=0)


def refuse_long(part: TransformerEncoderBase | TransformerDecoderBase, length: int, side: str) -> None:
    """Refuse a sentence for which learned positions do not suffice; sinusoidal ones go on for ever."""
    positions = part.embed_positions
    if positions is not None and length > positions.max_positions:
        raise SegError(
            f"A {side} of {length} symbols is too long for this model, whose positions end at "
            f"{positions.max_positions}: shorten or leave out that sentence."
        )
