"""seg-train: from files of translations to a model folder, in one command."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from fairseq_seg.cli.options import DefaultsFormatter, kinds, positive
from fairseq_seg.corpus.tokens import KINDS
from fairseq_seg.errors import command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    from fairseq_seg.recipes.train import ARCHITECTURES, Settings

    default = Settings()
    parser = argparse.ArgumentParser(
        prog="seg-train",
        description="Train a search-guided translator on the pairs of TMX, XLIFF, PO and tab-separated files or of "
        "parallel text, with the recommended settings, and score it on pairs held out from the training. Rerun a "
        "stopped command to resume.",
        formatter_class=DefaultsFormatter,
    )
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="files, or two texts PREFIX.en PREFIX.fr")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL", help="the model folder to create")
    for side, option in (("source", "-s"), ("target", "-t")):
        help = f"{side} language (default: as the files say)"
        parser.add_argument(option, f"--{side}-lang", metavar="LANG", help=help)
    help = "updates of the training, half of them before the memory is added (default: 8 passes, 2,000 to 40,000)"
    parser.add_argument("--updates", type=positive, metavar="N", help=help)
    help = "subwords per language, at most: small data gets fewer"
    parser.add_argument("--symbols", type=positive, default=default.symbols, metavar="N", help=help)
    parser.add_argument("--arch", choices=ARCHITECTURES, default=default.arch, help="the model")
    help = f"tokens that cannot go wrong: some of {','.join(KINDS)}, or none (default: none)"
    parser.add_argument("--protect", type=kinds, metavar="KINDS", help=help)
    parser.add_argument("--keep", action="store_true", help="keep MODEL.work: the text, trainings, logs and report")
    return parser


@command("seg-train", stopped="stopped. Rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    from fairseq_seg.recipes.train import Settings, train_from_files

    # A plain `kill` stops the trainings as Ctrl-C does: one left behind would write into the folder of the next.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = Settings(
        source=options.source_lang,
        target=options.target_lang,
        updates=options.updates or 0,
        symbols=options.symbols,
        arch=options.arch,
        protect=",".join(options.protect or ()),
    )
    folder = train_from_files(options.files, options.output, settings, options.keep)
    print(
        f"{folder.path} is a model folder, {folder.source_lang} to {folder.target_lang}, for seg-translate and "
        f"Translator. Its scores: {folder.path / 'report.html'}"
    )


if __name__ == "__main__":
    main()
