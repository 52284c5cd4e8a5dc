"""A plain translator whose output distribution is mixed with its nearest neighbours."""

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor, nn

from fairseq_seg.models.guided import GuidedModel
from knn_mt.datastore import Datastore
from knn_mt.mixture import mix


def remember_states(model: GuidedModel) -> list[Tensor]:
    """Return a list that holds the states z (B, beam, H) of the translator's last beam step.

    Any translator has `step`; none gives its states to fairseq.
    """
    last: list[Tensor] = []
    step = model.guided.translator.step

    def remembering(*arguments):
        state, passed = step(*arguments)
        last[:] = [passed.states]
        return state, passed

    object.__setattr__(model.guided.translator, "step", remembering)
    return last


class NeighbourModel(FairseqEncoderDecoderModel):
    """The same encoder and decoder; beam search asks the model, not the decoder, for probabilities.

    Args:
        combine: (distances, symbols), both (N, K), to `Shares`.
        neighbours: K.
    """

    def __init__(self, model: GuidedModel, store: Datastore, combine: nn.Module, neighbours: int):
        super().__init__(model.encoder, model.decoder)
        self.store, self.combine, self.neighbours = store, combine, neighbours
        self.states = remember_states(model)

    def get_normalized_probs(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Return the mixture (R, 1, V) of one beam step."""
        log_p = super().get_normalized_probs(net_output, True, sample)
        states = self.states[0].flatten(0, 1).float().cpu().numpy()
        found = [torch.from_numpy(x) for x in self.store.search(states, self.neighbours)]
        distances, symbols = found[0].float(), found[1].long()
        with torch.no_grad():
            shares = self.combine(distances, symbols)
        mixed = mix(log_p.squeeze(1).cpu(), shares, symbols).to(log_p.device).unsqueeze(1)
        return mixed if log_probs else mixed.exp()
