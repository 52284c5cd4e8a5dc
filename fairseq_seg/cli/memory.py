"""seg-memory: create and edit your own translation memory, even while a translator uses it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.cli.options import DefaultsFormatter, add_subword_models, positive
from fairseq_seg.errors import SegError, command, visible

if TYPE_CHECKING:
    from fairseq_seg.store.store import TranslationMemory


def create(options: argparse.Namespace) -> None:
    """Create an empty memory."""
    from fairseq_seg.store.store import TranslationMemory

    languages = options.source_lang, options.target_lang
    models = options.spm_source, options.spm_target
    TranslationMemory.create(options.memory, *languages, options.data_bin, *models).close()
    for lang, model in zip(languages, models, strict=True):
        print(f"{options.memory}: texts in {lang} {f'are encoded by {model}' if model else 'must be symbols already'}")


def import_pairs(options: argparse.Namespace) -> None:
    """Import pairs from files; a malformed file imports nothing."""
    from fairseq_seg.store.formats import import_files

    with open_memory(options) as memory:
        how = options.format, options.tags == "keep", options.conflict, options.max_symbols
        for name, counts in import_files(memory, options.files, *how):
            print(f"{name}: {counts}")


def export(options: argparse.Namespace) -> None:
    """Write a consistent snapshot of all pairs to a file."""
    from fairseq_seg.store.formats import export_file

    with open_memory(options, read_only=True) as memory:
        count = export_file(memory, options.file, options.format)
        print(f"{visible(str(options.file))}: {count:,} pairs")


def add(options: argparse.Namespace) -> None:
    """Add one pair, or pairs from standard input, and print each id once its pair is safely stored."""
    from fairseq_seg.store.pair import TranslationUnit
    from fairseq_seg.store.plain import read_tsv

    if options.source is not None and options.target is None:
        raise SegError("Give a source and a target, or neither to read them from standard input.")
    if options.source is not None:
        pairs = iter([TranslationUnit(options.source, options.target)])
    else:
        pairs = read_tsv(sys.stdin.buffer, "standard input")
    with open_memory(options) as memory:
        for pair in pairs:
            id = memory.add(
                pair.source,
                pair.target,
                origin=options.origin,
                attributes=dict(options.attribute),
                conflict=options.conflict,
            )
            print(id, flush=True)


def update(options: argparse.Namespace) -> None:
    """Change one pair."""
    if options.source is None and options.target is None and not options.attribute:
        raise SegError("Nothing to change: give --source, --target or --attribute.")
    with open_memory(options) as memory:
        attributes = memory.pair(options.id).attributes | dict(options.attribute) if options.attribute else None
        memory.update(options.id, options.source, options.target, attributes)


def delete(options: argparse.Namespace) -> None:
    """Delete pairs, all or none."""
    with open_memory(options) as memory:
        memory.delete(*options.ids)


def search(options: argparse.Namespace) -> None:
    """Print the most similar pairs of a text, or of each line of standard input: score, id, source, target, origin."""
    from fairseq_seg.files import read_lines
    from fairseq_seg.store.index import MemorySearch
    from fairseq_seg.store.plain import ESCAPES

    memory = MemorySearch(options.memory)
    escapes = str.maketrans(ESCAPES)
    lines = read_lines(sys.stdin.buffer, "standard input") if options.text is None else [options.text]
    for text in lines:
        [found] = memory.search([memory.encode(text)], options.count)
        for entry, score in found:
            texts = (visible(text.translate(escapes)) for text in (entry.source, entry.target, entry.origin))
            print(f"{score:.4f}", entry.id, *texts, sep="\t", flush=True)


def rebuild(options: argparse.Namespace) -> None:
    """Rebuild the index of a memory; searches in progress keep the old index."""
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
    """Split NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=VALUE")
    return name, value


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="seg-memory", description="Create, fill, edit and search a translation memory."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def subcommand(name: str, function: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        description = f"{help[0].upper()}{help[1:]}."
        new = commands.add_parser(name, help=help, description=description, formatter_class=DefaultsFormatter)
        new.add_argument("memory", type=Path, metavar="MEMORY", help="folder of the memory")
        new.set_defaults(function=function)
        return new

    new = subcommand("create", create, "create an empty memory that uses the dictionaries of a model")
    new.add_argument(
        "--data-bin", type=Path, required=True, metavar="FOLDER", help="data-bin that the model was trained on"
    )
    new.add_argument("-s", "--source-lang", required=True, metavar="LANG", help="source language")
    new.add_argument("-t", "--target-lang", required=True, metavar="LANG", help="target language")
    add_subword_models(new)

    new = subcommand("import", import_pairs, "import pairs; a malformed file imports nothing")
    new.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="TMX, PO or tab-separated files, or two text files"
    )
    new.add_argument(
        "--format",
        choices=("tmx", "po", "tsv", "text"),
        help="format of the files (default: inferred from the extension); text is two files that match line by line",
    )
    new.add_argument(
        "--tags",
        choices=("drop", "keep"),
        default="drop",
        help="inline codes in TMX texts (bpt, ept, ph, it, ut): drop them, or keep them as text",
    )
    new.add_argument(
        "--max-symbols",
        type=positive,
        default=1000,
        metavar="N",
        help="skip pairs that have more than N symbols on a side",
    )
    add_conflict(new)

    new = subcommand("export", export, "write all pairs to a TMX or tab-separated file")
    new.add_argument("file", type=Path, metavar="FILE", help="file to write; a tab-separated file holds only the texts")
    new.add_argument(
        "--format", choices=("tmx", "tsv"), help="format of the file (default: inferred from the extension)"
    )

    new = subcommand("add", add, "add a pair, or tab-separated pairs from standard input, and print their ids")
    new.add_argument("source", nargs="?", metavar="SOURCE", help="source text")
    new.add_argument("target", nargs="?", metavar="TARGET", help="target text")
    new.add_argument("--origin", default="", metavar="TEXT", help="where the pair comes from")
    add_attribute(new)
    add_conflict(new)

    new = subcommand("update", update, "change a pair")
    new.add_argument("id", type=positive, metavar="ID", help="the id that add printed")
    new.add_argument("--source", metavar="TEXT", help="new source text")
    new.add_argument("--target", metavar="TEXT", help="new target text")
    add_attribute(new)

    new = subcommand("delete", delete, "delete pairs")
    new.add_argument("ids", type=positive, nargs="+", metavar="ID", help="the ids that add printed")

    new = subcommand("search", search, "print the pairs most similar to a text, or to each line of standard input")
    new.add_argument("text", nargs="?", metavar="TEXT", help="source text")
    new.add_argument("-n", "--count", type=positive, default=5, metavar="N", help="number of pairs per text")

    subcommand("rebuild", rebuild, "rebuild the index, to speed up searches after a memory has grown")

    subcommand("stats", stats, "print what a memory holds")
    return parser


def add_conflict(parser: argparse.ArgumentParser) -> None:
    """Add --conflict, which two subcommands have."""
    parser.add_argument(
        "--conflict",
        choices=("keep", "overwrite", "skip"),
        default="keep",
        help="if the source already has another target: keep both, overwrite the old pair, or skip the new one",
    )


def add_attribute(parser: argparse.ArgumentParser) -> None:
    """Add --attribute, which two subcommands have."""
    parser.add_argument(
        "--attribute",
        type=name_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a free attribute of the pair, such as client=ACME; may be repeated",
    )


@command("seg-memory", stopped="stopped. Stored pairs are kept: rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    options.function(options)


if __name__ == "__main__":
    main()
