"""The conditional GRU decoder cell: two GRU steps with attention between them.

    s_t = GRU1(emb(y_{t-1}), z_{t-1})
    c_t = attention(s_t, h)                      (Eq. 2)
    z_t = GRU2(c_t, s_t)

Nothing here reads the memory: z_t depends on z_{t-1}, y_{t-1} and c_t alone. So the same cell, run over retrieved
pairs, gives the keys c' and values z' of their slots.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_seg.modules.attention import AdditiveAttention
from fairseq_seg.modules.loop import LoopMatrix, begin_loop


class Annotations(NamedTuple):
    """A batch of encoded source sentences, all that the cell needs to know of them."""

    states: Tensor  # h, (B, S, 2H)
    projected: Tensor | None  # W_h h, (B, S, A), with gradients
    exponential: Tensor | None  # e^(2 W_h h), (B, S, A), without gradients: see `AdditiveAttention.quick`
    second_input: Tensor  # GRU2's projection of h, (B, S, 3H); that of c_t is its weighted sum
    mask: Tensor  # (B, S), True at padding
    start: Tensor  # z_0, (B, H)

    def context(self, weights: Tensor) -> Tensor:
        """Return c = sum_tau alpha_tau h_tau (Eq. 2); weights alpha (B, T, S) -> (B, T, 2H)."""
        return torch.bmm(weights, self.states)


class Maps(NamedTuple):
    """The products of a decoder step with something that is the same at all steps."""

    first_state: Callable[[Tensor], Tensor]  # (R, H) -> (R, 3H)
    query: Callable[[Tensor], Tensor]  # W_s s, (R, H) -> (R, A)
    second_input: Callable[[Tensor], Tensor]  # weights (B, beam, S) -> GRU2's projection of c_t, (B, beam, 3H)
    second_state: Callable[[Tensor], Tensor]  # (R, H) -> (R, 3H)


def gru_update(from_input: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """Return the next state of a GRU from its two projections (R, 3H), gates in torch's order r, u, n; state (R, H)."""
    units = state.size(-1)
    input_gates, input_new = from_input.split([2 * units, units], dim=-1)
    state_gates, state_new = from_state.split([2 * units, units], dim=-1)
    reset, update = torch.sigmoid(input_gates + state_gates).chunk(2, dim=-1)
    new = torch.tanh(torch.addcmul(input_new, reset, state_new))
    return torch.lerp(new, state, update)  # (1 - u) n + u z


class ConditionalGRU(nn.Module):
    """The decoder's recurrence over embeddings of size E, annotations of size 2H, states of size H."""

    def __init__(self, embedding_size: int, annotation_size: int, units: int, attention_size: int):
        super().__init__()
        self.units = units
        self.start = nn.Linear(annotation_size, units)
        self.first_input = nn.Linear(embedding_size, 3 * units)
        self.first_state = nn.Linear(units, 3 * units)
        self.attention = AdditiveAttention(annotation_size, units, attention_size)
        self.second_input = nn.Linear(annotation_size, 3 * units)
        self.second_state = nn.Linear(units, 3 * units)

    def annotate(self, states: Tensor, mask: Tensor) -> Annotations:
        """Prepare encoder states (B, S, 2H) with their padding mask (B, S) for decoding."""
        real = (~mask).unsqueeze(-1).type_as(states)
        mean = (states * real).sum(1) / real.sum(1).clamp(min=1)
        projected = self.attention.project(states)
        trained = torch.is_grad_enabled()
        return Annotations(
            states=states,
            projected=projected if trained else None,
            exponential=None if trained else self.attention.exponential(projected),
            second_input=self.second_input(states),  # its bias is right in the weighted sum: the weights sum to one
            mask=mask,
            start=torch.tanh(self.start(mean)),
        )

    def plain(self, annotations: Annotations) -> Maps:
        """Return the matrices of a step, for decoding step by step."""
        return Maps(
            self.first_state,
            self.attention.query_proj,
            lambda weights: torch.bmm(weights, annotations.second_input),
            self.second_state,
        )

    def looped(self, annotations: Annotations) -> tuple[Maps, Tensor]:
        """Return the same matrices for teacher forcing over all steps, and the first state of that loop."""
        matrices = [
            LoopMatrix(linear.weight.t(), linear.bias)
            for linear in (self.first_state, self.attention.query_proj, self.second_state)
        ]
        matrices.insert(2, LoopMatrix(annotations.second_input))
        return Maps(*matrices), begin_loop(annotations.start, matrices)

    def step(self, from_input: Tensor, state: Tensor, annotations: Annotations, maps: Maps) -> tuple[Tensor, Tensor]:
        """Take one step for R = B * beam rows, those of a sentence next to each other.

        Args:
            from_input: `first_input(emb(y_{t-1}))`, (R, 3H).
            state: z_{t-1}, (R, H).
            maps: `plain` or `looped`.

        Returns:
            z_t (R, H) and the attention weights (B, beam, S), from which `Annotations.context` computes c_t.
        """
        intermediate = gru_update(from_input, maps.first_state(state), state)
        query = maps.query(intermediate)
        if annotations.projected is not None:
            weights = self.attention(query, annotations.projected, annotations.mask)
        else:
            weights = self.attention.quick(query, annotations.exponential, annotations.mask)
        from_context = maps.second_input(weights).view(state.size(0), -1)
        return gru_update(from_context, maps.second_state(intermediate), intermediate), weights

    def forward(self, embeddings: Tensor, annotations: Annotations) -> tuple[Tensor, Tensor, Tensor]:
        """Run over all steps of embeddings (B, T, E): teacher forcing.

        Returns:
            states z (B, T, H), contexts c (B, T, 2H), attention weights (B, T, S).
        """
        from_inputs = self.first_input(embeddings)
        # Both give the same. Under autocast, where products have another type than the weights, torch has to see the
        # products itself.
        fast = torch.is_grad_enabled() and from_inputs.dtype == self.first_input.weight.dtype
        maps, state = self.looped(annotations) if fast else (self.plain(annotations), annotations.start)
        steps = []
        for from_input in from_inputs.unbind(1):
            state, weights = self.step(from_input, state, annotations, maps)
            steps.append((state.unsqueeze(1), weights))
        states, weights = (torch.cat(column, dim=1) for column in zip(*steps, strict=True))
        return states, annotations.context(weights), weights


class Readout(nn.Module):
    """logits = W_o tanh(W_z z_t + W_y emb(y_{t-1}) + W_c c_t)     (Eq. 1, no maxout)."""

    def __init__(self, units: int, embedding_size: int, annotation_size: int, dropout: float):
        super().__init__()
        self.from_state = nn.Linear(units, embedding_size)
        self.from_embedding = nn.Linear(embedding_size, embedding_size, bias=False)
        self.from_context = nn.Linear(annotation_size, embedding_size, bias=False)
        self.dropout = dropout

    def forward(self, state: Tensor, embedding: Tensor, from_context: Tensor, output: Tensor) -> Tensor:
        """Return logits (B, T, V); state (B, T, H), embedding and W_c c_t (B, T, E), output embeddings (V, E)."""
        hidden = torch.tanh(self.from_state(state) + self.from_embedding(embedding) + from_context)
        return F.linear(F.dropout(hidden, self.dropout, self.training), output)
