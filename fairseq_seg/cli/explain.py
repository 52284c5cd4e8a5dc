"""seg-explain: translate, and show which retrieved pair each word of a translation came from."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path

from fairseq_seg.errors import SegError, command
from fairseq_seg.explain.records import Baseline, Explanation
from fairseq_seg.files import write_whole

BATCH_SIZE = 16


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-explain",
        usage="seg-explain MODEL [option ...]\n       seg-explain DATA-BIN --path CHECKPOINT [option ...]",
        description="Translate sentences, and show which retrieved pair each word came from.",
        epilog="All other options are those of fairseq-interactive with --task seg_translation: --beam, --lenpen, "
        "--memory-k, --memory-select, --bpe, --sentencepiece-model, --batch-size, --cpu ...",
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="MODEL", help="a model folder, or a data-bin with --path")
    parser.add_argument(
        "--path", metavar="CHECKPOINT", help="the model to explain (default: the checkpoint in the model folder)"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--input", default="-", metavar="FILE", help="sentences, one per line (default: standard input)"
    )
    source.add_argument("--gen-subset", metavar="SPLIT", help="explain a split of the data-bin instead")
    parser.add_argument(
        "--translations",
        metavar="FILE",
        help="explain these translations, one per line, instead of translating; in the model's symbols, unless "
        "--target-sentencepiece-model is given",
    )
    parser.add_argument(
        "--target-sentencepiece-model",
        metavar="FILE",
        help="encode --translations, which is plain text, with this model",
    )
    parser.add_argument("--references", metavar="FILE", help="show these reference translations, one per line")
    parser.add_argument(
        "--baseline", metavar="CHECKPOINT", help="compare with this model (default: the same model without memory)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON Lines instead of text")
    output.add_argument("--html", metavar="FILE", help="write one self-contained page")
    return parser


def explain_batches(options: argparse.Namespace, rest: list[str]) -> Iterator[list[Explanation]]:
    """Translate, unless translations are given, and explain, in batches or sentence by sentence as they are typed."""
    from tqdm import tqdm

    from fairseq_seg.cli.explain_input import read_sentences, somebody_types
    from fairseq_seg.translator import Session, Translator

    with ExitStack() as stack:
        ours = stack.enter_context(Translator(options.data, checkpoint=options.path, arguments=rest))
        session = ours.call(lambda session: session)
        sentences, source = ours.call(lambda session: read_sentences(session, options))
        other = ours
        if options.baseline:
            baseline = Translator(options.data, checkpoint=options.baseline, arguments=rest, memory_k=0)
            other = stack.enter_context(baseline)
        label = "NMT: " if other.call(lambda session: session.trained_k) == 0 else "SEG without memory: "
        label += Path(options.baseline or session.checkpoint).name
        label += "" if options.baseline else ", the same checkpoint"
        compare = options.baseline or source is not None
        waits = somebody_types(options)
        total = len(sentences) if isinstance(sentences, list) else None
        size = 1 if waits else session.cfg.dataset.batch_size or BATCH_SIZE
        progress = tqdm(desc="explaining", unit=" sentences", total=total, disable=waits)
        stream, done = iter(sentences), 0
        while batch := list(islice(stream, size)):
            symbols = [sentence.symbols for sentence in batch]
            given = [s.translation for s in batch if s.translation is not None] if options.translations else None
            translate = partial(Session.translate_symbols, sentences=symbols)
            translations = ours.call(partial(translate, source=source, provenance=True, first=done, given=given))
            compared = other.call(partial(translate, source=None)) if compare else None
            explained = []
            for place, sentence in enumerate(batch):
                explanation = translations[place].explanation
                assert explanation is not None
                explanation.source, explanation.reference = sentence.text, sentence.reference
                if compared is not None:
                    explanation.baseline = Baseline(label, compared[place].text)
                explained.append(explanation)
            done += len(batch)
            progress.update(len(batch))
            yield explained
        progress.close()


def run(options: argparse.Namespace, rest: list[str]) -> None:
    """Explain, and print or write the result as the options ask."""
    from fairseq_seg.explain import html, terminal

    if options.html:
        page = Path(options.html)
        if not page.parent.is_dir() or not os.access(page.parent, os.W_OK):
            raise SegError(f"--html {page} cannot be written: create its folder first, or name another file.")
        collected = [explanation for batch in explain_batches(options, rest) for explanation in batch]
        text = html.render(collected, f"Provenance of translations by {Path(options.path or options.data).name}")
        with write_whole(page) as stream:
            stream.write(text.encode())
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if not options.json:
        print(terminal.legend(colour) + "\n")
    for explanation in (explanation for batch in explain_batches(options, rest) for explanation in batch):
        if options.json:
            print(json.dumps(asdict(explanation), ensure_ascii=False))
        else:
            print(terminal.render(explanation, colour))
        sys.stdout.flush()


@command("seg-explain")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options, rest = get_parser().parse_known_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)  # from hydra, about how fairseq calls it
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("fairseq_seg.tasks").setLevel(logging.INFO)  # which memory is used, and how
    run(options, rest)


if __name__ == "__main__":
    main()
