"""How nearest neighbours enter the output distribution: vanilla and adaptive kNN-MT.

    d_1 <= ... <= d_K    squared distances from z_t to its nearest keys, v_1 ... v_K their symbols
    vanilla   p = lambda p_k + (1 - lambda) p_nmt,      p_k(y) = sum_{j <= k, v_j = y} softmax_{j <= k}(-d_j / T)
    adaptive  p = sum_{k in S} m_k p_k,                 S = {0, 1, 2, 4, ..., K}, p_0 = p_nmt, m = meta-k network

Vanilla is Eq. 2 and 3 of Khandelwal et al. (ICLR 2021), adaptive Eq. 4 to 6 of Zheng et al. (ACL 2021). Both are a
share of p_nmt and one weight per neighbour, which is how they are computed here.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Shares(NamedTuple):
    """How much of N distributions comes from the translator, and how much from each of K neighbours."""

    of_nmt: Tensor  # (N,)
    of_neighbours: Tensor  # (N, K)


def closeness(distances: Tensor, k: int, temperature: float) -> Tensor:
    """Return softmax(-d / T) over the first k of K neighbours, 0 for the others; (N, K) -> (N, K)."""
    beyond = torch.arange(distances.size(-1)) >= k
    return torch.softmax((-distances / temperature).masked_fill(beyond, float("-inf")), dim=-1)


class Vanilla(nn.Module):
    """A fixed k, temperature T and weight lambda."""

    def __init__(self, k: int, temperature: float, weight: float):
        super().__init__()
        self.k, self.temperature, self.weight = k, temperature, weight

    def forward(self, distances: Tensor, symbols: Tensor) -> Shares:
        of_nmt = torch.full_like(distances[:, 0], 1 - self.weight)
        return Shares(of_nmt, self.weight * closeness(distances, self.k, self.temperature))


class MetaK(nn.Module):
    """The meta-k network: one hidden layer over the distances and the number of distinct symbols up to each neighbour.

    Distances are divided by T first: those of other translators' states have other sizes.
    """

    def __init__(self, neighbours: int, temperature: float, hidden: int = 32):
        super().__init__()
        self.temperature = temperature
        self.choices = [0, *(2**n for n in range(neighbours.bit_length()) if 2**n <= neighbours)]
        self.hidden = nn.Linear(2 * neighbours, hidden)
        self.score = nn.Linear(hidden, len(self.choices))
        nn.init.xavier_normal_(self.hidden.weight, gain=0.01)

    def forward(self, distances: Tensor, symbols: Tensor) -> Shares:
        features = torch.cat([distances / self.temperature, distinct(symbols).type_as(distances)], dim=-1)
        chosen = torch.softmax(self.score(torch.tanh(self.hidden(features))), dim=-1)  # m
        close = torch.stack([closeness(distances, k, self.temperature) for k in self.choices[1:]], dim=1)
        return Shares(chosen[:, 0], torch.einsum("nc,nck->nk", chosen[:, 1:], close))


def distinct(symbols: Tensor) -> Tensor:
    """Return how many distinct symbols there are among the first 1, 2, ... K; (N, K) -> (N, K)."""
    same = symbols.unsqueeze(1) == symbols.unsqueeze(2)  # (N, K, K)
    return (~same.tril(-1).any(-1)).cumsum(-1)


def mix(log_p: Tensor, shares: Shares, symbols: Tensor) -> Tensor:
    """Return the log of the mixture of p_nmt (N, V), given as log, with neighbours' symbols (N, K)."""
    mixed = log_p.exp() * shares.of_nmt.unsqueeze(-1)
    return mixed.scatter_add_(-1, symbols, shares.of_neighbours.type_as(mixed)).log()


def target_probability(p: Tensor, shares: Shares, symbols: Tensor, target: Tensor) -> Tensor:
    """Return the mixture at the target symbols alone; p_nmt(target) and target (N,) -> (N,)."""
    same = symbols == target.unsqueeze(-1)
    return shares.of_nmt * p + (shares.of_neighbours * same).sum(-1)
