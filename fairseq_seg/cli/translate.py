"""seg-translate: translate files of segments, or count or check what is in them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError, command, visible


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-translate",
        usage="seg-translate MODEL FILE... [-o OUT] [option ...]\n"
        "       seg-translate MODEL FILE... --analyse [option ...]\n"
        "       seg-translate MODEL FILE... --qa [option ...]",
        description="Translate what is untranslated in PO, XLIFF, TMX, TSV and plain text files. Nothing else in them "
        "changes. A killed run resumes when the command is repeated.",
        epilog="All other options are those of fairseq-interactive with --task seg_translation: --beam, --lenpen, "
        "--memory-k, --memory-select, --batch-size, --cpu ...",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model folder")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="files, or folders with files")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="a file, or a folder for several files (default: beside each file, with the target language in its name)",
    )
    parser.add_argument(
        "--format", choices=("po", "xliff", "tmx", "tsv", "text"), help="of all files (default: by name)"
    )
    parser.add_argument("--memory", metavar="MEMORY", help="memories to search, as for fairseq-interactive")
    parser.add_argument("--fuzzy", action="store_true", help="translate again what is marked as unsure")
    parser.add_argument(
        "--exact",
        choices=("model", "copy", "ignore"),
        help="if a memory has an exact match: the model decides (default), its target is final, or it is left out",
    )
    parser.add_argument("--html", metavar="PAGE", type=Path, help="also write a page for reviewers, or the analysis")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--analyse", action="store_true", help="only count segments and words per match band")
    work.add_argument("--qa", action="store_true", help="only check translations; exit with 1 if something is wrong")
    return parser


def translate(options: argparse.Namespace, rest: list[str]) -> None:
    """Translate the files, and print what became of them."""
    from fairseq_seg.localize.files import find_jobs
    from fairseq_seg.localize.review import ReviewPage
    from fairseq_seg.localize.run import translate_files

    lang = ModelFolder.load(options.model).target_lang
    jobs = find_jobs(options.files, options.output, lang, options.format)
    named = {"memory": options.memory, "memory_exact": options.exact}
    given = {name: value for name, value in named.items() if value is not None}
    page = ReviewPage(options.html) if options.html else None
    outcome = translate_files(
        options.model,
        jobs,
        fuzzy=options.fuzzy,
        format=options.format,
        show=page.add if page else None,
        arguments=rest,
        **given,
    )
    if page is not None:
        page.write()
    if options.json:
        print(json.dumps({name: asdict(counts) for name, counts in outcome.counts.items()}, ensure_ascii=False))
    for name, counts in () if options.json else outcome.counts.items():
        print(visible(f"{name}: {counts}"))
    report(outcome.errors)


def analyse(options: argparse.Namespace) -> None:
    """Count what is in the files, and print or write the tables."""
    from fairseq_seg.localize import analysis
    from fairseq_seg.localize.files import find_jobs

    folder = ModelFolder.load(options.model)
    jobs = find_jobs(options.files, None, folder.target_lang, options.format)
    files, errors = analysis.analyse(folder, jobs, options.memory, options.fuzzy, options.format)
    if options.html:
        analysis.write_page(options.html, analysis.as_html(files, "Analysis"))
    if options.json:
        print(json.dumps(analysis.as_json(files), ensure_ascii=False))
    elif files:
        print(visible_lines(analysis.as_text(files)))
    report(errors)


def check(options: argparse.Namespace) -> None:
    """Check the translations in the files, and print what was found."""
    from fairseq_seg.localize import quality
    from fairseq_seg.localize.files import find_jobs

    folder = ModelFolder.load(options.model)
    langs = folder.source_lang, folder.target_lang
    jobs = find_jobs(options.files, None, folder.target_lang, options.format)
    findings, segments, errors = quality.check_files(jobs, langs, options.format)
    if options.json:
        print(json.dumps(quality.as_json(findings, segments), ensure_ascii=False))
    else:
        print(visible_lines(quality.as_text(findings, segments)))
    report(errors)
    if any(not finding.doubt for finding in findings):
        sys.exit(1)


def visible_lines(text: str) -> str:
    """Make lines safe for a terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def report(errors: Sequence[SegError]) -> None:
    """Say which files could not be used, and end with 1 if there are any."""
    for error in errors:
        print(visible(str(error)), file=sys.stderr)
    if errors:
        sys.exit(1)


@command("seg-translate", stopped="stopped. Repeat the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options, rest = get_parser().parse_known_args(arguments)
    if (options.analyse or options.qa) and rest:
        raise SegError(f"{rest[0]} is not an option of --analyse or --qa: leave it out.")
    if options.html and (options.qa or not options.html.parent.is_dir() or not os.access(options.html.parent, os.W_OK)):
        raise SegError(f"--html {options.html} cannot be written: create its folder first, and leave it out with --qa.")
    warnings.filterwarnings("ignore", category=UserWarning)  # from hydra, about how fairseq calls it
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    if options.analyse:
        analyse(options)
    elif options.qa:
        check(options)
    else:
        translate(options, rest)


if __name__ == "__main__":
    main()
