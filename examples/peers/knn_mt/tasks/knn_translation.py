"""The task `knn_translation`: a plain translator, mixed with nearest neighbours when it translates."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from torch import nn

from fairseq_seg.errors import SegError, hook
from fairseq_seg.tasks.seg_translation import SegTranslationConfig, SegTranslationTask
from knn_mt.datastore import Datastore
from knn_mt.mixture import MetaK, Vanilla
from knn_mt.model import NeighbourModel

FITTED, META = "fitted.json", "meta.pt"


@dataclass
class KNNTranslationConfig(SegTranslationConfig):
    """The options of kNN-MT."""

    memory_k: int = 0
    knn_store: str = field(default="", metadata={"help": "the datastore, made by examples/peers/knn.py"})
    knn: ChoiceEnum(["vanilla", "adaptive"]) = field(  # type: ignore[valid-type]
        default="vanilla",
        metadata={"help": "fixed weight and number of neighbours, or the meta-k network (Zheng et al., 2021)"},
    )


@register_task("knn_translation", dataclass=KNNTranslationConfig)
class KNNTranslationTask(SegTranslationTask):
    """Translation with nearest neighbours."""

    @hook
    def build_generator(self, models, args, *more, **kwargs):
        """Return fairseq's generator over the mixture."""
        if self.cfg.memory_k or len(models) > 1 or not self.cfg.knn_store:
            raise SegError("kNN-MT needs --knn-store, one checkpoint, and no --memory-k.")
        folder = Path(self.cfg.knn_store)
        [checkpoint] = utils.split_paths(self.cfg.checkpoints)
        store = Datastore.load(folder, Path(checkpoint))
        combine, neighbours = load_combination(folder, str(self.cfg.knn))
        mixed = [NeighbourModel(model, store, combine, neighbours).eval() for model in models]
        return super().build_generator(mixed, args, *more, **kwargs)


def load_combination(folder: Path, kind: str) -> tuple[nn.Module, int]:
    """Return what was fitted for a datastore, and its number of neighbours."""
    try:
        fitted = json.loads((folder / FITTED).read_text(encoding="utf-8"))
        state = torch.load(folder / META, weights_only=True)
    except (OSError, ValueError):
        raise SegError(f"{folder} was not fitted: run examples/peers/knn.py again.") from None
    if kind == "vanilla":
        return Vanilla(fitted["k"], fitted["temperature"], fitted["weight"]), fitted["neighbours"]
    network = MetaK(fitted["neighbours"], fitted["temperature"])
    network.load_state_dict(state)
    return network.eval(), fitted["neighbours"]
