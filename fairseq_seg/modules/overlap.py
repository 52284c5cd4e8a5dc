"""Overlap: how much of what a slot was translated from is also in the sentence. Beyond the paper.

    shared_i = whether the sentence X has the symbol at position i of X', by their edit alignment
    m_tau    = sum_i alpha'_tau,i shared_i
    E_t,tau  = the content score + mu m_tau - lambda beta_{t-1,tau}

The gate sees m as one more component of the slots' values. A slot whose source words X lacks ("type of message", where
X is "type of hyperlink") is so told apart from its neighbours: its key alone does not say that its word was replaced.
"""

import torch
from torch import Tensor, nn

START = 4.0  # mu at first: Adam moves a single number by at most the learning rate per step, so it cannot start at 0


def slot_overlap(attention: Tensor, shared: Tensor, ranks: Tensor) -> Tensor:
    """Return the overlap of each slot with its sentence, (B, S), fp32.

    Args:
        attention: alpha' of each slot, (B, S, S'). shared: of each sentence and rank, (B, R, S').
        ranks: the rank of each slot's pair, (B, S), -1 at padding, where the result is undefined.
    """
    width = shared.size(-1)
    shared = shared.gather(1, ranks.clamp(min=0).unsqueeze(-1).expand(-1, -1, width))
    return (attention[..., :width].float() * shared).sum(-1)


class Overlap(nn.Module):
    """The overlap's parameters: mu, its weight in the score, and its component of the gate; gate_size: G."""

    def __init__(self, gate_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), START))
        self.gate = nn.Linear(1, gate_size, bias=False)

    def forward(self, overlap: Tensor) -> tuple[Tensor, Tensor]:
        """Return what slots (B, S) add to their scores (B, S) and to their gate values (B, S, G), fp32."""
        return self.weight.float() * overlap, overlap.unsqueeze(-1) * self.gate.weight.float().squeeze(-1)
