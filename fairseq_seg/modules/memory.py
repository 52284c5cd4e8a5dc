"""Reading retrieved pairs: one softmax over all target slots of all pairs retrieved for a sentence.

    slot tau = (key c'_tau, value z'_tau, symbol y'_tau), all of the same decoder step on (X', Y')
    E_t,tau  = c_t M c'_tau - lambda beta_{t-1,tau}                   (Eq. 7; `keys` has other content scores)
    q_t      = softmax_tau(E_t)                                       (Eq. 4)
    z~_t     = sum_tau q_t,tau z'_tau
    zeta_t   = sigmoid(f_gate(c_t, z_t, z~_t))
    beta_t   = beta_{t-1} + q_t zeta_t                                beta_0 = 0

Only the chain beta -> q -> zeta -> beta needs a loop over t. The content scores of all steps are one matrix product,
and the gate's projection of z~_t is q_t times the projected values, computed once per sentence.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_seg.modules.keys import Keys
from fairseq_seg.modules.overlap import Overlap, slot_overlap


class Entries(NamedTuple):
    """What the model keeps of the target slots of pairs, whichever sentence they are retrieved for."""

    keys: Tensor  # M c' or another kind's keys, (P, T', K)
    gate_values: Tensor  # the gate's projection of z', (P, T', G)
    values: Tensor | None  # z', (P, T', H), for deep fusion alone
    attention: Tensor | None  # alpha', (P, T', S'), for the overlap alone


class Slots(NamedTuple):
    """The slots of a batch of sentences, S per sentence, padded."""

    keys: Tensor | None  # as in `Entries`, fp32, (B, S, K)
    gate_values: Tensor  # the gate's projection of z', fp32, (B, S, G)
    values: Tensor | None  # z', (B, S, H), for deep fusion alone
    symbols: Tensor  # y', (B, S), the padding symbol where there is no slot
    first: Tensor  # the first of the sentence's slots that hold this symbol, (B, S)
    mask: Tensor  # (B, S), True where there is no slot
    bias: Tensor | None = None  # what the overlap adds to the content scores, fp32, (B, S)


class SlotRead(NamedTuple):
    """What reading the slots gave at T steps, or at one step of a beam of T."""

    weights: Tensor  # q, fp32, (B, T, S)
    gate: Tensor  # f_gate before the sigmoid, fp32, -inf where a sentence has no slot, (B, T)
    symbols: Tensor  # y', (B, S)
    first: Tensor  # as in `Slots`, (B, S)


def first_slots(symbols: Tensor) -> Tensor:
    """Return for each slot the first slot of its sentence that holds the same symbol; (B, S) -> (B, S)."""
    positions = torch.arange(symbols.size(1), device=symbols.device)
    same = symbols.unsqueeze(1) == symbols.unsqueeze(2)
    return torch.where(same, positions, symbols.size(1)).amin(-1)


def lay_out(x: Tensor, places: Tensor) -> Tensor:
    """Return the slots of each sentence from P distinct pairs; x (P, T', ...), places (B, S) -> (B, S, ...).

    A place is the flat position pair * T' + step, or -1 for padding, where the result is undefined.
    """
    flat = x.reshape(-1, *x.shape[2:])
    return flat.index_select(0, places.clamp(min=0).view(-1)).view(*places.shape, *x.shape[2:])


class Gate(nn.Module):
    """f_gate(c, z, z~): one tanh hidden layer, or a linear gate where hidden is 0."""

    def __init__(self, context_size: int, state_size: int, hidden: int, bias: float):
        super().__init__()
        width = hidden or 1
        self.from_context = nn.Linear(context_size, width)
        self.from_state = nn.Linear(state_size, width, bias=False)
        self.from_value = nn.Linear(state_size, width, bias=False)
        self.score = nn.Linear(hidden, 1) if hidden else None
        nn.init.constant_((self.score or self.from_context).bias, bias)

    def query(self, from_context: Tensor, state: Tensor) -> Tensor:
        """Return the part that no slot changes; the projected c (..., G), z (..., H) -> fp32 (..., G)."""
        return (from_context + self.from_state(state)).float()

    def forward(self, query: Tensor, value: Tensor) -> Tensor:
        """Return the gate's logit (...) from the query and the projected z~, both (..., G)."""
        hidden = query + value
        if self.score is None:
            return hidden.squeeze(-1)
        return F.linear(torch.tanh(hidden), self.score.weight.float(), self.score.bias.float()).squeeze(-1)


class SlotReader(nn.Module):
    """The memory's parameters: the kind of keys, the gate, lambda and the overlap; writes slots and reads them."""

    keys: Keys
    trained: Tensor

    def __init__(self, keys: Keys, gate: Gate, coverage_penalty: float, overlap: Overlap | None = None):
        super().__init__()
        self.keys, self.gate, self.overlap = keys, gate, overlap
        self.coverage_penalty = nn.Parameter(torch.full((1,), coverage_penalty))  # lambda
        # Whether these parameters ever learned: a plain translator's checkpoint carries them untouched.
        self.register_buffer("trained", torch.zeros(1, dtype=torch.uint8))

    def write(self, entries: Entries, pairs: dict[str, Tensor], pad: int) -> Slots:
        """Return the slots of B sentences from entries that are laid out by sentence already, (B, S, ...).

        Args:
            pairs: see `guided`. pad: the padding symbol.
        """
        mask = pairs["slots"] < 0
        symbols = pairs["symbols"] if "symbols" in pairs else lay_out(pairs["tokens"], pairs["slots"])
        symbols = symbols.masked_fill(mask, pad)
        keys, gate_values, bias = entries.keys.float(), entries.gate_values.float(), None
        if self.overlap is not None:
            bias, of_gate = self.overlap(slot_overlap(entries.attention, pairs["shared"], pairs["ranks"]))
            gate_values = gate_values + of_gate
        return Slots(keys, gate_values, entries.values, symbols, first_slots(symbols), mask, bias)

    def step(self, scores: Tensor, gate_query: Tensor, coverage: Tensor, slots: Slots) -> tuple[Tensor, Tensor, Tensor]:
        """Read at one step, for one row or a beam of rows per sentence.

        Args:
            scores: content scores, (B, beam, S). gate_query: (B, beam, G). coverage: beta_{t-1}, (B, beam, S).

        Returns:
            q_t (B, beam, S), the gate's logit (B, beam) and beta_t (B, beam, S).
        """
        scores = scores - self.coverage_penalty.float() * coverage  # Eq. 7
        mask = slots.mask.unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(mask, torch.finfo(torch.float32).min), dim=-1)  # Eq. 4
        weights = weights.masked_fill(mask, 0.0)  # matters only where a sentence has no slot at all
        gate = self.gate(gate_query, torch.bmm(weights, slots.gate_values))
        gate = gate.masked_fill(slots.mask.all(-1, keepdim=True), float("-inf"))
        return weights, gate, torch.addcmul(coverage, weights, torch.sigmoid(gate).unsqueeze(-1))

    def forward(self, scores: Tensor, gate_query: Tensor, slots: Slots) -> SlotRead:
        """Read at all T steps of teacher forcing; content scores (B, T, S), gate_query (B, T, G)."""
        if self.training:
            self.trained.fill_(1)
        coverage = torch.zeros_like(scores[:, :1])
        weights, gates = [], []
        for score, gate_part in zip(scores.split(1, dim=1), gate_query.split(1, dim=1), strict=True):
            q, gate, coverage = self.step(score, gate_part, coverage, slots)
            weights.append(q)
            gates.append(gate)
        return SlotRead(torch.cat(weights, dim=1), torch.cat(gates, dim=1), slots.symbols, slots.first)
