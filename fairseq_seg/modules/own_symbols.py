"""Reserved symbols that a translation may have: those whose kind and number its source has."""

import torch
from torch import Tensor, nn


class OwnSymbols(nn.Module):
    """Keeps reserved symbols of other sentences out of a translation.

    Args:
        of_source: the key (kind and number) of each source symbol, (V,), -1 where it is not reserved.
        of_target: the same for the target's symbols, (V',).
    """

    of_source: Tensor
    ids: Tensor
    keys: Tensor

    def __init__(self, of_source: Tensor, of_target: Tensor):
        super().__init__()
        ids = torch.nonzero(of_target >= 0).squeeze(1)
        self.count = int(torch.cat([of_source, of_target]).max()) + 1
        # Not in checkpoints: the dictionaries say it all.
        self.register_buffer("of_source", of_source.where(of_source >= 0, self.count), persistent=False)
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("keys", of_target[ids], persistent=False)

    def forward(self, source: Tensor) -> Tensor:
        """Return which of the R reserved target symbols each sentence lacks; (B, S) -> (B, R), bool."""
        present = torch.zeros(source.size(0), self.count + 1, dtype=torch.bool, device=source.device)
        present = present.scatter(1, self.of_source[source], True)
        return ~present.index_select(1, self.keys)

    def mask(self, log_p: Tensor, lacking: Tensor) -> Tensor:
        """Return log probabilities (B * beam, T, V) with -inf at symbols that a sentence lacks, (B, R)."""
        beam = log_p.size(0) // lacking.size(0)
        lacking = lacking.repeat_interleave(beam, dim=0).unsqueeze(1)
        own = log_p.index_select(-1, self.ids).masked_fill(lacking, float("-inf"))
        return log_p.index_copy(-1, self.ids, own)
