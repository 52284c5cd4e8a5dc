"""Read pairs to train on from the files that people have: TMX, XLIFF, PO, tab-separated and parallel plain text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from fairseq_seg.errors import SegError, visible
from fairseq_seg.recipes.parallel import Pair, clean
from fairseq_seg.store.formats import EXTENSIONS, PairFile, Tags, extension, read_pairs
from fairseq_seg.store.locales import base_language
from fairseq_seg.store.pair import Skipped
from fairseq_seg.store.po import header_language, read_messages
from fairseq_seg.store.xliff import find_languages, find_segments, xliff_units
from fairseq_seg.store.xml import XML_LANG, children, local_name, stream

LANGUAGE = re.compile(r"[A-Za-z]{2,3}(_[A-Za-z0-9]+)*")
# How many units of a file are asked for their languages.
ASKED = 1000


def group_files(paths: Sequence[Path]) -> list[PairFile]:
    """Tell each file's format by its name; PREFIX.en and PREFIX.fr, of no other format, are one parallel text."""
    found: list[PairFile] = []
    texts: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(paths):
        if not path.is_file():
            raise SegError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}: name files.")
        if format := EXTENSIONS.get(extension(path)):
            found.append(PairFile(format, [path]))
        elif LANGUAGE.fullmatch(extension(path)):
            texts.setdefault(path.with_suffix(""), []).append(path)
        else:
            known = ", ".join(f".{name}" for name in EXTENSIONS)
            raise SegError(f"{path} is of no known format: name {known}, or two texts as PREFIX.en PREFIX.fr.")
    for prefix, sides in texts.items():
        if len(sides) != 2:
            names = ", ".join(map(str, sides))
            raise SegError(f"{names}: a parallel text is two files, as {prefix}.en and {prefix}.fr: name both.")
        found.append(PairFile("text", sides))
    return found


def find_direction(files: Sequence[PairFile], source: str | None, target: str | None) -> tuple[str, str]:
    """Return the two languages: those given, else those that the files name; refuse files of several pairs."""
    for option, given in (("-s", source), ("-t", target)):
        if given is not None and not LANGUAGE.fullmatch(given):
            raise SegError(f"{option} {given} is not a language: write it as en or pt_BR.")
    sources: dict[str, Path] = {}
    targets: dict[str, Path] = {}
    for file in files if source is None or target is None else ():
        for named, languages in zip((sources, targets), named_languages(file), strict=True):
            named.update({language: file.files[0] for language in languages if language not in named})
    source, target = choose("source", source, sources, target), choose("target", target, targets, source)
    if base_language(source) == base_language(target):
        raise SegError(f"Source and target language are both {source}: give two languages with -s and -t.")
    return source, target


def choose(side: str, given: str | None, named: dict[str, Path], other: str | None) -> str:
    """Return the language of a side: the one given, else the only one that the files name, besides the other side's."""
    if given is not None:
        return given
    found = {language: path for language, path in named.items() if other is None or language != base_language(other)}
    if not found:
        raise SegError(f"The files do not say their {side} language: give it with -{side[0]}.")
    if len(found) > 1:
        places = ", ".join(f"{language} in {path}" for language, path in found.items())
        raise SegError(f"The files have several {side} languages, {places}: choose one with -{side[0]}.")
    return next(iter(found))


def named_languages(file: PairFile) -> tuple[list[str], list[str]]:
    """Return the source and target languages that a file names, without their varieties (en for en-GB)."""
    path = file.files[0]
    found: list[tuple[str, str]] = []
    if file.format == "text":
        found.append((extension(path), extension(file.files[1])))
    elif file.format == "po":
        found += [("", header_language("".join(header.forms.get(0, [])))) for header in islice(read_messages(path), 1)]
    elif file.format == "xliff":
        for unit in islice(xliff_units(path), ASKED):
            found += [find_languages(unit, *sides) for *sides, _ in find_segments(unit) if sides[1] is not None]
    elif file.format == "tmx":
        of_file = ""
        for element in islice(stream(path, "tmx", {"header", "tu"}), ASKED):
            of_file = element.get("srclang", "") if local_name(element) == "header" else of_file
            languages = [variant.get(XML_LANG) or variant.get("lang") or "" for variant in children(element, "tuv")]
            source = element.get("srclang", of_file)
            if base_language(source) not in map(base_language, languages):  # *all*, or a header that is wrong
                source = languages[0] if languages else ""
            found += [(source, language) for language in languages if base_language(language) != base_language(source)]
    sources, targets = ({base_language(pair[side]): None for pair in found if pair[side]} for side in (0, 1))
    return list(sources), list(targets)


def pairs_of(files: Sequence[PairFile], source: str, target: str, tags: Tags, skipped: Counter[str]) -> Iterator[Pair]:
    """Iterate over the pairs of files, white space and accents made uniform; count what cannot become a pair."""
    for file in files:
        path = file.files[0]
        sides = file.files
        if file.format == "text" and base_language(extension(path)) != base_language(source):
            sides = sides[::-1]
        if file.format == "text" and [base_language(extension(side)) for side in sides] != [
            base_language(language) for language in (source, target)
        ]:
            names = " and ".join(map(str, file.files))
            raise SegError(f"{names} are not named {source} and {target}: rename them, or correct -s and -t.")
        units = read_pairs(PairFile(file.format, sides), source, target, tags)
        for unit in tqdm(units, visible(path.name), unit=" pairs", leave=False):
            if isinstance(unit, Skipped):
                skipped[unit.reason] += 1
            else:
                yield Pair(clean(unit.source), clean(unit.target), str(path))
