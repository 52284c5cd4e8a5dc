"""Import and export: the files that pairs come from and go to, by the name of their format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm import tqdm

from fairseq_seg.errors import SegError, need, visible
from fairseq_seg.files import write_whole
from fairseq_seg.store.pair import MAX_SYMBOLS, Conflict, ImportCounts, Skipped, StoredPair, TranslationUnit
from fairseq_seg.store.plain import read_text, read_tsv, write_tsv
from fairseq_seg.store.po import read_po
from fairseq_seg.store.tmx import read_tmx, write_tmx

if TYPE_CHECKING:
    from fairseq_seg.store.store import TranslationMemory

READABLE = ("tmx", "po", "tsv", "text")
WRITABLE = ("tmx", "tsv")


class PairFile(NamedTuple):
    """A file of pairs, or two plain text files that are read line by line."""

    format: str
    files: list[Path]


def find_pair_files(files: list[Path], format: str | None, source_lang: str, target_lang: str) -> list[PairFile]:
    """Group files into what is read as one; without a format, it is inferred from the extensions."""
    ends = [extension(file) for file in files]
    if format is None and ends == [source_lang.lower(), target_lang.lower()]:
        format = "text"
    if format == "text":
        if len(files) != 2:
            raise SegError(f"Format text takes two files, a source and a target, not {len(files)}.")
        return [PairFile(format, files)]
    if "po" in (format, *ends):
        need("polib", "formats", "Reading PO files")
    for file, end in zip(files, ends, strict=True):
        if format is None and end not in ("tmx", "po", "tsv"):
            raise SegError(f"The name of {file} does not tell its format: give --format ({', '.join(READABLE)}).")
    return [PairFile(format or end, [file]) for file, end in zip(files, ends, strict=True)]


def read_pairs(
    file: PairFile, source_lang: str, target_lang: str, keep_tags: bool = False
) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of a file; refuse what is malformed when it is reached.

    To import all or nothing, read to the end once before adding anything.
    """
    path = file.files[0]
    if file.format == "tmx":
        yield from read_tmx(path, source_lang, target_lang, keep_tags)
    elif file.format == "po":
        yield from read_po(path, target_lang)
    elif file.format == "tsv":
        with open(path, "rb") as stream:
            yield from read_tsv(stream, str(path))
    else:
        yield from read_text(*file.files)


def write_entries(entries: Iterable[StoredPair], path: Path, format: str, source_lang: str, target_lang: str) -> None:
    """Write entries to a file, whole or not at all."""
    with write_whole(path) as file:
        if format == "tmx":
            write_tmx(entries, file, source_lang, target_lang)
        else:
            write_tsv(entries, file)


def import_files(
    memory: TranslationMemory,
    files: list[Path],
    format: str | None = None,
    keep_tags: bool = False,
    conflict: Conflict = "keep",
    max_symbols: int = MAX_SYMBOLS,
) -> Iterator[tuple[str, ImportCounts]]:
    """Add the pairs of files, and yield the name of each and what became of its pairs.

    All files are read through first, so that a malformed one changes nothing.
    """
    languages = memory.source_lang, memory.target_lang

    def read(file: PairFile, label: str, total: int | None = None) -> Iterable[TranslationUnit | Skipped]:
        return tqdm(read_pairs(file, *languages, keep_tags), label, total, leave=False, unit=" pairs")

    found = [(visible(file.files[0].name), file) for file in find_pair_files(files, format, *languages)]
    totals = [sum(1 for _ in read(file, f"checking {name}")) for name, file in found]
    for (name, file), total in zip(found, totals, strict=True):
        yield name, memory.add_many(read(file, name, total), conflict, max_symbols)


def export_file(memory: TranslationMemory, path: Path, format: str | None = None) -> int:
    """Write all entries, as they are at one moment, to a file, and return their number."""
    format = format or extension(path)
    if format not in WRITABLE:
        raise SegError(f"The name of {path} does not tell its format: give --format ({', '.join(WRITABLE)}).")
    with memory.snapshot():
        count = len(memory)
        entries = tqdm(memory.pairs(), visible(path.name), count, leave=False, unit=" pairs")
        write_entries(entries, path, format, memory.source_lang, memory.target_lang)
    return count


def extension(path: Path) -> str:
    """Return the extension of a file's name in lower case, without the dot."""
    return path.suffix.lower().removeprefix(".")
