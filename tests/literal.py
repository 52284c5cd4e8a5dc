"""SEG-NMT as the paper writes it: one sentence, one step, one slot at a time, in double precision.

Slow on purpose. It shares no code with the package, only the names of the parameters, so that the tests can hold the
fast model against the equations themselves. Vectors are torch tensors, and so autograd gives literal gradients, too.
"""

from dataclasses import dataclass

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

EOS, UNKNOWN = 2, 3


@dataclass
class Step:
    """What one target symbol's step leaves behind."""

    state: Tensor  # z_t, (H,)
    context: Tensor  # c_t, (2H,)
    embedding: Tensor  # emb(y_{t-1}), (E,)
    attention: Tensor  # alpha_t, (S,)


@dataclass
class Slot:
    """One target symbol of one retrieved pair."""

    key: Tensor
    value: Tensor
    symbol: int
    overlap: Tensor  # m, the share of its attention that lies on symbols of X' that the sentence shares


@dataclass
class Prediction:
    """The output at one step."""

    probabilities: Tensor  # p(y_t | y_<t, X, M), (V,)
    generated: Tensor  # p_gen, (V,)
    weights: list[Tensor]  # q_t,tau of each slot
    gate: Tensor  # zeta_t, 0 where there is no memory


def aligned(sentence: list[int], source: list[int]) -> list[str]:
    """How each symbol of a retrieved source comes about from the sentence: "equal", "replace" or "insert"."""
    tags = {i: tag for tag, _, _, start, end in Levenshtein.opcodes(sentence, source) for i in range(start, end)}
    return ["unknown" if symbol == UNKNOWN else tags[i] for i, symbol in enumerate(source)]


class LiteralModel:
    """The translator (Eq. 1, Eq. 2) with its memory (Alg. 2).

    Args:
        parameters: the model's parameters by name.
        fusion: shallow, deep or both.
        detach: no gradient through keys and values.
    """

    def __init__(self, parameters: dict[str, Tensor], fusion: str = "shallow", detach: bool = False):
        leaves = {p.data_ptr(): p.detach().double().requires_grad_() for p in parameters.values()}
        self.parameters = {name: leaves[p.data_ptr()] for name, p in parameters.items()}  # shared: one, of two names
        self.fusion, self.detach = fusion, detach

    def __getitem__(self, name: str) -> Tensor:
        return self.parameters[name]

    def linear(self, name: str, x: Tensor) -> Tensor:
        """W x + b, or W x where the layer has no bias."""
        y = self[name + ".weight"] @ x
        return y + self[name + ".bias"] if name + ".bias" in self.parameters else y

    @staticmethod
    def gru(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
        """One GRU step from W x + b and U h + b, each for the reset gate, the update gate and the candidate."""
        input_reset, input_update, input_new = from_input.chunk(3)
        state_reset, state_update, state_new = from_state.chunk(3)
        reset = torch.sigmoid(input_reset + state_reset)
        update = torch.sigmoid(input_update + state_update)
        candidate = torch.tanh(input_new + reset * state_new)
        return (1 - update) * candidate + update * state

    def run_gru(self, name: str, inputs: list[Tensor]) -> list[Tensor]:
        """The states of a torch GRU over a list of vectors."""
        w, u = self[name + ".weight_ih_l0"], self[name + ".weight_hh_l0"]
        b, d = self[name + ".bias_ih_l0"], self[name + ".bias_hh_l0"]
        state, states = torch.zeros(u.size(1), dtype=torch.float64), []
        for x in inputs:
            state = self.gru(w @ x + b, u @ state + d, state)
            states.append(state)
        return states

    def run_bidirectional(self, name: str, inputs: list[Tensor]) -> list[Tensor]:
        """Both directions' states, joined symbol by symbol."""
        left_to_right = self.run_gru(name + ".forwards", inputs)
        right_to_left = self.run_gru(name + ".backwards", inputs[::-1])[::-1]
        return [torch.cat(both) for both in zip(left_to_right, right_to_left, strict=True)]

    def embedding(self, symbol: int) -> Tensor:
        """The embedding of a target symbol."""
        return self["decoder.embed.weight"][symbol]

    def translate(self, source: list[int], target: list[int]) -> list[Step]:
        """Run the attention translator along a target: the step of symbol y_t sees y_<t only."""
        annotations = self.run_bidirectional("encoder.gru", [self["encoder.embed.weight"][x] for x in source])
        state = torch.tanh(self.linear("decoder.cell.start", sum(annotations) / len(annotations)))
        steps = []
        for previous in [EOS, *target[:-1]]:
            embedding = self.embedding(previous)
            from_input = self.linear("decoder.cell.first_input", embedding)
            middle = self.gru(from_input, self.linear("decoder.cell.first_state", state), state)
            query = self.linear("decoder.cell.attention.query_proj", middle)
            scores = []
            for annotation in annotations:
                hidden = torch.tanh(self.linear("decoder.cell.attention.annotation_proj", annotation) + query)
                scores.append(self.linear("decoder.cell.attention.score", hidden))
            attention = torch.softmax(torch.cat(scores), dim=0)
            context = sum(weight * annotation for weight, annotation in zip(attention, annotations, strict=True))
            from_context = self.linear("decoder.cell.second_input", context)
            state = self.gru(from_context, self.linear("decoder.cell.second_state", middle), middle)
            steps.append(Step(state, context, embedding, attention))
        return steps

    def remember(self, sentence: list[int], pairs: list[tuple[list[int], list[int]]]) -> list[Slot]:
        """Alg. 2, lines 7 to 14: a slot for every target symbol of every retrieved pair."""
        slots = []
        for source, target in pairs:
            if self.has_target_keys:
                keys = self.run_bidirectional("decoder.memory.keys.gru", [self.embedding(y) for y in target])
                values, overlaps = keys, [torch.zeros(()) for _ in keys]
            else:
                steps = self.translate(source, target)
                keys, values = [step.context for step in steps], [step.state for step in steps]
                shared = [tag == "equal" for tag in aligned(sentence, source)]
                overlaps = [sum(a for a, same in zip(step.attention, shared, strict=True) if same) for step in steps]
            slots += [Slot(*slot) for slot in zip(keys, values, target, overlaps, strict=True)]
        if self.detach:
            for slot in slots:
                slot.key, slot.value = slot.key.detach(), slot.value.detach()
                slot.overlap = torch.as_tensor(slot.overlap).detach()
        return slots

    @property
    def key_scale(self) -> float:
        return 1.0

    @property
    def has_target_keys(self) -> bool:
        return any(name.startswith("decoder.memory.keys.gru.") for name in self.parameters)

    @property
    def has_overlap(self) -> bool:
        return "decoder.memory.overlap.weight" in self.parameters

    def gate(self, context: Tensor, state: Tensor, value: Tensor, overlap: Tensor) -> Tensor:
        """zeta_t = sigmoid(f_gate(c_t, z_t, z~_t)), where z~_t may have the overlap as one more component."""
        inputs = {"context": context, "state": state, "value": value}
        hidden = sum(self.linear(f"decoder.memory.gate.from_{name}", x) for name, x in inputs.items())
        if self.has_overlap:
            hidden = hidden + self.linear("decoder.memory.overlap.gate", overlap.view(1))
        if "decoder.memory.gate.score.weight" in self.parameters:
            hidden = self.linear("decoder.memory.gate.score", torch.tanh(hidden))
        return torch.sigmoid(hidden).squeeze()

    def generate(self, state: Tensor, step: Step) -> Tensor:
        """Eq. 1: the generator's distribution from a state, (V,)."""
        hidden = self.linear("decoder.readout.from_state", state)
        hidden = hidden + self.linear("decoder.readout.from_embedding", step.embedding)
        hidden = hidden + self.linear("decoder.readout.from_context", step.context)
        return torch.softmax(self["decoder.output.weight"] @ torch.tanh(hidden), dim=0)

    def predict(
        self, source: list[int], target: list[int], pairs: list[tuple[list[int], list[int]]]
    ) -> list[Prediction]:
        """Alg. 2, lines 15 to 26: the distribution at every step, given the target so far and the retrieved pairs."""
        slots = self.remember(source, pairs)
        metric, penalty = self["decoder.memory.keys.metric"], self["decoder.memory.coverage_penalty"]
        coverage = [torch.zeros((), dtype=torch.float64) for _ in slots]
        predictions = []
        for step in self.translate(source, target):
            if not slots:
                generated = self.generate(step.state, step)
                predictions.append(Prediction(generated, generated, [], torch.zeros(())))
                continue
            by_state = self.has_target_keys and metric.size(0) == len(step.state)
            query = step.state if by_state else step.context
            scores = []
            for slot, covered in zip(slots, coverage, strict=True):
                matched = metric * slot.key if metric.dim() == 1 else metric @ slot.key
                score = self.key_scale * (query @ matched)
                if "decoder.memory.keys.state_metric" in self.parameters:
                    metric_n = self["decoder.memory.keys.state_metric"]
                    matched = metric_n * slot.value if metric_n.dim() == 1 else metric_n @ slot.value
                    score = score + self.key_scale * (step.state @ matched)
                if self.has_overlap:
                    score = score + self["decoder.memory.overlap.weight"].squeeze() * slot.overlap
                scores.append(score - penalty.squeeze() * covered)  # Eq. 7
            total = sum(torch.exp(score - max(scores)) for score in scores)
            weights = [torch.exp(score - max(scores)) / total for score in scores]  # Eq. 4
            value = sum(weight * slot.value for weight, slot in zip(weights, slots, strict=True))
            overlap = sum(weight * slot.overlap for weight, slot in zip(weights, slots, strict=True))
            zeta = self.gate(step.context, step.state, value, overlap)
            coverage = [covered + weight * zeta for covered, weight in zip(coverage, weights, strict=True)]
            state = step.state if self.fusion == "shallow" else zeta * value + (1 - zeta) * step.state  # Eq. 5
            generated = self.generate(state, step)
            probabilities = generated
            if self.fusion != "deep":  # Eq. 6
                symbols = []
                for symbol in range(len(generated)):
                    copied = sum(w for w, slot in zip(weights, slots, strict=True) if slot.symbol == symbol)
                    symbols.append(zeta * copied + (1 - zeta) * generated[symbol])
                probabilities = torch.stack(symbols)
            predictions.append(Prediction(probabilities, generated, weights, zeta))
        return predictions
