"""The mean of the parameters of checkpoints of one training run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from fairseq_seg.checkpoints import load_state
from fairseq_seg.errors import SegError
from fairseq_seg.files import write_whole

# Names of checkpoints that fairseq writes after an epoch and after some updates.
EPOCH = re.compile(r"checkpoint(\d+)\.pt")
UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")


def last_checkpoints(folder: Path, pattern: re.Pattern[str] | None = None, count: int | None = None) -> list[Path]:
    """Return the `count` latest checkpoints of a folder by the number in their name, oldest first.

    Without a count, return all of them. Without a pattern, take those of epochs or, without any, those of updates.
    """
    matches = ((path, (pattern or EPOCH).fullmatch(path.name)) for path in folder.iterdir())
    found = sorted((int(match[1]), path) for path, match in matches if match)
    if not found and pattern is None:
        return last_checkpoints(folder, UPDATE)
    if not found and count is None:
        raise SegError(f"{folder} holds no numbered checkpoints (checkpoint3.pt, checkpoint_3_1500.pt): name files.")
    if count is not None and not 0 < count <= len(found):
        raise SegError(f"{folder} holds {len(found)} such checkpoints, so the last {count} cannot be averaged.")
    return [path for _, path in found[-(count or 0) :]]


def average_checkpoints(inputs: list[Path]) -> dict[str, Any]:
    """Return the last of the checkpoints with the mean of all parameters and without its optimizer.

    The sum runs in double precision, so that neither the order nor half precision costs digits; what is not a floating
    point number (a counter, say) is kept from the last checkpoint.
    """
    total: dict[str, Any] = {}
    for path in tqdm(inputs, desc="averaging", unit=" checkpoints"):
        state = load_state(path)
        shapes = {name: value.shape for name, value in state["model"].items()}
        if total and shapes != {name: value.shape for name, value in total.items()}:
            raise SegError(f"{path} has other parameters than {inputs[0]}: average checkpoints of one training run.")
        for name, value in state["model"].items():
            total[name] = value.double() + total.get(name, 0)
    for name, value in state["model"].items():
        if value.is_floating_point():
            state["model"][name] = (total[name] / len(inputs)).to(value.dtype)
    # The optimizer's moments belong to the last parameters, not to the mean, and are two thirds of the file.
    state["last_optimizer_state"] = None
    return state


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as stream:
        torch.save(state, stream)
