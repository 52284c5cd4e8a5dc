"""Print the folder of the installed package, for --user-dir "$(python -m fairseq_seg)", or its options of fairseq."""

import argparse
from pathlib import Path

from fairseq_seg.errors import command


@command("python -m fairseq_seg")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_seg", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="options")
    options = commands.add_parser("options", help="list the options that the plugin adds to fairseq's commands")
    options.add_argument("--update", type=Path, metavar="FILE", help="write them into this page of the documentation")
    args = parser.parse_args()
    if args.command is None:
        print(Path(__file__).resolve().parent)
        return
    from fairseq_seg.cli.fairseq_options import describe, update

    if args.update:
        update(args.update)
    else:
        print(describe(), end="")


main()
