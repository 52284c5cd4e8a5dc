"""seg-subword: train a sentencepiece BPE model, and encode or decode text with it.

The model numbers its symbols exactly as fairseq does (<s>, <pad>, </s>, <unk>, then the pieces), so you can pass
``PREFIX.dict.txt`` to ``fairseq-preprocess --srcdict/--tgtdict`` and ``PREFIX.model`` to ``--bpe sentencepiece
--sentencepiece-model``. Text is not normalized: decoding gives it back to the letter, except that any run of white
space, no-break spaces included, becomes one space.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.cli.options import kinds
from fairseq_seg.corpus.tokens import KINDS
from fairseq_seg.errors import command


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="seg-subword", description="Train a sentencepiece BPE model for fairseq, and apply it."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    training = commands.add_parser("train", help="train a model; write PREFIX.model and PREFIX.dict.txt")
    training.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="plain text, UTF-8")
    training.add_argument("--model", type=Path, required=True, metavar="PREFIX", help="prefix of the files to write")
    help = "number of symbols, including fairseq's four special ones"
    training.add_argument("--vocab-size", type=int, required=True, metavar="N", help=help)
    help = f"tokens that become reserved symbols, and so cannot go wrong: some of {','.join(KINDS)}, or none"
    training.add_argument("--protect", type=kinds, default=(), metavar="KINDS", help=help)
    help = "language of the text, which says how numbers are written (default: the extension of the first file)"
    training.add_argument("--lang", metavar="LANG", help=help)

    encoding = commands.add_parser("encode", help="split text into symbols")
    help = "a model written by `train`"
    encoding.add_argument("--model", type=Path, required=True, metavar="PREFIX.model", help=help)
    help = "for a target text with protected tokens: the source text, line by line"
    encoding.add_argument("--source", type=Path, metavar="TEXT", help=help)
    help = "with --source: the model of the source language (default: --model)"
    encoding.add_argument("--source-model", type=Path, metavar="PREFIX.model", help=help)
    decoding = commands.add_parser("decode", help="join symbols into text")
    for subcommand in (encoding, decoding):
        subcommand.add_argument("--input", type=Path, metavar="IN", help="file to read (default: standard input)")
        subcommand.add_argument("--output", type=Path, metavar="OUT", help="file to write (default: standard output)")
    return parser


@command("seg-subword")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    from fairseq_seg.corpus.encoding import decode_file, encode_file
    from fairseq_seg.corpus.subword_training import train_subwords
    from fairseq_seg.corpus.subwords import SubwordModel

    if options.command == "train":
        train_subwords(options.input, options.model, options.vocab_size, options.protect, options.lang)
    elif options.command == "encode":
        model, of_source = SubwordModel(options.model), options.source_model and SubwordModel(options.source_model)
        encode_file(model, options.input, options.output, options.source, of_source)
    else:
        decode_file(options.input, options.output)


if __name__ == "__main__":
    main()
