"""Parts that the command lines share: option types, and a help text that shows defaults."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Read an option that must be a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above zero")
    return int(text)


def add_data_bin(parser: argparse.ArgumentParser, help: str) -> None:
    """Add a data-bin and its translation direction."""
    parser.add_argument("data", metavar="DATA-BIN", help=help)
    parser.add_argument("-s", "--source-lang", help="source language (default: the first of the data-bin)")
    parser.add_argument("-t", "--target-lang", help="target language (default: the second of the data-bin)")


def add_subword_models(parser: argparse.ArgumentParser) -> None:
    """Add the sentencepiece models of both languages."""
    for side in ("source", "target"):
        help = f"sentencepiece model of the {side} language; without it, texts must be symbols separated by spaces"
        parser.add_argument(f"--spm-{side}", type=Path, metavar="FILE", help=help)


class DefaultsFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # None, a flag that is off, an empty string and an empty list are not worth showing.
        shown = action.default not in (None, "", []) and action.default is not False
        return super()._get_help_string(action) if shown else action.help
