"""seg-subword: learn a sentencepiece BPE, and cut text into its symbols or join them again.

The model numbers its symbols exactly as fairseq does (<s>, <pad>, </s>, <unk>, then the pieces), so ``PREFIX.dict.txt``
serves ``fairseq-preprocess --srcdict/--tgtdict`` and ``PREFIX.model`` serves ``--bpe sentencepiece
--sentencepiece-model``.
"""

import argparse
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.corpus.subwords import SubwordModel, join_subwords
from fairseq_seg.errors import SegError, command
from fairseq_seg.files import read_lines, write_whole


def train(inputs: list[Path], prefix: Path, vocab_size: int) -> None:
    """Learn a BPE of `vocab_size` symbols from text files and write `prefix`.model and `prefix`.dict.txt."""
    import sentencepiece

    def sentences() -> Iterator[str]:
        for path in inputs:
            with path.open("rb") as stream:
                yield from filter(None, map(one_blank, read_lines(stream, str(path))))

    if vocab_size < 1:
        raise SegError(f"--vocab-size {vocab_size} is too small: give the number of symbols to learn.")
    lines = list(tqdm(sentences(), desc="reading", unit=" lines"))
    if not lines:
        raise SegError(f"{', '.join(map(str, inputs))}: no text to learn from; give at least one non-empty file.")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            max_sentence_length=1 << 20,  # the default leaves out lines over 4,192 bytes, and so perhaps a letter
            bos_id=0,
            pad_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise SegError(_explain(str(error), vocab_size)) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(Path(f"{prefix}.dict.txt")) as stream:
        for index in range(4, processor.get_piece_size()):
            stream.write(f"{processor.id_to_piece(index)} 1\n".encode())
    with write_whole(Path(f"{prefix}.model")) as stream:
        stream.write(model.getvalue())


def _explain(error: str, vocab_size: int) -> str:
    """Turn sentencepiece's complaint about the number of symbols into a sentence that names our option."""
    if largest := re.search(r"value <= (\d+)", error):
        return f"--vocab-size {vocab_size} is too large for this text; use {largest[1]} or less."
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", error):
        return f"--vocab-size {vocab_size} is too small: the text has {smallest[1]} characters and special symbols."
    return f"sentencepiece could not learn a model: {error}"


def one_blank(line: str) -> str:
    """Turn every run of white space into one blank: white space inside a symbol would make fairseq split it."""
    return " ".join(line.split())


def load_encoder(model: Path) -> Callable[[str], str]:
    """Return the function that cuts a line into symbols with blanks between them."""
    subwords = SubwordModel(model)
    return lambda line: " ".join(subwords.cut(line))


def convert(function: Callable[[str], str], source: Path | None, destination: Path | None) -> None:
    """Apply `function` to every line of `source` (default: standard input), one line out for one line in."""

    def write(lines: Iterable[str], stream: BinaryIO) -> None:
        for line in lines:
            stream.write(function(line).encode() + b"\n")

    with source.open("rb") if source else sys.stdin.buffer as stream:
        lines = read_lines(stream, str(source or "standard input"))
        if destination:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(destination) as output:
                write(tqdm(lines, desc=destination.name, unit=" lines"), output)
        else:
            write(lines, sys.stdout.buffer)
            sys.stdout.flush()


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(prog="seg-subword", description="Learn and apply a sentencepiece BPE for fairseq.")
    commands = parser.add_subparsers(dest="command", required=True)

    training = commands.add_parser("train", help="learn a BPE; write PREFIX.model and PREFIX.dict.txt")
    training.add_argument("--input", type=Path, nargs="+", required=True, metavar="FILE", help="plain text, UTF-8")
    training.add_argument("--model", type=Path, required=True, metavar="PREFIX", help="where to write the model")
    training.add_argument(
        "--vocab-size",
        type=int,
        required=True,
        metavar="N",
        help="symbols in all, fairseq's four special ones included",
    )

    encoding = commands.add_parser("encode", help="cut text into symbols")
    encoding.add_argument("--model", type=Path, required=True, metavar="PREFIX.model", help="a model made by `train`")
    decoding = commands.add_parser("decode", help="join symbols to text")
    for subcommand in (encoding, decoding):
        subcommand.add_argument("--input", type=Path, metavar="IN", help="file to read (default: standard input)")
        subcommand.add_argument("--output", type=Path, metavar="OUT", help="file to write (default: standard output)")
    return parser


@command("seg-subword")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    if options.command == "train":
        train(options.input, options.model, options.vocab_size)
    elif options.command == "encode":
        convert(load_encoder(options.model), options.input, options.output)
    else:
        convert(lambda line: join_subwords(one_blank(line), "sentencepiece"), options.input, options.output)


if __name__ == "__main__":
    main()
