"""seg-evaluate: compare systems on a whole split, as a table, JSON, figures and one page."""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.cli.options import add_data_bin
from fairseq_seg.errors import SegError, command, need
from fairseq_seg.files import write_whole

if TYPE_CHECKING:
    from fairseq_seg.evaluate.report import Report

EPILOG = """\
A system is a name and one or more outputs, one per seed. Each output is one of
  a text file                       one detokenised line per sentence
  the output of fairseq-generate    complete; its log is read from the same file or from beside it (.err, .log)
  a checkpoint (.pt) and options    translated now with beam 5 by stock fairseq-generate, and kept beside the report

example:
  seg-evaluate data-bin --references test.fr --html report.html \\
      --system NMT "nmt.pt --memory-k 0" --system "SEG K=2" seg-s1.gen seg-s2.gen \\
      --sweep seg.pt --examples "seg.pt --memory-k 2" --log NMT nmt.log --log "SEG K=2" seg.log
"""


def get_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="seg-evaluate",
        description="Score systems on a split of an attached data-bin, and compare them with TM, the copied target of "
        "the best retrieved pair.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data_bin(parser, "a data-bin that seg-attach has run on")
    parser.add_argument("--split", default="test", help="the split to score (default: test)")
    parser.add_argument(
        "--references", metavar="FILE", help="detokenised references (default: the binarized target side)"
    )
    parser.add_argument(
        "--system", nargs="+", action="append", default=[], metavar=("NAME", "OUTPUT"), help="a system, see below"
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="the system to test the others against (default: NMT if given, else TM)"
    )
    parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="K=OUTPUT",
        help="outputs of one model with K = 1, 2, ... 'adaptive' pairs, or one checkpoint to translate with each K",
    )
    parser.add_argument(
        "--log",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "FILE"),
        help="the --log-file of a training run (--log-format simple or json)",
    )
    parser.add_argument(
        "--examples",
        metavar="FILE",
        help="output of seg-explain --json, or a checkpoint and options: shows gates in the page's examples",
    )
    parser.add_argument(
        "--terms",
        metavar="FILE",
        help="a list of terms (source term, tab, target term): shows how many are translated as it says",
    )
    parser.add_argument(
        "--judge",
        metavar="CHECKPOINT",
        help="a checkpoint and options: shows the wrong copies in all translations, by this model's attention",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as one page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write every figure as PNG and SVG")
    return parser


def evaluate(options: argparse.Namespace, command_line: str) -> Report:
    """Read or generate the translations, and score them."""
    from fairseq_seg.corpus.terms import Terms
    from fairseq_seg.evaluate.copies import check_judge, judge_copies
    from fairseq_seg.evaluate.curves import read_curve
    from fairseq_seg.evaluate.examples import examples_of_outputs, explained_examples
    from fairseq_seg.evaluate.outputs import System
    from fairseq_seg.evaluate.quality import measure_quality
    from fairseq_seg.evaluate.report import Report
    from fairseq_seg.evaluate.scores import score_systems
    from fairseq_seg.evaluate.split import load_split
    from fairseq_seg.evaluate.systems import read_run, read_sweep, translation_memory

    for option, given in (("--system", options.system), ("--log", options.log)):
        for name, *files in given:
            if not files:
                raise SegError(f"{option} {name} names no file: write {option} NAME FILE.")
    names = ["TM", *(name for name, *_ in options.system)]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise SegError(
            f"Two systems are called {repeated}: give each its own name (TM is always included), and list the seeds of "
            "one system together."
        )
    baseline = options.baseline or ("NMT" if "NMT" in names else "TM")
    if baseline not in names:
        raise SegError(f"--baseline {baseline} is not one of the systems: choose from {', '.join(names)}.")
    # Cheap input is read first, so that a misspelt file is reported before anything is translated.
    split = load_split(options.data, options.split, options.source_lang, options.target_lang, options.references)
    terms = Terms.read(options.terms) if options.terms else None
    if options.judge:
        check_judge(options.judge, split)
    curves = [read_curve(name, files) for name, *files in options.log]
    kept = (options.html or options.json or Path("seg-evaluate")).with_suffix(".outputs")
    systems = [translation_memory(split)]
    for name, *outputs in options.system:
        systems.append(System(name, [read_run(name, output, split, kept) for output in outputs]))
    sweep = read_sweep(options.sweep, split, kept)
    scores = score_systems(split, systems, baseline)
    swept = score_systems(split, [systems[0], *sweep], "TM").systems[1:] if sweep else []
    copies = judge_copies(options.judge, split, systems, kept) if options.judge else None
    quality = measure_quality(split, systems, baseline, terms, copies)
    report = Report(split, scores, swept, curves, [], command_line, quality, options.judge or "")
    best = report.best_system()
    if best is None and options.examples:
        raise SegError("--examples compares a system with the baseline: name both with --system.")
    if best is not None:
        shown = next((name for name, *outputs in options.system if outputs[0] == options.examples), None)
        compared = shown or best.name, baseline
        ours, theirs = (next(system for system in systems if system.name == name) for name in compared)
        if options.examples:
            same = shown is not None
            report.examples = explained_examples(options.examples, split, ours, theirs, kept, same)
        else:
            report.examples = examples_of_outputs(split, ours, theirs)
    return report


def run(options: argparse.Namespace, command_line: str) -> None:
    """Evaluate, and write the report in the forms that the options ask for."""
    for path in (options.html, options.json):
        if path and not path.parent.is_dir():
            raise SegError(f"{path} cannot be written: create its folder first, or name another file.")
    need("sacremoses", "evaluate", "seg-evaluate")
    for option, path in (("--html", options.html), ("--figures", options.figures)):
        if path:
            need("matplotlib", "evaluate", option)
    report = evaluate(options, command_line)
    print(report.as_text())
    if options.json:
        with write_whole(options.json) as stream:
            stream.write((json.dumps(report.as_dict(), ensure_ascii=False, indent=1) + "\n").encode())
    if options.figures:
        from fairseq_seg.evaluate.figures import save_figures

        save_figures(report, options.figures)
    if options.html:
        from fairseq_seg.evaluate.html import render_page

        with write_whole(options.html) as stream:
            stream.write(render_page(report).encode())
    written = [str(path) for path in (options.json, options.figures, options.html) if path]
    if written:
        print(f"\nWritten: {', '.join(written)}")


@command("seg-evaluate", stopped="stopped. Rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    run(get_parser().parse_args(arguments), shlex.join(["seg-evaluate", *arguments]))


if __name__ == "__main__":
    main()
