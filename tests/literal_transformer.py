"""A Transformer as its paper writes it, inside the literal SEG-NMT: one sentence, one position, one head at a time.

Every step of the decoder reads the whole target so far again. In double precision, and with nothing of fairseq but the
names of the parameters.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.literal import EOS, LiteralModel, Step

PAD = 1


@dataclass
class Sizes:
    """What the parameters do not tell."""

    heads: int
    encoder_pre_norm: bool
    decoder_pre_norm: bool
    alignment_layer: int
    alignment_heads: int
    activation: str


class LiteralTransformer(LiteralModel):
    """The translator of `LiteralModel` is a Transformer."""

    def __init__(self, parameters: dict[str, Tensor], fusion: str, detach: bool, sizes: Sizes):
        super().__init__(parameters, fusion, detach)
        self.sizes = sizes

    @property
    def key_scale(self) -> float:
        return self["encoder.embed_tokens.weight"].size(1) ** -0.5

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Layer normalisation; the identity where there is none."""
        if name + ".weight" not in self.parameters:
            return x
        centred = x - x.mean()
        return centred / torch.sqrt((centred**2).mean() + 1e-5) * self[name + ".weight"] + self[name + ".bias"]

    def embed(self, side: str, symbol: int, place: int) -> Tensor:
        """The embedding of a symbol and of its place in the sentence, which is counted from 0."""
        matrix = self[f"{side}.embed_tokens.weight"]
        x = math.sqrt(matrix.size(1)) * matrix[symbol]
        learned = f"{side}.embed_positions.weight"
        if learned in self.parameters:
            x = x + self[learned][PAD + 1 + place]
        else:
            half = matrix.size(1) // 2
            angles = [(PAD + 1 + place) * 10000 ** (-i / (half - 1)) for i in range(half)]
            # In single precision, as fairseq computes it.
            x = x + torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)
        return self.norm(f"{side}.layernorm_embedding", x)

    def attend(self, name: str, query: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Multi-head attention of one position over others: its output, and the weights of each head."""
        projected = self.linear(f"{name}.q_proj", query).chunk(self.sizes.heads)
        keys, values = (
            [self.linear(f"{name}.{kind}_proj", x).chunk(self.sizes.heads) for x in states] for kind in "kv"
        )
        outputs, weights = [], []
        for head, q in enumerate(projected):
            scores = torch.stack([q @ key[head] / math.sqrt(len(q)) for key in keys])
            weights.append(torch.softmax(scores, dim=0))
            outputs.append(sum(w * value[head] for w, value in zip(weights[-1], values, strict=True)))
        return self.linear(f"{name}.out_proj", torch.cat(outputs)), weights

    def block(self, norm: str, pre_norm: bool, x: Tensor, function) -> Tensor:
        """A block of a layer, with its residual connection and normalisation before or after."""
        return x + function(self.norm(norm, x)) if pre_norm else self.norm(norm, x + function(x))

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        """Two linear layers."""
        activation = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}[self.sizes.activation]
        return self.linear(f"{name}.fc2", activation(self.linear(f"{name}.fc1", x)))

    def layers(self, side: str) -> list[str]:
        """The names of the layers, the lowest first."""
        numbers = {int(name.split(".")[2]) for name in self.parameters if name.startswith(f"{side}.layers.")}
        return [f"{side}.layers.{number}" for number in sorted(numbers)]

    def annotate(self, source: list[int]) -> list[Tensor]:
        """The encoder's output at each symbol."""
        states = [self.embed("encoder", symbol, place) for place, symbol in enumerate(source)]
        pre = self.sizes.encoder_pre_norm
        for layer in self.layers("encoder"):
            norm = f"{layer}.self_attn_layer_norm"
            seen = [self.norm(norm, x) for x in states] if pre else states
            states = [
                self.block(norm, pre, x, lambda y, s=seen, n=layer: self.attend(f"{n}.self_attn", y, s)[0])
                for x in states
            ]
            norm = f"{layer}.final_layer_norm"
            states = [self.block(norm, pre, x, lambda y, n=layer: self.feed_forward(n, y)) for x in states]
        return [self.norm("encoder.layer_norm", x) for x in states]

    def translate(self, source: list[int], target: list[int]) -> list[Step]:
        """Run the decoder once for each step, over all that comes before it."""
        annotations, steps, pre = self.annotate(source), [], self.sizes.decoder_pre_norm
        previous = [EOS, *target[:-1]]
        for step in range(len(target)):
            states = [self.embed("decoder", symbol, place) for place, symbol in enumerate(previous[: step + 1])]
            for number, layer in enumerate(self.layers("decoder")):
                norm = f"{layer}.self_attn_layer_norm"
                seen = [self.norm(norm, x) for x in states] if pre else states
                after = []
                for place, x in enumerate(states):
                    past = seen[: place + 1]
                    x = self.block(norm, pre, x, lambda y, p=past, n=layer: self.attend(f"{n}.self_attn", y, p)[0])
                    weights: list = []

                    def look(y: Tensor, n: str = layer, found: list = weights) -> Tensor:
                        output, found[:] = self.attend(f"{n}.encoder_attn", y, annotations)
                        return output

                    x = self.block(f"{layer}.encoder_attn_layer_norm", pre, x, look)
                    x = self.block(f"{layer}.final_layer_norm", pre, x, lambda y, n=layer: self.feed_forward(n, y))
                    after.append(x)
                states = after
                if number == self.sizes.alignment_layer:
                    chosen = weights[: self.sizes.alignment_heads or None]
                    attention = sum(chosen) / len(chosen)
            state = self.norm("decoder.layer_norm", states[-1])
            if "decoder.project_out_dim.weight" in self.parameters:
                state = self.linear("decoder.project_out_dim", state)
            context = sum(weight * annotation for weight, annotation in zip(attention, annotations, strict=True))
            steps.append(Step(state, context, states[-1], attention))
        return steps

    def embedding(self, symbol: int) -> Tensor:
        matrix = self["decoder.embed_tokens.weight"]
        return math.sqrt(matrix.size(1)) * matrix[symbol]

    def generate(self, state: Tensor, step: Step) -> Tensor:
        return torch.softmax(self["decoder.output_projection.weight"] @ state, dim=0)
