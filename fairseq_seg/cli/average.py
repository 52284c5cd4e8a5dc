"""seg-average: average the checkpoints of one training run, for which fairseq's wheel has no command."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(prog="seg-average", description="Average the parameters of fairseq checkpoints.")
    parser.add_argument(
        "--inputs", type=Path, nargs="+", required=True, metavar="PATH", help="checkpoint files, or one folder"
    )
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
    from fairseq_seg.averaging import (
        EPOCH,
        UPDATE,
        all_checkpoints,
        average_checkpoints,
        last_checkpoints,
        save_checkpoint,
    )

    inputs = options.inputs
    if len(inputs) == 1 and inputs[0].is_dir():
        inputs = all_checkpoints(inputs[0])
    for count, pattern in ((options.num_epoch_checkpoints, EPOCH), (options.num_update_checkpoints, UPDATE)):
        if count is not None:
            if len(options.inputs) != 1:
                raise SegError(
                    "--num-epoch-checkpoints and --num-update-checkpoints need exactly one folder as --inputs."
                )
            inputs = last_checkpoints(options.inputs[0], pattern, count)
    save_checkpoint(average_checkpoints(inputs), options.output)


if __name__ == "__main__":
    main()
