"""Additive attention (Bahdanau et al.), the paper's phi_att."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AdditiveAttention(nn.Module):
    """alpha_t,tau = softmax_tau(v . tanh(W_h h_tau + W_s s_t)).

    The projection W_h h of all annotations is computed once per sentence (`project`), not at every step.
    """

    def __init__(self, annotation_size: int, query_size: int, attention_size: int):
        super().__init__()
        self.annotation_proj = nn.Linear(annotation_size, attention_size)
        self.query_proj = nn.Linear(query_size, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def project(self, annotations: Tensor) -> Tensor:
        """Return W_h h; annotations (B, S, 2H) -> (B, S, A)."""
        return self.annotation_proj(annotations)

    @staticmethod
    def exponential(projection: Tensor) -> Tensor:
        """Return e^2x in fp32, for `quick`; |x| above 40 counts as 40, because fp32 ends near e^88."""
        return torch.exp(2 * projection.float().clamp(-40, 40))

    def quick(self, query: Tensor, exponential: Tensor, mask: Tensor) -> Tensor:
        """Attend as `forward` does, without gradients and with no tanh of all positions at every step.

        tanh(x + y) = 1 - 2 / (1 + e^2x e^2y), where e^2x, `exponential` of W_h h (B, S, A), needs no step.
        The 1 adds the same to the scores of all positions, so the softmax does not need it.
        """
        query = self.exponential(query).view(exponential.size(0), -1, 1, query.size(-1))
        hidden = (exponential.unsqueeze(1) * query).add_(1).reciprocal_()
        scores = F.linear(hidden, -2 * self.score.weight.float()).squeeze(-1)
        scores = scores.masked_fill(mask.unsqueeze(1), float("-inf"))
        return torch.softmax(scores, dim=-1).type_as(self.score.weight)

    def forward(self, query: Tensor, projected: Tensor, mask: Tensor) -> Tensor:
        """Attend with one query per sentence, or with a beam of queries over the same annotations.

        Args:
            query: W_s s_t, (R, A) with R = B * beam rows, those of a sentence next to each other.
            projected: W_h h, (B, S, A). mask: (B, S), True at padding.

        Returns:
            weights alpha, (B, beam, S).
        """
        query = query.view(projected.size(0), -1, 1, query.size(-1))
        hidden = (projected.unsqueeze(1) + query).tanh_()  # in place: no other tensor of a step is as large
        scores = self.score(hidden).squeeze(-1)
        scores = scores.masked_fill(mask.unsqueeze(1), float("-inf"))
        return torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
