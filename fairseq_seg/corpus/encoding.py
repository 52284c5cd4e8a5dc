"""Text files to symbols and back, with the values of protected tokens in a file beside them (`seg-subword`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from tqdm import tqdm

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.reserved import parse
from fairseq_seg.corpus.subwords import Cut, SubwordModel, one_blank, spell
from fairseq_seg.corpus.values import HEADER, as_line, read_values
from fairseq_seg.errors import SegError
from fairseq_seg.files import convert_lines, read_lines, write_whole


def encode_file(
    model: SubwordModel,
    text: Path | None,
    output: Path | None,
    source: Path | None = None,
    source_model: SubwordModel | None = None,
) -> None:
    """Split a text into symbols; a protected text also gets a file of values, OUTPUT.values.

    A target text that is protected needs its `source`, line by line, and the `source_model` that says what is protected
    there.
    """
    protection = model.protection
    if protection is None:
        if source is not None:
            raise SegError(f"{model.path} protects no tokens: leave out --source, or train it with --protect.")
        return convert_lines(lambda line: " ".join(model.cut(line)), text, output)
    if text is None or output is None:
        raise SegError(
            f"{model.path} has protected tokens, whose values go beside the output: give --input and --output."
        )
    role, of_source = "source", model.protection
    if source is not None:
        role, of_source = "target", (source_model or model).protection
        if of_source is None:
            raise SegError(f"{(source_model or model).path} protects no tokens: train it with --protect, too.")

    def cuts() -> Iterator[Cut]:
        with ExitStack() as stack:
            lines = read_lines(stack.enter_context(text.open("rb")), str(text))
            if source is None:
                yield from map(model.cut_source, lines)
                return
            sources = read_lines(stack.enter_context(source.open("rb")), str(source))
            for number, (line, other) in enumerate(zip_longest(lines, sources), start=1):
                if line is None or other is None:
                    shorter = text if line is None else source
                    raise SegError(f"{shorter} ends before line {number}, which the other file has: correct --source.")
                yield model.cut_target(line, other, of_source)

    output.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(values_path(output)) as values, write_whole(output) as symbols:
        values.write(f"{HEADER.format(role=role, lang=protection.notation.lang)}\n".encode())
        for cut in tqdm(cuts(), output.name, unit=" lines"):
            symbols.write(" ".join(cut.symbols).encode() + b"\n")
            values.write(as_line(cut.values).encode() + b"\n")


def decode_file(symbols: Path | None, output: Path | None) -> None:
    """Join symbols into text; reserved symbols get the values in the file beside their file."""
    values: Iterator[list[str]] | None = None
    if symbols is not None and values_path(symbols).exists():
        values = iter(read_values(values_path(symbols)))
    number = 0

    def decode(line: str) -> str:
        nonlocal number
        number += 1
        pieces = one_blank(line).split(" ")
        of_line = [] if values is None else next(values, [])
        reserved = [found for piece in pieces if (found := parse(piece))]
        if len(reserved) != len(of_line):
            raise SegError(
                f"{symbols or 'standard input'}: line {number} has {len(reserved)} protected tokens but {len(of_line)} "
                "values: decode the file that seg-subword encode wrote, with its .values beside it."
            )
        return spell(pieces, of_line)

    convert_lines(decode, symbols, output)


def place_values(data: DataBin, prefixes: dict[str, str | None]) -> None:
    """Place the values of protected tokens into a data-bin.

    Args:
        prefixes: for each split the prefix of its files of symbols, as fairseq-preprocess was given it; several,
            separated by commas, are the parts of a split.
    """
    if data.protections is None:
        return
    for split, named in prefixes.items():
        for number, prefix in enumerate(named.split(",") if named else ()):
            for role, lang in (("source", data.source_lang), ("target", data.target_lang)):
                values = read_values(values_path(Path(f"{prefix}.{lang}")), role)
                data.place_values(f"{split}{number or ''}", lang, values)


def values_path(symbols: Path) -> Path:
    """Name the file of the values of a file of symbols."""
    return symbols.with_name(f"{symbols.name}.values")
