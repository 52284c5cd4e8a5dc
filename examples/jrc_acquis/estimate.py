"""Estimate what the paper's training costs on a GPU, without one: memory and hours, from the model itself.

The model of the paper's sizes runs a training step on torch's meta device, which computes shapes and no numbers. It
counts the parameters, the bytes that the backward pass keeps, the operations (each is at least one launch) and the
floating point operations; the backward pass has twice as many of these two. A step takes as long as its launches or its
arithmetic, whichever is longer. Validation, and what torch's allocator wastes, are not counted.
"""

import argparse
import logging
import sys
from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmark"))  # the examples are scripts, not a package

from pairs import batch_with_pairs  # noqa: E402
from rounds import print_table  # noqa: E402
from translator import seg_criterion, task, vocabulary  # noqa: E402

from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel  # noqa: E402
from fairseq_seg.tasks.presets import resolve  # noqa: E402

BATCH, SYMBOLS = 32, 20_000
LONGEST, USUAL = 80, 34  # symbols of a training sentence: the limit, and the mean of Table 1
PAIRS = 744_528  # English-French


class CountOperations(TorchDispatchMode):
    """Counts operations other than views."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def step(k: int, length: int) -> dict[str, float]:
    """Return the counts of a training step with k pairs per sentence, none of them shared."""
    dictionary = vocabulary(SYMBOLS)
    config = SegGRUConfig()
    resolve(config, "paper")
    model = SegGRUModel.build_model(config, task(dictionary)).to("meta").train()
    batch = batch_with_pairs(Namespace(batch=BATCH, length=length), dictionary, k)
    batch = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, batch)
    kept: dict[int, Tensor] = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage()._cdata] = x
        return x

    with CountOperations() as operations, FlopCounterMode(display=False) as flops:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            seg_criterion(dictionary)(model, batch)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "parameters": parameters,
        # fp32: parameters, gradients and Adam's two averages
        "state": 16 * parameters,
        "kept": sum(x.untyped_storage().nbytes() for x in kept.values()),
        "launches": 3 * operations.count,
        "flops": 3 * flops.get_total_flops(),
    }


def main() -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--microseconds", type=float, default=8, help="per launch (default: 8)")
    options.add_argument("--teraflops", type=float, default=10, help="that the GPU reaches in fp32 (default: 10)")
    options.add_argument("--passes", type=float, default=10, help="over the training set (default: 10)")
    args = options.parse_args()
    logging.disable(logging.INFO)
    rows = []
    for k in (0, 1, 2):
        longest, usual = step(k, LONGEST), step(k, USUAL)
        seconds = max(usual["launches"] * args.microseconds / 1e6, usual["flops"] / args.teraflops / 1e12)
        updates = args.passes * PAIRS / BATCH
        memory = longest["state"] + longest["kept"]
        figures = [f"{usual['launches']:,}", f"{usual['flops'] / 1e12:.2f}", f"{1000 * seconds:.0f}"]
        sizes = [f"{longest['parameters'] / 1e6:.0f} M", f"{longest['kept'] / 1e9:.1f}", f"{memory / 1e9:.1f}"]
        rows.append([k, *sizes, *figures, f"{updates * seconds / 3600:.0f}"])
    heads = f"K | parameters | GB kept for backward, {LONGEST} symbols | GB with Adam | launches per update"
    print_table(f"{heads}, {USUAL} symbols | TFLOP | ms | hours of {args.passes:g} passes", rows)


if __name__ == "__main__":
    main()
