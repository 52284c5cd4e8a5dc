r"""Pairs as plain text, UTF-8: tab-separated files, and two files with one text per line.

A tab-separated line is a source, a tab and a target; in both, `\t`, `\n`, `\r` and `\\` stand for a tab, a line feed, a
carriage return and a backslash, and every other backslash for itself. Empty lines are skipped. The lines of two plain
files are read verbatim. A line's number is its pair's unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from fairseq_seg.errors import SegError
from fairseq_seg.files import read_lines
from fairseq_seg.store.pair import StoredPair, TranslationUnit

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


def read_tsv(stream: BinaryIO, name: str) -> Iterator[TranslationUnit]:
    """Iterate over the pairs of a tab-separated stream."""
    for number, line in enumerate(read_lines(stream, name), start=1):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise SegError(f"{name}: line {number} has {len(columns)} columns, not a source and a target: correct it.")
        source, target = (re.sub(r"\\[\\tnr]", lambda escape: UNESCAPES[escape[0]], text) for text in columns)
        yield TranslationUnit(source, target, name, str(number))


def write_tsv(pairs: Iterable[StoredPair], file: BinaryIO) -> None:
    """Write the texts of pairs as tab-separated lines."""
    table = str.maketrans(ESCAPES)
    for pair in pairs:
        file.write(f"{pair.source.translate(table)}\t{pair.target.translate(table)}\n".encode())


def read_text(source: Path, target: Path) -> Iterator[TranslationUnit]:
    """Iterate over the pairs of two files, line by line."""
    with open(source, "rb") as source_file, open(target, "rb") as target_file:
        pairs = zip_longest(read_lines(source_file, str(source)), read_lines(target_file, str(target)))
        for number, (source_line, target_line) in enumerate(pairs, start=1):
            if source_line is None or target_line is None:
                shorter = source if source_line is None else target
                raise SegError(
                    f"{shorter} ends before line {number}, which the other file has: make them equally long."
                )
            yield TranslationUnit(source_line, target_line, str(source), str(number))
