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
from typing import TYPE_CHECKING, NamedTuple

from fairseq_seg.errors import SegError

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_seg.data.live import Retrieved
    from fairseq_seg.data.seg_dataset import SegDataset
    from fairseq_seg.explain import Explanation
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


class AttachedPairs:
    """The pairs that seg-attach put beside a split, with the face of live retrieval."""

    def __init__(self, task: SegTranslationTask, path: Path):
        from fairseq_seg.data.attached import AttachedMemory

        cfg = task.cfg
        self.attached = AttachedMemory.load(path)
        self.home = self.attached.memory_data or ""
        self.source, self.target = task.memory_sides(os.path.join(cfg.data, self.home) if self.home else cfg.data)
        self.choice = cfg.memory_k, str(cfg.memory_select), cfg.memory_min_score

    def retrieve(self, indices: range) -> Retrieved:
        """The pairs of some examples of the split."""
        import numpy as np

        from fairseq_seg.data.live import Retrieved

        rows = [self.attached.select(index, *self.choice) for index in indices]
        ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in rows)])
        scores = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in rows)])
        return Retrieved(np.cumsum([0, *(len(ids) for ids, _ in rows)]), ids, scores)

    def origin(self, pair: int) -> str:
        """Where a pair stands."""
        return f"{self.home} train:{pair}".strip()


class Sentence(NamedTuple):
    """A sentence to explain and what is known of it."""

    tokens: Tensor  # ids with eos
    text: str | None = None  # as it was typed
    reference: str | None = None
    translation: Tensor | None = None  # ids with eos


def read_lines(path: str, option: str) -> list[str]:
    """The lines of a file, or of standard input where it is called -."""
    try:
        data = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SegError(f"{option} {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SegError(f"{option} {path} is not UTF-8 text: convert it first.") from None
    return [line.strip() for line in data.removesuffix("\n").split("\n")] if data else []


def beside(path: str | None, option: str, count: int) -> list[str | None]:
    """The lines of a file that belong to `count` sentences; None for each where no file is named."""
    if path is None:
        return [None] * count
    lines = read_lines(path, option)
    if len(lines) != count:
        raise SegError(f"{option} {path} has {len(lines)} lines for {count} sentences: give one line a sentence.")
    return lines


def encode_translations(lines: list[str], options: argparse.Namespace, dictionary) -> list[Tensor]:
    """Finished translations as token ids with eos."""
    if options.target_sentencepiece_model:
        import sentencepiece

        try:
            pieces = sentencepiece.SentencePieceProcessor(model_file=options.target_sentencepiece_model)
        except (OSError, RuntimeError):
            raise SegError(
                f"--target-sentencepiece-model {options.target_sentencepiece_model} is no sentencepiece model."
            ) from None
        lines = [" ".join(pieces.encode(line, out_type=str)) for line in lines]
    encoded = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    unknown = sum(int(tokens.eq(dictionary.unk()).sum()) for tokens in encoded)
    if unknown > sum(len(tokens) - 1 for tokens in encoded) / 2:
        raise SegError(
            f"Most words of --translations {options.translations} are not in the target dictionary: give them in the "
            "model's symbols, or name --target-sentencepiece-model."
        )
    return encoded


def typed_sentences(task: SegTranslationTask, cfg, options: argparse.Namespace) -> Iterable[Sentence]:
    """Sentences from a file or standard input; one by one where somebody types them."""
    from fairseq_seg.explain import Spelling

    tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
    spelling = Spelling(task.source_dictionary)

    def encode(line: str) -> Sentence:
        symbols = line
        for step in (tokenizer, bpe):
            symbols = symbols if step is None else step.encode(symbols)
        # The words as typed, also those that the dictionary does not know.
        text = " ".join(word for word, _ in spelling.words(symbols.split()))
        return Sentence(task.source_dictionary.encode_line(symbols, add_if_not_exist=False).long(), text)

    if somebody_types(options):
        return (encode(line.strip()) for line in sys.stdin)
    return add_files([encode(line) for line in read_lines(options.input, "--input")], task, options)


def somebody_types(options: argparse.Namespace) -> bool:
    """Whether sentences come from a keyboard, and have nothing beside them."""
    files = options.gen_subset or options.translations or options.references
    return options.input == "-" and not files and sys.stdin.isatty()


def split_sentences(task: SegTranslationTask, options: argparse.Namespace) -> list[Sentence]:
    """The sentences of a loaded split; its target side, if it has one, is the reference."""
    from fairseq_seg.explain import Spelling

    dataset, spelling = task.dataset(options.gen_subset), Spelling(task.target_dictionary)
    sentences = [Sentence(dataset.src[index]) for index in range(len(dataset))]
    if dataset.tgt is not None:
        sentences = [
            sentence._replace(reference=spelling.text(dataset.tgt[index])) for index, sentence in enumerate(sentences)
        ]
    return add_files(sentences, task, options)


def add_files(sentences: list[Sentence], task: SegTranslationTask, options: argparse.Namespace) -> list[Sentence]:
    """Put the translations and references that the options name beside the sentences."""
    references = beside(options.references, "--references", len(sentences))
    translations: list = beside(options.translations, "--translations", len(sentences))
    if options.translations:
        translations = encode_translations(translations, options, task.target_dictionary)
    return [
        sentence._replace(reference=reference or sentence.reference, translation=translation)
        for sentence, reference, translation in zip(sentences, references, translations, strict=True)
    ]


class Translator:
    """A loaded checkpoint that can translate."""

    def __init__(self, path: str, task: SegTranslationTask, cfg):
        import torch
        from fairseq import checkpoint_utils

        from fairseq_seg.models.seg_gru import SegGRUModel

        try:
            [self.model], saved = checkpoint_utils.load_model_ensemble([path], task=task)
        except OSError:
            raise SegError(f"The checkpoint {path} does not exist or cannot be read: correct --path.") from None
        except (RuntimeError, pickle.UnpicklingError):
            raise SegError(f"{path} is no checkpoint of a fairseq model, or it was cut short.") from None
        if not isinstance(self.model, SegGRUModel):
            raise SegError(f"{path} is no seg_gru model: it has no memory to explain.")
        self.name, self.trained_k = Path(path).name, saved.task.memory_k
        if torch.cuda.is_available() and not cfg.common.cpu:
            self.model.cuda()
        self.model.prepare_for_inference_(cfg)
        self.task, self.generator = task, task.build_generator([self.model], cfg.generation)

    def translate(self, dataset: SegDataset) -> list[Tensor]:
        """The best translation of each sentence, token ids with eos."""
        from fairseq_seg.explain import translate

        return translate(self.task, self.generator, self.model, dataset)


def without_memory(task: SegTranslationTask) -> SegTranslationTask:
    """The same task with --memory-k 0."""
    cfg = copy.deepcopy(task.cfg)
    cfg.memory_k = 0
    return type(task)(cfg, task.source_dictionary, task.target_dictionary)


def explain_batches(options: argparse.Namespace, rest: list[str]) -> Iterator[list[Explanation]]:
    """Translate, unless translations are given, and explain; batch after batch, for an end that is known or not."""
    from fairseq import options as fairseq_options
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from tqdm import tqdm

    from fairseq_seg.data.attached import attached_path
    from fairseq_seg.explain import Baseline, Spelling, explain, with_memory
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

    parser = fairseq_options.get_interactive_generation_parser("seg_translation")
    parser.prog, parser.usage = "seg-explain", get_parser().usage
    cfg = convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, [*rest, "--path", options.path]))
    task = tasks.setup_task(cfg.task)
    if not isinstance(task, SegTranslationTask):
        raise SegError("seg-explain knows --task seg_translation alone: leave out --task.")
    plain, retrieval = without_memory(task), None
    if options.gen_subset is None:
        sentences = typed_sentences(task, cfg, options)
    else:
        path = attached_path(cfg.task.data, options.gen_subset, task.cfg.source_lang, task.cfg.target_lang)
        attached = task.cfg.memory_k > 0 and path.exists()
        home = task if attached else plain
        home.load_dataset(options.gen_subset)
        retrieval = AttachedPairs(task, path) if attached else None
        sentences = split_sentences(home, options)

    ours = Translator(options.path, task, cfg)
    baseline, label = None, ""
    if options.baseline or task.cfg.memory_k > 0:
        baseline = Translator(options.baseline or options.path, plain, cfg)
        kind = "NMT" if baseline.trained_k == 0 else "SEG without memory"
        label = f"{kind}: {baseline.name}" + ("" if options.baseline else ", the same checkpoint")
    spelling = Spelling(task.target_dictionary)
    size = 1 if somebody_types(options) else cfg.dataset.batch_size or BATCH_SIZE
    waits = somebody_types(options)
    progress = tqdm(desc="explaining", unit=" sentences", total=None if waits else len(sentences), disable=waits)
    stream, done = iter(sentences), 0
    while batch := list(islice(stream, size)):
        tokens = [sentence.tokens for sentence in batch]
        found = None
        if retrieval is not None:
            found = retrieval.retrieve(range(done, done + len(batch)))
        elif task.cfg.memory_k > 0:
            found = task.live.retrieve(tokens)
        done += len(batch)
        pairs = retrieval or (task.live if found else None)
        dataset = with_memory(task, tokens, found, pairs)
        translations = [sentence.translation for sentence in batch] if options.translations else ours.translate(dataset)
        explained = explain(ours.model, dataset, translations, found, pairs.origin if pairs else None)
        compared = baseline.translate(with_memory(plain, tokens, None, None)) if baseline else [None] * len(batch)
        for sentence, explanation, other in zip(batch, explained, compared, strict=True):
            explanation.source = sentence.text or explanation.source
            explanation.reference = sentence.reference
            explanation.baseline = None if other is None else Baseline(label, spelling.text(other))
        progress.update(len(batch))
        yield explained
    progress.close()


def write_whole(path: Path, text: str) -> None:
    """Write beside, then rename."""
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def run(options: argparse.Namespace, rest: list[str]) -> None:
    """Explain, and show it as the options ask."""
    from fairseq_seg import explain_html, explain_terminal

    if options.html:
        page = Path(options.html)
        if not page.parent.is_dir() or not os.access(page.parent, os.W_OK):
            raise SegError(f"--html {page} cannot be written: make its folder first, or name another.")
        collected = [explanation for batch in explain_batches(options, rest) for explanation in batch]
        write_whole(page, explain_html.render(collected, f"Provenance of translations by {Path(options.path).name}"))
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
    try:
        run(options, rest)
    except KeyboardInterrupt:
        sys.exit("seg-explain: stopped.")
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
