"""Import and export: the files that pairs come from and go to, by the name of their format."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from tqdm import tqdm

from fairseq_seg.corpus.codes import restore_codes, without_codes
from fairseq_seg.errors import SegError, visible
from fairseq_seg.files import write_whole
from fairseq_seg.store.conditions import Condition
from fairseq_seg.store.pair import MAX_SYMBOLS, NO_CODES, Conflict, ImportCounts, Skipped, StoredPair, TranslationUnit
from fairseq_seg.store.plain import read_text, read_tsv, write_tsv
from fairseq_seg.store.po import read_po
from fairseq_seg.store.tmx import read_tmx, tmx_units, write_tmx
from fairseq_seg.store.xliff import read_xliff, write_xliff, xliff_units
from fairseq_seg.store.xml import parse_fragment, text_of

if TYPE_CHECKING:
    from fairseq_seg.store.store import TranslationMemory

READABLE = ("tmx", "xliff", "po", "tsv", "text")
WRITABLE = ("tmx", "xliff", "tsv")
EXTENSIONS = {"tmx": "tmx", "xliff": "xliff", "xlf": "xliff", "po": "po", "pot": "po", "tsv": "tsv"}
# What becomes of inline codes: tokens, the text that they hold, or nothing.
Tags = Literal["codes", "text", "drop"]


class PairFile(NamedTuple):
    """A file of pairs, or two plain text files that are read line by line."""

    format: str
    files: list[Path]


def find_pair_files(files: list[Path], format: str | None, source_lang: str, target_lang: str) -> list[PairFile]:
    """Group files into what is read as one; without a format, it is inferred from the extensions."""
    if format is None and [extension(file) for file in files] == [source_lang.lower(), target_lang.lower()]:
        format = "text"
    if format == "text":
        if len(files) != 2:
            raise SegError(f"Format text takes two files, a source and a target, not {len(files)}.")
        return [PairFile(format, files)]
    return [PairFile(format or format_of(file, READABLE), [file]) for file in files]


def format_of(file: Path, possible: Iterable[str]) -> str:
    """Infer a file's format from its extension."""
    format = EXTENSIONS.get(extension(file))
    if format is None or format not in possible:
        raise SegError(f"The name of {file} does not tell its format: give --format ({', '.join(possible)}).")
    return format


def read_pairs(
    file: PairFile, source_lang: str, target_lang: str, tags: Tags = "codes"
) -> Iterator[TranslationUnit | Skipped]:
    """Iterate over the pairs of a file; refuse what is malformed when it is reached.

    To import all or nothing, call `check` before adding anything.
    """
    path = file.files[0]
    if file.format == "tmx":
        yield from convert_codes(read_tmx(path, source_lang, target_lang), tags)
    elif file.format == "xliff":
        yield from convert_codes(read_xliff(path, source_lang, target_lang), tags)
    elif file.format == "po":
        yield from read_po(path, target_lang)
    elif file.format == "tsv":
        with open(path, "rb") as stream:
            yield from read_tsv(stream, str(path))
    else:
        yield from read_text(*file.files)


def check(file: PairFile, source_lang: str, target_lang: str) -> int:
    """Read a file to its end, refuse a malformed one, and return the number of its units."""
    if file.format == "tmx":
        units: Iterable = tmx_units(file.files[0])
    elif file.format == "xliff":
        # The version and the nesting of codes are seen only where they are read.
        units = itertools.chain(
            itertools.islice(read_pairs(file, source_lang, target_lang), 1), xliff_units(file.files[0])
        )
    else:
        units = read_pairs(file, source_lang, target_lang)
    return sum(1 for _ in units)


def convert_codes(units: Iterable[TranslationUnit | Skipped], tags: Tags) -> Iterator[TranslationUnit | Skipped]:
    """Keep inline codes as tokens, turn them into the text that they hold, or drop them."""
    for unit in units:
        if tags == "codes" or isinstance(unit, Skipped) or not unit.codes.format:
            yield unit
        elif tags == "drop":
            yield unit._replace(source=without_codes(unit.source), target=without_codes(unit.target), codes=NO_CODES)
        else:
            sides = (unit.source, unit.codes.source), (unit.target, unit.codes.target)
            source, target = (
                restore_codes(text, {token: content(code) for token, code in codes.items()}) for text, codes in sides
            )
            yield unit._replace(source=source, target=target, codes=NO_CODES)


def content(code: str) -> str:
    """Return the text within a code's XML: the markup of the document that it comes from."""
    element = parse_fragment("code", code)
    return "" if element is None else text_of(element)


def write_pairs(pairs: Iterable[StoredPair], path: Path, format: str, source_lang: str, target_lang: str) -> None:
    """Write pairs to a file, whole or not at all."""
    with write_whole(path) as file:
        if format == "tmx":
            write_tmx(pairs, file, source_lang, target_lang)
        elif format == "xliff":
            write_xliff(pairs, file, source_lang, target_lang)
        else:
            write_tsv(pairs, file)


class Imported(NamedTuple):
    """A file, and what became of its pairs, or the error that kept all of them out."""

    path: Path
    outcome: ImportCounts | SegError


def import_files(
    memory: TranslationMemory,
    files: list[Path],
    format: str | None = None,
    tags: Tags = "codes",
    conflict: Conflict = "keep",
    max_symbols: int = MAX_SYMBOLS,
) -> Iterator[Imported]:
    """Add the pairs of files, and yield what became of each file.

    Each file is read through first, so that a malformed one adds nothing; it does not keep the others out.
    """
    languages = memory.source_lang, memory.target_lang
    for file in find_pair_files(files, format, *languages):
        path = file.files[0]
        name = visible(path.name)
        try:
            total = check(file, *languages)
            units = tqdm(read_pairs(file, *languages, tags), name, total, leave=False, unit=" pairs")
        except SegError as error:
            yield Imported(path, error)
        except OSError as error:
            yield Imported(path, SegError(f"{path} cannot be read: {error.strerror}."))
        else:
            yield Imported(path, memory.add_many(units, conflict, max_symbols))


def export_file(
    memory: TranslationMemory, path: Path, format: str | None = None, conditions: Sequence[Condition] = ()
) -> int:
    """Write the pairs that fulfil all conditions, as they are at one moment, to a file; return their number."""
    if format is None:
        format = format_of(path, WRITABLE)
    with memory.snapshot():
        pairs = tqdm(memory.pairs(conditions), visible(path.name), len(memory), leave=False, unit=" pairs")
        write_pairs(pairs, path, format, memory.source_lang, memory.target_lang)
        return pairs.n


def extension(path: Path) -> str:
    """Return the extension of a file's name in lower case, without the dot."""
    return path.suffix.lower().removeprefix(".")
