"""The files that pairs come from and go to, each by the name of its format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_seg.errors import SegError
from fairseq_seg.files import write_whole
from fairseq_seg.store.entry import Entry, Skipped, TranslationUnit
from fairseq_seg.store.plain import read_text, read_tsv, write_tsv
from fairseq_seg.store.po import read_po
from fairseq_seg.store.tmx import read_tmx, write_tmx

READABLE = ("tmx", "po", "tsv", "text")
WRITABLE = ("tmx", "tsv")


class Source(NamedTuple):
    """What is read as one: a file, or two plain text files."""

    format: str
    files: list[Path]


def find_sources(files: list[Path], format: str | None, source_lang: str, target_lang: str) -> list[Source]:
    """Sort files into what is read as one, by their format or, without one, by the ends of their names."""
    ends = [file.suffix.lower().removeprefix(".") for file in files]
    if format is None and ends == [source_lang.lower(), target_lang.lower()]:
        format = "text"
    if format == "text":
        if len(files) != 2:
            raise SegError(f"Format text takes two files, a source and a target, not {len(files)}.")
        return [Source(format, files)]
    for file, end in zip(files, ends, strict=True):
        if format is None and end not in ("tmx", "po", "tsv"):
            raise SegError(f"The name of {file} does not tell its format: give --format ({', '.join(READABLE)}).")
    return [Source(format or end, [file]) for file, end in zip(files, ends, strict=True)]


def read(source: Source, source_lang: str, target_lang: str, keep_tags: bool) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of a file; what is malformed is refused when it is reached.

    To import all or nothing, read to the end once before adding anything.
    """
    path = source.files[0]
    if source.format == "tmx":
        yield from read_tmx(path, source_lang, target_lang, keep_tags)
    elif source.format == "po":
        yield from read_po(path, target_lang)
    elif source.format == "tsv":
        with open(path, "rb") as stream:
            yield from read_tsv(stream, str(path))
    else:
        yield from read_text(*source.files)


def write(entries: Iterable[Entry], path: Path, format: str, source_lang: str, target_lang: str) -> None:
    """Write entries to a file, whole or not at all."""
    with write_whole(path) as file:
        if format == "tmx":
            write_tmx(entries, file, source_lang, target_lang)
        else:
            write_tsv(entries, file)
