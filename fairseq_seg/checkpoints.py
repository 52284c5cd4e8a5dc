"""Loads fairseq checkpoints under current torch with its protection left on.

torch >= 2.6 unpickles a checkpoint only if every class in it is on a list. A fairseq checkpoint holds a handful of
harmless ones besides tensors; exactly these are listed here.
"""

from __future__ import annotations

import argparse
import codecs
import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fairseq_seg.errors import SegError

if TYPE_CHECKING:
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

# What torch raises for a file that is cut short or is something else.
DAMAGED = (pickle.UnpicklingError, EOFError, RuntimeError, LookupError, TypeError, ValueError, AttributeError)


def allow_fairseq_checkpoints() -> None:
    """Allow-list what a fairseq checkpoint holds besides tensors and plain containers."""
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            codecs.encode,
            # numpy arrays and scalars: the iterator's and the meters' state
            np.ndarray,
            np.dtype,
            np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
            np._core.multiarray.scalar,  # type: ignore[attr-defined]
            *(type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_)),
        ]
    )


def load_state(path: str | Path, mmap: bool = False) -> dict[str, Any]:
    """Load the contents of a fairseq checkpoint to the CPU; with `mmap`, a tensor is read only when it is used."""
    allow_fairseq_checkpoints()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except DAMAGED:
        state = None
    if not isinstance(state, dict) or "model" not in state:
        raise SegError(f"{path} is not a fairseq checkpoint, or it was cut short.")
    return state


def check_checkpoint(path: str | Path) -> None:
    """Refuse a missing file, and one that is not a fairseq checkpoint, without reading its tensors."""
    try:
        with open(path, "rb") as file:
            zipped = zipfile.is_zipfile(file)  # torch cannot map the format that it wrote before version 1.6
        load_state(path, mmap=zipped)
    except OSError:
        raise SegError(f"The checkpoint {path} does not exist or cannot be read.") from None


def load_model(path: str | Path, task: SegTranslationTask, cfg) -> tuple[Any, Any]:
    """Load a model that has a memory, ready to translate, and the configuration that it was trained with.

    Args:
        cfg: fairseq's whole configuration, which says about device and number type.
    """
    from fairseq import checkpoint_utils

    check_checkpoint(path)
    try:
        [model], saved = checkpoint_utils.load_model_ensemble([str(path)], task=task)
    except DAMAGED:
        raise SegError(f"{path} is not a fairseq checkpoint, or it was cut short.") from None
    if not hasattr(model, "guided"):
        raise SegError(f"{path} is not a model of this plugin: it has no memory.")
    if cfg.common.fp16:
        model.half()
    if torch.cuda.is_available() and not cfg.common.cpu:
        model.cuda()
    model.eval()
    model.prepare_for_inference_(cfg)  # after which model.eval() returns None
    return model, saved
