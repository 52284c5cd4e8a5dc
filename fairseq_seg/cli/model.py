"""seg-model: put a checkpoint and everything it needs into a model folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_seg.cli.options import add_data_bin, add_subword_models
from fairseq_seg.errors import SegError, command


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; all others become the model's defaults."""
    parser = argparse.ArgumentParser(
        prog="seg-model",
        usage="seg-model DATA-BIN --path CHECKPOINT --output MODEL [option ...]",
        description="Copy a checkpoint, dictionaries, subword models and the training set with its index into one "
        "folder, which Translator, seg-explain, seg-cache and fairseq's commands accept.",
        epilog="All other options are options of fairseq-interactive, written with = (--memory-k=2, "
        "--memory-select=adaptive). They become the model's defaults for translation.",
        allow_abbrev=False,
    )
    add_data_bin(parser, "the data-bin that the model was trained on, after seg-attach")
    parser.add_argument("--path", type=Path, required=True, metavar="CHECKPOINT", help="the trained model")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="MODEL", help="the folder to create")
    add_subword_models(parser)
    return parser


def read_options(rest: list[str]) -> dict[str, str | bool]:
    """Parse fairseq's options into a dictionary, keyed by name without dashes."""
    options: dict[str, str | bool] = {}
    for argument in rest:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not name:
            raise SegError(f"{argument} is not an option: write --NAME or --NAME=VALUE.")
        options[name.replace("-", "_")] = value if equals else True
    return options


@command("seg-model")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options, rest = get_parser().parse_known_args(arguments)
    from fairseq_seg.checkpoints import check_checkpoint
    from fairseq_seg.corpus.databin import DataBin
    from fairseq_seg.corpus.model_folder import ModelFolder

    if (options.spm_source is None) != (options.spm_target is None):
        raise SegError("Only one subword model is given: give both --spm-source and --spm-target, or neither.")
    subwords = None if options.spm_source is None else (options.spm_source, options.spm_target)
    data = DataBin(options.data, options.source_lang, options.target_lang)
    check_checkpoint(options.path)
    folder = ModelFolder.create(options.output, data, options.path, subwords, read_options(rest))
    size = sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())
    print(f"{folder.path}: {folder.source_lang}-{folder.target_lang}, {size / 2**20:,.0f} MB")


if __name__ == "__main__":
    main()
