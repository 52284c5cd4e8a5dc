"""The key-value memory: one softmax over all target slots of all pairs retrieved for a sentence.

    slot tau = (key c'_tau, value z'_tau, symbol y'_tau), all of the same decoder step on (X', Y')
    E_t,tau  = c_t M c'_tau - lambda beta_{t-1,tau}                   (Eq. 7)
    q_t      = softmax_tau(E_t)                                       (Eq. 4)
    z~_t     = sum_tau q_t,tau z'_tau
    zeta_t   = sigmoid(f_gate(c_t, z_t, z~_t))
    beta_t   = beta_{t-1} + q_t zeta_t                                beta_0 = 0

With keys of contexts and states, which go beyond the paper, a slot's key is (c'_tau, z'_tau) and its content score
c_t M c'_tau + z_t N z'_tau: the first part asks what is being translated, the second what has been written so far. N
starts at zero, where the score is the paper's.

Only the chain beta -> q -> zeta -> beta needs a loop over t. The content scores c_t M c' are one matrix product for all
steps, and the gate's projection of z~_t is q_t times the projected values, made once a sentence.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Entries(NamedTuple):
    """What the memory needs of the target slots of pairs, whichever sentence they are retrieved for."""

    keys: Tensor  # M c', and N z' behind it where states are compared too, (P, T', C)
    gate_values: Tensor  # the gate's projection of z', (P, T', G)
    values: Tensor | None  # z', (P, T', H), if asked for


class Memory(NamedTuple):
    """The slots of a batch of sentences, S of them a sentence, padded."""

    keys: Tensor | None  # as in `Entries`, fp32: a score of hundreds has no fraction left in half precision, (B, S, C)
    gate_values: Tensor  # the gate's projection of z', fp32, (B, S, G)
    values: Tensor | None  # z', (B, S, H), if asked for
    symbols: Tensor  # y', (B, S), the padding symbol where there is no slot
    first: Tensor  # the first of the sentence's slots that hold this symbol, (B, S)
    mask: Tensor  # (B, S), True where there is no slot


class SlotRead(NamedTuple):
    """What reading the memory gave at each step."""

    weights: Tensor  # q, fp32, (B, T, S)
    gate: Tensor  # f_gate before the sigmoid, fp32, -inf where a sentence has no slot, (B, T)
    symbols: Tensor  # y', (B, S)
    first: Tensor  # as in `Memory`, (B, S)


def first_slots(symbols: Tensor) -> Tensor:
    """For each slot, the first slot of the same sentence that holds the same symbol; (B, S) -> (B, S)."""
    positions = torch.arange(symbols.size(1), device=symbols.device)
    same = symbols.unsqueeze(1) == symbols.unsqueeze(2)
    return torch.where(same, positions, symbols.size(1)).amin(-1)


def lay_out(x: Tensor, slots: Tensor) -> Tensor:
    """From P distinct pairs to the slots of each sentence; x (P, T', ...), slots (B, S) -> (B, S, ...).

    A slot is the flat position pair * T' + step, or -1 where there is none; there the result means nothing.
    """
    flat = x.reshape(-1, *x.shape[2:])
    return flat.index_select(0, slots.clamp(min=0).view(-1)).view(*slots.shape, *x.shape[2:])


class Gate(nn.Module):
    """f_gate(c, z, z~): one tanh hidden layer, or a linear gate where hidden is 0."""

    def __init__(self, context_size: int, units: int, hidden: int, bias: float):
        super().__init__()
        width = hidden or 1
        self.from_context = nn.Linear(context_size, width)
        self.from_state = nn.Linear(units, width, bias=False)
        self.from_value = nn.Linear(units, width, bias=False)
        self.score = nn.Linear(hidden, 1) if hidden else None
        nn.init.constant_((self.score or self.from_context).bias, bias)

    def query(self, from_context: Tensor, state: Tensor) -> Tensor:
        """The part that does not depend on the memory; the projected c (..., G), z (..., H) -> fp32 (..., G)."""
        return (from_context + self.from_state(state)).float()

    def forward(self, query: Tensor, value: Tensor) -> Tensor:
        """query and the projected z~, both (..., G) -> the gate's logit (...)."""
        hidden = query + value
        if self.score is None:
            return hidden.squeeze(-1)
        return nn.functional.linear(torch.tanh(hidden), self.score.weight.float(), self.score.bias.float()).squeeze(-1)


def times(x: Tensor, metric: Tensor) -> Tensor:
    """M x, for a diagonal M (C,) or a full one (C, C); x (..., C) -> (..., C)."""
    return x * metric if metric.dim() == 1 else x @ metric.t()


class KeyValueMemory(nn.Module):
    """Writes retrieved pairs into slots and reads them, step by step or for all steps at once."""

    def __init__(
        self,
        key_size: int,
        context_size: int,
        units: int,
        gate_hidden: int,
        gate_bias: float,
        coverage_penalty: float,
        full: bool,
        state_keys: bool,
    ):
        super().__init__()
        self.metric = nn.Parameter(torch.eye(key_size) if full else torch.ones(key_size))  # M
        by_state = torch.zeros((units, units) if full else units)
        self.state_metric = nn.Parameter(by_state) if state_keys else None  # N
        self.coverage_penalty = nn.Parameter(torch.full((1,), coverage_penalty))  # lambda
        self.gate = Gate(context_size, units, gate_hidden, gate_bias)

    def entries(self, keys: Tensor, values: Tensor, keep_values: bool) -> Entries:
        """What is to be kept of pairs with keys c' (P, T', C) and values z' (P, T', H).

        keep_values: also z' as it is, for deep fusion; the gate is content with its projection.
        """
        keys = times(keys, self.metric)
        if self.state_metric is not None:
            keys = torch.cat([keys, times(values, self.state_metric)], dim=-1)
        return Entries(keys, self.gate.from_value(values), values if keep_values else None)

    @staticmethod
    def write(entries: Entries, tokens: Tensor, slots: Tensor, pad: int) -> Memory:
        """The memory of B sentences from entries that are laid out by sentence already, (B, S, ...).

        Args:
            tokens: the targets y' of the P distinct pairs, (P, T').
            slots: where in them each slot is, (B, S), see `lay_out`.
        """
        mask = slots < 0
        symbols = lay_out(tokens, slots).masked_fill(mask, pad)
        return Memory(
            keys=entries.keys.float(),
            gate_values=entries.gate_values.float(),
            values=entries.values,
            symbols=symbols,
            first=first_slots(symbols),
            mask=mask,
        )

    @property
    def total_key_size(self) -> int:
        """C, the numbers of a slot's key, its state's part included."""
        return len(self.metric) + (0 if self.state_metric is None else len(self.state_metric))

    @staticmethod
    def match(query: Tensor, keys: Tensor) -> Tensor:
        """Content scores c_t M c'_tau of Eq. 4; query (B, T, C), keys M c' (B, S, C) -> fp32 (B, T, S)."""
        return torch.bmm(query.float(), keys.transpose(1, 2))

    def step(
        self, scores: Tensor, gate_query: Tensor, coverage: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step, for one row or a beam of rows a sentence.

        Args:
            scores: (B, beam, S) content scores, gate_query: (B, beam, G), coverage: beta_{t-1}, (B, beam, S).

        Returns:
            q_t (B, beam, S), the gate's logit (B, beam) and beta_t (B, beam, S).
        """
        scores = scores - self.coverage_penalty.float() * coverage  # Eq. 7
        mask = memory.mask.unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(mask, torch.finfo(torch.float32).min), dim=-1)  # Eq. 4
        weights = weights.masked_fill(mask, 0.0)  # matters only where a sentence has no slot at all
        gate = self.gate(gate_query, torch.bmm(weights, memory.gate_values))
        gate = gate.masked_fill(memory.mask.all(-1, keepdim=True), float("-inf"))
        return weights, gate, torch.addcmul(coverage, weights, torch.sigmoid(gate).unsqueeze(-1))

    def forward(self, scores: Tensor, gate_query: Tensor, memory: Memory) -> SlotRead:
        """Read at all T steps of teacher forcing; content scores (B, T, S), gate_query (B, T, G)."""
        coverage = torch.zeros_like(scores[:, :1])
        weights, gates = [], []
        for score, gate_part in zip(scores.split(1, dim=1), gate_query.split(1, dim=1), strict=True):
            q, gate, coverage = self.step(score, gate_part, coverage, memory)
            weights.append(q)
            gates.append(gate)
        return SlotRead(torch.cat(weights, dim=1), torch.cat(gates, dim=1), memory.symbols, memory.first)
