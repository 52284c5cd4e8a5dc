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
    from fairseq_seg.store.conditions import Condition
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
    """Import pairs from files; a malformed file imports nothing, and does not keep the others out."""
    from fairseq_seg.store.formats import import_files

    failed = 0
    with open_memory(options) as memory:
        how = options.format, options.tags, options.conflict, options.max_symbols
        for path, outcome in import_files(memory, options.files, *how):
            if isinstance(outcome, SegError):
                failed += 1
                print(visible(str(outcome)), file=sys.stderr)
            else:
                print(visible(f"{path}: {outcome}"), flush=True)
    if failed:
        sys.exit(f"seg-memory: {failed} of {len(options.files)} files imported nothing, for the reasons above.")


def export(options: argparse.Namespace) -> None:
    """Write a consistent snapshot of all pairs, or of some, to a file."""
    from fairseq_seg.store.formats import export_file

    with open_memory(options, read_only=True) as memory:
        count = export_file(memory, options.file, options.format, conditions_of(options))
        print(f"{visible(str(options.file))}: {count:,} pairs")


def list_pairs(options: argparse.Namespace) -> None:
    """Print pairs by id: id, source, target, origin, unit, date of the change, attributes."""
    import itertools
    import json

    with open_memory(options, read_only=True) as memory:
        for pair in itertools.islice(memory.pairs(conditions_of(options)), options.count):
            attributes = json.dumps(pair.attributes, ensure_ascii=False) if pair.attributes else ""
            print_fields(pair.id, pair.source, pair.target, pair.origin, pair.unit, pair.changed, attributes)


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
    """Delete pairs by their ids, or all that fulfil conditions; all or none."""
    conditions = conditions_of(options)
    if bool(options.ids) == bool(conditions):
        raise SegError("Give the ids of the pairs to delete, or --where.")
    if options.dry_run:
        with open_memory(options, read_only=True) as memory:
            count = memory.count(conditions) if conditions else len([memory.pair(id) for id in options.ids])
            print(f"{count:,} pairs would be deleted")
        return
    with open_memory(options) as memory:
        if conditions:
            print(f"{memory.delete_where(conditions):,} pairs deleted")
        else:
            memory.delete(*options.ids)


def search(options: argparse.Namespace) -> None:
    """Print the most similar pairs of a text, or of each line of standard input: score, id, source, target, origin."""
    from fairseq_seg.files import read_lines
    from fairseq_seg.store.index import MemorySearch

    memory = MemorySearch(options.memory)
    lines = read_lines(sys.stdin.buffer, "standard input") if options.text is None else [options.text]
    for text in lines:
        [found] = memory.search([memory.encode(text)], options.count)
        for pair, score in found:
            print_fields(f"{score:.4f}", pair.id, pair.source, pair.target, pair.origin)


def concordance(options: argparse.Namespace) -> None:
    """Print the pairs in which words occur: id, source, target, origin."""
    from fairseq_seg.store.concordance import find_words

    with open_memory(options, read_only=True) as memory:
        for pair in find_words(memory, " ".join(options.words), options.side, options.count):
            print_fields(pair.id, pair.source, pair.target, pair.origin)


def clean(options: argparse.Namespace) -> None:
    """Print the pairs that fail a check: check, id, source, target, origin; delete them with --delete."""
    from collections import Counter

    from fairseq_seg.store.clean import delete_faults, find_faults, parse_checks

    with open_memory(options, read_only=not options.delete) as memory:
        found = []
        for fault in find_faults(memory, parse_checks(options.check)):
            found.append(fault)
            print_fields(fault.check, fault.pair.id, fault.pair.source, fault.pair.target, fault.pair.origin)
        counts = Counter(fault.check for fault in found)
        summary = ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "no faults"
        if options.delete:
            print(f"{summary}: {delete_faults(memory, found):,} of {len(found):,} pairs deleted", file=sys.stderr)
        else:
            hint = ", run again with --delete to delete them" if found else ""
            print(f"{summary}: nothing is deleted{hint}", file=sys.stderr)


def merge(options: argparse.Namespace) -> None:
    """Add all pairs of other memories."""
    from fairseq_seg.store.backup import merge

    with open_memory(options) as memory:
        for other in options.others:
            print(visible(f"{other}: {merge(memory, other, options.conflict)}"), flush=True)


def back_up(options: argparse.Namespace) -> None:
    """Copy a memory while others use it."""
    from fairseq_seg.store.backup import back_up

    with open_memory(options, read_only=True) as memory:
        back_up(memory, options.backup)
    with open_memory(argparse.Namespace(memory=options.backup), read_only=True) as copy:
        print(f"{visible(str(options.backup))}: {len(copy):,} pairs")


def restore(options: argparse.Namespace) -> None:
    """Make a memory what it was when it was backed up."""
    from fairseq_seg.store.backup import restore

    counts = restore(options.memory, options.backup)
    print(", ".join(f"{count:,} pairs {what}" for what, count in counts.items()))


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


def conditions_of(options: argparse.Namespace) -> list[Condition]:
    """Parse the conditions of --where."""
    from fairseq_seg.store.conditions import parse_condition

    return [parse_condition(text) for text in options.where]


def print_fields(*fields: object) -> None:
    """Print a tab-separated line that is safe on a terminal."""
    from fairseq_seg.store.plain import ESCAPES

    escapes = str.maketrans(ESCAPES)
    print(*(visible(str(field).translate(escapes)) for field in fields), sep="\t", flush=True)


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
        "files", type=Path, nargs="+", metavar="FILE", help="TMX, XLIFF, PO or tab-separated files, or two text files"
    )
    new.add_argument(
        "--format",
        choices=("tmx", "xliff", "po", "tsv", "text"),
        help="format of the files (default: inferred from the extension); text is two files that match line by line",
    )
    new.add_argument(
        "--tags",
        choices=("codes", "text", "drop"),
        default="codes",
        help="inline codes in TMX and XLIFF: keep them as codes, turn them into the text that they hold, or drop them",
    )
    new.add_argument(
        "--max-symbols",
        type=positive,
        default=1000,
        metavar="N",
        help="skip pairs that have more than N symbols on a side",
    )
    add_conflict(new)

    new = subcommand("export", export, "write all pairs, or some, to a TMX, XLIFF or tab-separated file")
    new.add_argument("file", type=Path, metavar="FILE", help="file to write; a tab-separated file holds only the texts")
    new.add_argument(
        "--format", choices=("tmx", "xliff", "tsv"), help="format of the file (default: inferred from the extension)"
    )
    add_where(new)

    new = subcommand("list", list_pairs, "print pairs with their origin, unit, date and attributes")
    new.add_argument("-n", "--count", type=positive, metavar="N", help="print no more than N pairs (default: all)")
    add_where(new)

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
    new.add_argument("ids", type=positive, nargs="*", metavar="ID", help="the ids that add printed")
    add_where(new)
    new.add_argument("--dry-run", action="store_true", help="only print how many pairs would be deleted")

    new = subcommand("search", search, "print the pairs most similar to a text, or to each line of standard input")
    new.add_argument("text", nargs="?", metavar="TEXT", help="source text")
    new.add_argument("-n", "--count", type=positive, default=5, metavar="N", help="number of pairs per text")

    new = subcommand("concordance", concordance, "print the pairs in which words occur, on either side")
    new.add_argument(
        "words", nargs="+", metavar="WORD", help='words that all occur on one side; "two words" in a row, beginning*'
    )
    new.add_argument("--side", choices=("source", "target", "both"), default="both", help="where to look")
    new.add_argument("-n", "--count", type=positive, default=20, metavar="N", help="print no more than N pairs")

    new = subcommand("clean", clean, "print pairs that do more harm than good, and delete them on request")
    new.add_argument(
        "--check",
        default="duplicates,empty,identical,language,tags",
        metavar="CHECKS",
        help="what to look for: pairs that repeat another, with an empty or an untranslated target, with a side in the "
        "wrong language, with tags that do not fit",
    )
    new.add_argument("--delete", action="store_true", help="delete what is found, all or nothing")

    new = subcommand("merge", merge, "add all pairs of other memories")
    new.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="folder of another memory")
    add_conflict(new)

    new = subcommand("backup", back_up, "copy the memory, as it is at one moment, while others use it")
    new.add_argument("backup", type=Path, metavar="BACKUP", help="new folder, which is a memory itself")

    new = subcommand("restore", restore, "make the memory what it was when it was backed up, all or nothing")
    new.add_argument("backup", type=Path, metavar="BACKUP", help="folder that backup wrote")

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


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add --where, which three subcommands have."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="only pairs that fulfil this: origin=PATTERN with * and ?, source~TEXT (contains), changed>=2026-01-31; "
        "names are id, source, target, text (either side), origin, unit, created, changed, and attributes; may be "
        "repeated",
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
