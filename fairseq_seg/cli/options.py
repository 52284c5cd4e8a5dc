"""Parts that the command lines share: option types, and a help text that shows defaults."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_seg.corpus.tokens import KINDS


def positive(text: str) -> int:
    """Read an option that must be a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above zero")
    return int(text)


def kinds(text: str) -> tuple[str, ...]:
    """Read --protect: kinds of tokens, separated by commas, in the order of `KINDS`."""
    named = {kind.strip() for kind in text.split(",")} - {"", "none"}
    if unknown := named - set(KINDS):
        raise argparse.ArgumentTypeError(f"'{min(unknown)}' is not one of {', '.join(KINDS)}, none")
    return tuple(kind for kind in KINDS if kind in named)


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
