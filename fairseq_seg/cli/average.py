"""seg-average: average the parameters of checkpoints of one training run; the wheel of fairseq has no such command."""

import argparse
import re
from pathlib import Path
from typing import Any

from fairseq_seg.errors import SegError, command
from fairseq_seg.files import write_whole

EPOCH_CHECKPOINT = re.compile(r"checkpoint(\d+)\.pt")
UPDATE_CHECKPOINT = re.compile(r"checkpoint_\d+_(\d+)\.pt")


def last_checkpoints(folder: Path, pattern: re.Pattern[str], count: int) -> list[Path]:
    """Return the `count` latest checkpoints of `folder` by the number in their name, oldest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    if not 0 < count <= len(found):
        raise SegError(f"{folder} holds {len(found)} such checkpoints, so the last {count} cannot be averaged.")
    return [path for _, path in sorted(found)[-count:]]


def average(inputs: list[Path]) -> dict[str, Any]:
    """Return the last of the checkpoints with the mean of all parameters and without its optimizer.

    The sum runs in double precision, so that neither the order nor half precision costs digits; what is not a floating
    point number (a counter, say) is kept from the last checkpoint.
    """
    from tqdm import tqdm

    from fairseq_seg.checkpoints import load_state

    total: dict[str, Any] = {}
    for path in tqdm(inputs, desc="averaging", unit=" checkpoints"):
        state = load_state(path)
        shapes = {name: value.shape for name, value in state["model"].items()}
        if total and shapes != {name: value.shape for name, value in total.items()}:
            raise SegError(f"{path} has other parameters than {inputs[0]}; average checkpoints of one training run.")
        for name, value in state["model"].items():
            total[name] = value.double() + total.get(name, 0)
    for name, value in state["model"].items():
        if value.is_floating_point():
            state["model"][name] = (total[name] / len(inputs)).to(value.dtype)
    # The optimizer's moments belong to the last parameters, not to the mean, and are two thirds of the file.
    state["last_optimizer_state"] = None
    return state


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(prog="seg-average", description="Average the parameters of fairseq checkpoints.")
    parser.add_argument(
        "--inputs", type=Path, nargs="+", required=True, metavar="PATH", help="checkpoints, or one folder of them"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="where to write the averaged model")
    last = parser.add_mutually_exclusive_group()
    last.add_argument("--num-epoch-checkpoints", type=int, metavar="N", help="the last N checkpointE.pt of the folder")
    last.add_argument(
        "--num-update-checkpoints", type=int, metavar="N", help="the last N checkpoint_E_U.pt of the folder"
    )
    return parser


def choose_inputs(options: argparse.Namespace) -> list[Path]:
    """Return the checkpoints that the options name."""
    for count, pattern in (
        (options.num_epoch_checkpoints, EPOCH_CHECKPOINT),
        (options.num_update_checkpoints, UPDATE_CHECKPOINT),
    ):
        if count is not None:
            if len(options.inputs) != 1:
                raise SegError("--num-epoch-checkpoints and --num-update-checkpoints take one folder as --inputs.")
            return last_checkpoints(options.inputs[0], pattern, count)
    return options.inputs


def save_whole(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint beside `path`, and give it its name only when all has been written."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as stream:
        torch.save(state, stream)


@command("seg-average")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    save_whole(average(choose_inputs(options)), options.output)


if __name__ == "__main__":
    main()
