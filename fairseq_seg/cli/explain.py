"""seg-explain: translate, and show which retrieved pair each word of a translation came from."""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.errors import SegError
from fairseq_seg.files import write_whole

if TYPE_CHECKING:
    from fairseq.dataclass.configs import FairseqConfig

    from fairseq_seg.cli.explain_input import AttachedPairs, Sentence
    from fairseq_seg.explain.trace import Explanation
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

BATCH_SIZE = 16


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-explain",
        usage="seg-explain DATA-BIN --path CHECKPOINT [option ...]",
        description="Translate sentences, and show which retrieved pair each word came from.",
        epilog="All other options are those of fairseq-interactive with --task seg_translation: --beam, --lenpen, "
        "--memory-k, --memory-select, --bpe, --sentencepiece-model, --batch-size, --cpu ...",
        allow_abbrev=False,
    )
    parser.add_argument("--path", required=True, metavar="CHECKPOINT", help="the model to explain")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--input", default="-", metavar="FILE", help="sentences, one a line; default: standard input")
    source.add_argument("--gen-subset", metavar="SPLIT", help="take the sentences of a split of the data-bin instead")
    parser.add_argument(
        "--translations",
        metavar="FILE",
        help="explain these translations, one a line, and do not translate; in the model's symbols, or see below",
    )
    parser.add_argument(
        "--target-sentencepiece-model", metavar="FILE", help="--translations is plain text: cut it with this model"
    )
    parser.add_argument("--references", metavar="FILE", help="show these reference translations, one a line")
    parser.add_argument(
        "--baseline", metavar="CHECKPOINT", help="compare with this model; default: with the same one without memory"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print a JSON object a line instead of text for people")
    output.add_argument("--html", metavar="FILE", help="write one page that needs no other file")
    return parser


class Translator:
    """A loaded checkpoint that can translate."""

    def __init__(self, path: str, task: SegTranslationTask, cfg: FairseqConfig):
        import torch
        from fairseq import checkpoint_utils

        from fairseq_seg.models.seg_gru import SegGRUModel

        try:
            [self.model], saved = checkpoint_utils.load_model_ensemble([path], task=task)
        except OSError:
            raise SegError(f"The checkpoint {path} does not exist or cannot be read.") from None
        except (RuntimeError, EOFError, LookupError, pickle.UnpicklingError):
            raise SegError(f"{path} is no checkpoint of a fairseq model, or it was cut short.") from None
        if not isinstance(self.model, SegGRUModel):
            raise SegError(f"{path} is no seg_gru model: it has no memory to explain.")
        self.name, self.trained_k = Path(path).name, saved.task.memory_k
        if torch.cuda.is_available() and not cfg.common.cpu:
            self.model.cuda()
        self.model.prepare_for_inference_(cfg)
        self.generator = task.build_generator([self.model], cfg.generation)


def without_memory(task: SegTranslationTask) -> SegTranslationTask:
    """The same task with --memory-k 0."""
    cfg = copy.deepcopy(task.cfg)
    cfg.memory_k = 0
    return type(task)(cfg, task.source_dictionary, task.target_dictionary)


def set_up(options: argparse.Namespace, rest: list[str]) -> tuple[FairseqConfig, SegTranslationTask]:
    """Read fairseq's options and set up the task."""
    from fairseq import options as fairseq_options
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_seg.tasks.seg_translation import SegTranslationTask

    parser = fairseq_options.get_interactive_generation_parser("seg_translation")
    parser.prog, parser.usage = "seg-explain", get_parser().usage
    cfg = convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, [*rest, "--path", options.path]))
    task = tasks.setup_task(cfg.task)
    if not isinstance(task, SegTranslationTask):
        raise SegError("seg-explain knows --task seg_translation alone: leave out --task.")
    return cfg, task


def read_sentences(
    options: argparse.Namespace, cfg: FairseqConfig, task: SegTranslationTask, plain: SegTranslationTask
) -> tuple[Iterable[Sentence], AttachedPairs | None]:
    """The sentences, and where seg-attach retrieved for them and nothing else is asked for, what it found."""
    from fairseq_seg.cli.explain_input import AttachedPairs, split_sentences, typed_sentences
    from fairseq_seg.corpus.attached import attached_path
    from fairseq_seg.source.memories import TRAIN

    if options.gen_subset is None:
        return typed_sentences(task, cfg, options), None
    path = attached_path(cfg.task.data, options.gen_subset, task.cfg.source_lang, task.cfg.target_lang)
    live = task.cfg.memory != TRAIN or str(task.cfg.memory_exact) != "model" or not path.exists()
    if live or task.cfg.memory_k == 0:
        plain.load_dataset(options.gen_subset)
        return split_sentences(plain, options), None
    task.load_dataset(options.gen_subset)  # which also checks that the attached file belongs to the data
    return split_sentences(task, options), AttachedPairs(task, path)


def explain_batches(options: argparse.Namespace, rest: list[str]) -> Iterator[list[Explanation]]:
    """Translate, unless translations are given, and explain; a batch at a time, or a sentence where somebody types."""
    from tqdm import tqdm

    from fairseq_seg.cli.explain_input import somebody_types
    from fairseq_seg.explain.trace import Baseline, Spelling, explain, translate, with_memory

    cfg, task = set_up(options, rest)
    plain = without_memory(task)
    sentences, attached = read_sentences(options, cfg, task, plain)
    ours = Translator(options.path, task, cfg)
    other = Translator(options.baseline, plain, cfg) if options.baseline else ours
    label = "NMT: " if other.trained_k == 0 else "SEG without memory: "
    label += other.name if options.baseline else f"{other.name}, the same checkpoint"
    compare = options.baseline or task.cfg.memory_k > 0
    spelling, waits = Spelling(task.target_dictionary), somebody_types(options)
    progress = tqdm(desc="explaining", unit=" sentences", total=None if waits else len(sentences), disable=waits)
    stream, done = iter(sentences), 0
    while batch := list(islice(stream, 1 if waits else cfg.dataset.batch_size or BATCH_SIZE)):
        tokens = [sentence.tokens for sentence in batch]
        pairs, found = None, None
        if attached is not None:
            pairs, found = attached, attached.retrieve(range(done, done + len(batch)))
        elif task.cfg.memory_k > 0:
            pairs, found = task.live, task.live.retrieve(tokens)
            task.exact = task.exact_matches(tokens, found, task.live.pairs)
        dataset = with_memory(task, tokens, found, pairs)
        if options.translations:
            translations = [sentence.translation for sentence in batch]
        else:
            translations = translate(task, ours.generator, ours.model, dataset)
        explained = explain(ours.model, dataset, translations, found, pairs)
        for sentence, explanation in zip(batch, explained, strict=True):
            explanation.source, explanation.reference = sentence.text, sentence.reference
            explanation.exact = not options.translations and tuple(sentence.tokens.tolist()) in task.exact
        if compare:
            compared = translate(plain, other.generator, other.model, with_memory(plain, tokens))
            for explanation, translation in zip(explained, compared, strict=True):
                explanation.baseline = Baseline(label, spelling.text(translation))
        done += len(batch)
        progress.update(len(batch))
        yield explained
    progress.close()


def run(options: argparse.Namespace, rest: list[str]) -> None:
    """Explain, and show it as the options ask."""
    from fairseq_seg.explain.trace import html as explain_html
    from fairseq_seg.explain.trace import terminal as explain_terminal

    if options.html:
        page = Path(options.html)
        if not page.parent.is_dir() or not os.access(page.parent, os.W_OK):
            raise SegError(f"--html {page} cannot be written: make its folder first, or name another.")
        collected = [explanation for batch in explain_batches(options, rest) for explanation in batch]
        text = explain_html.render(collected, f"Provenance of translations by {Path(options.path).name}")
        with write_whole(page) as stream:
            stream.write(text.encode())
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    if not options.json:
        print(explain_terminal.legend(colour) + "\n")
    for explanation in (explanation for batch in explain_batches(options, rest) for explanation in batch):
        if options.json:
            print(json.dumps(explanation.as_dict(), ensure_ascii=False))
        else:
            print(explain_terminal.render(explanation, colour))
        sys.stdout.flush()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options, rest = get_parser().parse_known_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)  # of hydra, about the way in which fairseq calls it
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("fairseq_seg.tasks").setLevel(logging.INFO)  # which memory is used, and how
    try:
        run(options, rest)
    except KeyboardInterrupt:
        sys.exit("seg-explain: stopped.")
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
