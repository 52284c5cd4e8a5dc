"""Additive attention (Bahdanau et al.), the paper's phi_att and Eq. 2."""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """c_t = sum_tau softmax_tau(v . tanh(W_h h_tau + W_s s_t)) h_tau.

    The projection W_h h of all annotations is made once a sentence (`project`), not once a step.
    """

    def __init__(self, annotation_size: int, query_size: int, attention_size: int):
        super().__init__()
        self.annotation_proj = nn.Linear(annotation_size, attention_size)
        self.query_proj = nn.Linear(query_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def project(self, annotations: Tensor) -> Tensor:
        """annotations (B, S, 2H) -> (B, S, A)."""
        return self.annotation_proj(annotations)

    def forward(self, query: Tensor, annotations: Tensor, projected: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Attend with one query a sentence, or with a beam of queries over the same annotations.

        Args:
            query: (R, H) with R = B * beam rows, those of a sentence next to each other.
            annotations: (B, S, 2H), projected: (B, S, A), mask: (B, S) True at padding.

        Returns:
            context (R, 2H) and weights (R, S).
        """
        batch, size, _ = annotations.shape
        q = self.query_proj(query).view(batch, -1, 1, projected.size(-1))
        scores = self.score(torch.tanh(projected.unsqueeze(1) + q)).squeeze(-1)  # (B, beam, S)
        scores = scores.masked_fill(mask.unsqueeze(1), float("-inf"))
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
        context = torch.bmm(weights, annotations)  # Eq. 2
        return context.view(-1, annotations.size(-1)), weights.view(-1, size)
