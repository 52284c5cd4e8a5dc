"""seg-average: average the checkpoints of one training run, for which fairseq's wheel has no command."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(prog="seg-average", description="Average the parameters of fairseq checkpoints.")
    parser.add_argument(
        "inputs", type=Path, nargs="*", metavar="PATH", help="checkpoints, or one folder: all its numbered checkpoints"
    )
    help = "the same paths, as fairseq's own script takes them"
    parser.add_argument("--inputs", type=Path, nargs="+", default=[], dest="named", metavar="PATH", help=help)
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="file to write the averaged model to"
    )
    last = parser.add_mutually_exclusive_group()
    last.add_argument(
        "--num-epoch-checkpoints", type=int, metavar="N", help="average the last N checkpointE.pt in the folder"
    )
    last.add_argument(
        "--num-update-checkpoints", type=int, metavar="N", help="average the last N checkpoint_E_U.pt in the folder"
    )
    return parser


@command("seg-average")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    from fairseq_seg.averaging import EPOCH, UPDATE, average_checkpoints, last_checkpoints, save_checkpoint

    inputs = options.inputs + options.named
    count, pattern = options.num_epoch_checkpoints, EPOCH
    if options.num_update_checkpoints is not None:
        count, pattern = options.num_update_checkpoints, UPDATE
    if not inputs:
        raise SegError("Nothing to average: name checkpoints or one folder.")
    if count is not None and len(inputs) != 1:
        raise SegError("--num-epoch-checkpoints and --num-update-checkpoints need exactly one folder as --inputs.")
    if count is not None or (len(inputs) == 1 and inputs[0].is_dir()):
        inputs = last_checkpoints(inputs[0], None if count is None else pattern, count)
    save_checkpoint(average_checkpoints(inputs), options.output)


if __name__ == "__main__":
    main()
