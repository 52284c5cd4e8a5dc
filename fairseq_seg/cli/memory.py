"""seg-memory: makes a translation memory of one's own and changes it, also while a translator uses it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.errors import SegError

if TYPE_CHECKING:
    from fairseq_seg.store.store import Counts, TranslationMemory


def create(options: argparse.Namespace) -> None:
    """Make an empty memory."""
    from fairseq_seg.store.store import TranslationMemory

    languages = options.source_lang, options.target_lang
    models = options.spm_source, options.spm_target
    TranslationMemory.create(options.memory, *languages, options.data_bin, *models).close()
    for lang, model in zip(languages, models, strict=True):
        print(f"{options.memory}: texts in {lang} {f'are cut by {model}' if model else 'must be in symbols already'}")


def import_files(options: argparse.Namespace) -> None:
    """Add the pairs of files; all files are read through first, so that a malformed one changes nothing."""
    from tqdm import tqdm

    from fairseq_seg.store.formats import find_sources, read

    with open_memory(options) as memory:
        languages = memory.source_lang, memory.target_lang
        sources = find_sources(options.files, options.format, *languages)
        keep_tags = options.tags == "keep"
        totals = []
        for source in sources:
            name = source.files[0].name
            units = tqdm(read(source, *languages, keep_tags), desc=f"checking {name}", unit=" pairs", leave=False)
            totals.append(sum(1 for _ in units))
        for source, total in zip(sources, totals, strict=True):
            name = source.files[0].name
            units = tqdm(read(source, *languages, keep_tags), desc=name, unit=" pairs", total=total, leave=False)
            counts = memory.add_many(units, options.conflict, options.max_symbols)
            print(f"{name}: {describe(counts)}")


def describe(counts: Counts) -> str:
    """Say what became of the pairs of a file."""
    text = f"{counts.added:,} added, {counts.updated:,} updated, {counts.present:,} already there"
    text += f", {counts.skipped.total():,} skipped"
    if counts.skipped:
        text += f" ({'; '.join(f'{reason}: {count:,}' for reason, count in counts.skipped.most_common(5))}"
        text += "; others)" if len(counts.skipped) > 5 else ")"
    if counts.unknown_symbols:
        text += f"; {counts.unknown_symbols / counts.symbols:.2%} of the new symbols are unknown to the dictionaries"
    return text


def export(options: argparse.Namespace) -> None:
    """Write all entries, as they were at one moment, to a file."""
    from tqdm import tqdm

    from fairseq_seg.store.formats import WRITABLE, write

    format = options.format or options.file.suffix.lower().removeprefix(".")
    if format not in WRITABLE:
        raise SegError(f"The name of {options.file} does not tell its format: give --format ({', '.join(WRITABLE)}).")
    with open_memory(options, read_only=True) as memory, memory.snapshot():
        entries = tqdm(memory.entries(), desc=options.file.name, unit=" pairs", total=len(memory), leave=False)
        write(entries, options.file, format, memory.source_lang, memory.target_lang)
        print(f"{options.file}: {len(memory):,} pairs")


def add(options: argparse.Namespace) -> None:
    """Add one pair, or those of standard input, and prints each id when its pair is safely stored."""
    if options.source is not None and options.target is None:
        raise SegError("Give a source and a target, or neither to read them from standard input.")
    with open_memory(options) as memory:
        for source, target in [(options.source, options.target)] if options.source is not None else typed_pairs():
            id = memory.add(
                source,
                target,
                origin=options.origin,
                attributes=dict(options.attribute),
                conflict=options.conflict,
            )
            print(id, flush=True)


def typed_pairs() -> Iterator[tuple[str, str]]:
    """Iterate over the tab-separated pairs of standard input as they come."""
    from fairseq_seg.store.plain import read_tsv

    return ((unit.source, unit.target) for unit in read_tsv(sys.stdin.buffer, "standard input"))


def update(options: argparse.Namespace) -> None:
    """Change one entry."""
    if options.source is None and options.target is None and not options.attribute:
        raise SegError("Nothing to change: give --source, --target or --attribute.")
    with open_memory(options) as memory:
        attributes = memory.entry(options.id).attributes | dict(options.attribute) if options.attribute else None
        memory.update(options.id, options.source, options.target, attributes)


def delete(options: argparse.Namespace) -> None:
    """Delete entries, all or none."""
    with open_memory(options) as memory:
        memory.delete(*options.ids)


def search(options: argparse.Namespace) -> None:
    """Print the most similar pairs of a text, or of each line of standard input: score, id, source, target, origin."""
    from fairseq_seg.store.index import MemorySearch
    from fairseq_seg.store.plain import ESCAPES

    memory = MemorySearch(options.memory)
    escapes = str.maketrans(ESCAPES)
    for text in [options.text] if options.text is not None else sys.stdin:
        [found] = memory.search([memory.encode(text)], options.count)
        for entry, score in found:
            texts = (text.translate(escapes) for text in (entry.source, entry.target, entry.origin))
            print(f"{score:.4f}", entry.id, *texts, sep="\t", flush=True)


def rebuild(options: argparse.Namespace) -> None:
    """Make the index of a memory anew; those who search it meanwhile go on with the one that they have."""
    from fairseq_seg.store.index import make_index

    with open_memory(options) as memory:
        folder = make_index(memory, wait=True)
        print(f"{folder}: {len(memory):,} pairs")


def stats(options: argparse.Namespace) -> None:
    """Print what a memory holds."""
    with open_memory(options, read_only=True) as memory:
        for name, value in memory.statistics().items():
            print(f"{name:<16}{value:,}" if isinstance(value, int | float) else f"{name:<16}{value}")


def open_memory(options: argparse.Namespace, read_only: bool = False) -> TranslationMemory:
    """Open the memory that the command line names."""
    from fairseq_seg.store.store import TranslationMemory

    return TranslationMemory(options.memory, read_only)


def name_and_value(text: str) -> tuple[str, str]:
    """Take NAME=VALUE apart."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
    return name, value


def positive(text: str) -> int:
    """Take a number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of 1 or more")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    options = argparse.ArgumentParser(prog="seg-memory", description="Make and change a translation memory.")
    commands = options.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, function, help: str) -> argparse.ArgumentParser:
        description = f"{help[0].upper()}{help[1:]}."
        new = commands.add_parser(name, help=help, description=description)
        new.add_argument("memory", type=Path, metavar="MEMORY", help="folder of the memory")
        new.set_defaults(function=function)
        return new

    new = command("create", create, "make an empty memory for the dictionaries of a model")
    new.add_argument(
        "--data-bin", type=Path, required=True, metavar="FOLDER", help="data-bin that the model was made of"
    )
    new.add_argument("-s", "--source-lang", required=True, metavar="LANG", help="source language")
    new.add_argument("-t", "--target-lang", required=True, metavar="LANG", help="target language")
    for side in ("source", "target"):
        new.add_argument(
            f"--spm-{side}",
            type=Path,
            metavar="MODEL",
            help=f"sentencepiece model of the {side} language; without it, texts are symbols with blanks between them",
        )

    new = command("import", import_files, "add the pairs of files: all, or none where a file is malformed")
    new.add_argument("files", type=Path, nargs="+", metavar="FILE", help="TMX, PO or tab-separated files, or two texts")
    new.add_argument(
        "--format",
        choices=("tmx", "po", "tsv", "text"),
        help="format of the files, by default by the ends of their names; text is two files, line by line",
    )
    new.add_argument(
        "--tags",
        choices=("drop", "keep"),
        default="drop",
        help="codes within TMX texts (bpt, ept, ph, it, ut): drop them (default) or keep them as text",
    )
    new.add_argument(
        "--max-symbols", type=positive, default=1000, metavar="N", help="skip pairs with a longer side (default: 1000)"
    )
    add_conflict(new)

    new = command("export", export, "write all pairs to a TMX or tab-separated file")
    new.add_argument("file", type=Path, metavar="FILE", help="file to write; tab-separated files hold the texts only")
    new.add_argument("--format", choices=("tmx", "tsv"), help="format of the file, by default by the end of its name")

    new = command("add", add, "add a pair, or tab-separated pairs from standard input, and print their ids")
    new.add_argument("source", nargs="?", metavar="SOURCE", help="source text")
    new.add_argument("target", nargs="?", metavar="TARGET", help="target text")
    new.add_argument("--origin", default="", metavar="TEXT", help="where the pair comes from")
    add_attribute(new)
    add_conflict(new)

    new = command("update", update, "change a pair")
    new.add_argument("id", type=positive, metavar="ID", help="the id that add printed")
    new.add_argument("--source", metavar="TEXT", help="new source text")
    new.add_argument("--target", metavar="TEXT", help="new target text")
    add_attribute(new)

    new = command("delete", delete, "delete pairs")
    new.add_argument("ids", type=positive, nargs="+", metavar="ID", help="the ids that add printed")

    new = command("search", search, "print the pairs that are most like a text, or like each line of standard input")
    new.add_argument("text", nargs="?", metavar="TEXT", help="source text")
    new.add_argument("-n", "--count", type=positive, default=5, metavar="N", help="pairs a text (default: 5)")

    command("rebuild", rebuild, "make the index anew, so that searches in a memory that has grown are quick again")

    command("stats", stats, "print what a memory holds")
    return options


def add_conflict(command: argparse.ArgumentParser) -> None:
    """Add the option that two commands have."""
    command.add_argument(
        "--conflict",
        choices=("keep", "overwrite", "skip"),
        default="keep",
        help="a source that has another target already: keep both (default), overwrite it, or skip the new pair",
    )


def add_attribute(command: argparse.ArgumentParser) -> None:
    """Add the option that two commands have."""
    command.add_argument(
        "--attribute",
        type=name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a free attribute of the pair, such as client=ACME; may be given again",
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = parser().parse_args(arguments)
    try:
        options.function(options)
    except KeyboardInterrupt:
        sys.exit("Interrupted: what was stored so far is kept; give the same command again to go on.")
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise SegError(f"{error.filename}: {error.strerror}.") from None


if __name__ == "__main__":
    main()
