"""The bidirectional GRU encoder: source symbols to annotations h."""

import torch
from torch import Tensor, nn


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """Return True where a right-padded row has no symbol; lengths (B,) -> (B, size)."""
    return torch.arange(size, device=lengths.device) >= lengths.unsqueeze(1)


def reverse_by_length(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the real part of each right-padded row; x (B, S, D), lengths (B,) -> (B, S, D). Its own inverse.

    `pack_padded_sequence` does this too, but needs the lengths on the host: a sync on every batch.
    """
    positions = torch.arange(x.size(1), device=x.device)
    mirrored = lengths.unsqueeze(1) - 1 - positions
    index = torch.where(mirrored >= 0, mirrored, positions)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))


class BiGRU(nn.Module):
    """Two GRUs over right-padded rows, one from each end."""

    def __init__(self, input_size: int, units: int):
        super().__init__()
        self.forwards = nn.GRU(input_size, units, batch_first=True)
        self.backwards = nn.GRU(input_size, units, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return states (B, S, 2H), meaningless at padding; x (B, S, E), lengths (B,)."""
        left_to_right, _ = self.forwards(x)
        right_to_left, _ = self.backwards(reverse_by_length(x, lengths))
        return torch.cat([left_to_right, reverse_by_length(right_to_left, lengths)], dim=-1)
