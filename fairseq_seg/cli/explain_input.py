"""What seg-explain is to explain: sentences, and what stands beside them, from a keyboard, files or a split."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fairseq_seg.corpus.attached import AttachedPairs
from fairseq_seg.errors import SegError
from fairseq_seg.explain.trace import Spelling
from fairseq_seg.source.live import Retrieved
from fairseq_seg.tasks.seg_translation import SegTranslationTask


class Sentence(NamedTuple):
    """A sentence to explain and what is known of it."""

    tokens: Tensor  # ids with eos
    text: str
    reference: str | None = None
    translation: Tensor | None = None  # ids with eos


class AttachedPairs:
    """The pairs that seg-attach put beside a split, with the face of live retrieval."""

    def __init__(self, task: SegTranslationTask, path: Path):
        cfg = task.cfg
        self.attached = AttachedPairs.load(path)
        self.home = self.attached.memory_data or ""
        self.source, self.target = task.memory_sides(os.path.join(cfg.data, self.home) if self.home else cfg.data)
        self.choice = cfg.memory_k, str(cfg.memory_select), cfg.memory_min_score

    def retrieve(self, examples: range) -> Retrieved:
        """The pairs of some examples of the split."""
        rows = [self.attached.select(example, *self.choice) for example in examples]
        ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in rows)])
        scores = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in rows)])
        return Retrieved(np.cumsum([0, *(len(ids) for ids, _ in rows)]), ids, scores)

    def id(self, pair: int) -> int:
        """The pair's row in the training set, or in the memory that was attached."""
        return pair

    def origin(self, pair: int) -> str:
        """Where a pair stands."""
        return f"train:{pair}" + (f" ({self.home})" if self.home else "")


def somebody_types(options: argparse.Namespace) -> bool:
    """Whether sentences come from a keyboard, and have nothing beside them."""
    files = options.gen_subset or options.translations or options.references
    return options.input == "-" and not files and sys.stdin.isatty()


def typed_sentences(task: SegTranslationTask, cfg, options: argparse.Namespace) -> Iterable[Sentence]:
    """Sentences from a file or standard input; one by one where somebody types them."""
    tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
    spelling = Spelling(task.source_dictionary)

    def encode(line: str) -> Sentence:
        for step in (tokenizer, bpe):
            line = line if step is None else step.encode(line)
        # The words as typed, also those that the dictionary does not know.
        text = " ".join(word for word, _ in spelling.words(line.split()))
        return Sentence(task.source_dictionary.encode_line(line, add_if_not_exist=False).long(), text)

    if somebody_types(options):
        return (encode(line.strip()) for line in sys.stdin)
    return _add_files([encode(line) for line in _read_lines(options.input, "--input")], task, options)


def split_sentences(task: SegTranslationTask, options: argparse.Namespace) -> list[Sentence]:
    """The sentences of a loaded split; its target side, if it has one, is the reference."""
    dataset = task.dataset(options.gen_subset)
    source, target = Spelling(task.source_dictionary), Spelling(task.target_dictionary)
    sentences = []
    for index in range(len(dataset)):
        reference = None if dataset.tgt is None else target.text(dataset.tgt[index])
        sentences.append(Sentence(dataset.src[index], source.text(dataset.src[index]), reference))
    return _add_files(sentences, task, options)


def _read_lines(path: str, option: str) -> list[str]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SegError(f"{option} {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SegError(f"{option} {path} is not UTF-8 text: convert it first.") from None
    return [line.strip() for line in text.removesuffix("\n").split("\n")] if text else []


def _add_files(sentences: list[Sentence], task: SegTranslationTask, options: argparse.Namespace) -> list[Sentence]:
    """Put the references and translations that the options name beside the sentences."""
    for option, path in (("--references", options.references), ("--translations", options.translations)):
        if path is None:
            continue
        lines = _read_lines(path, option)
        if len(lines) != len(sentences):
            raise SegError(
                f"{option} {path} has {len(lines)} lines for {len(sentences)} sentences: give one line a sentence."
            )
        if option == "--references":
            beside = [{"reference": line} for line in lines]
        else:
            beside = [{"translation": tokens} for tokens in _encode_translations(lines, task, options)]
        sentences = [sentence._replace(**known) for sentence, known in zip(sentences, beside, strict=True)]
    return sentences


def _encode_translations(lines: list[str], task: SegTranslationTask, options: argparse.Namespace) -> list[Tensor]:
    """Finished translations as token ids with eos."""
    if options.target_sentencepiece_model:
        from sentencepiece import SentencePieceProcessor

        try:
            pieces = SentencePieceProcessor(model_file=options.target_sentencepiece_model)
        except (OSError, RuntimeError):
            raise SegError(
                f"--target-sentencepiece-model {options.target_sentencepiece_model} is no sentencepiece model."
            ) from None
        lines = [" ".join(pieces.encode(line, out_type=str)) for line in lines]
    dictionary = task.target_dictionary
    encoded = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
    unknown = sum(int(tokens.eq(dictionary.unk()).sum()) for tokens in encoded)
    if unknown > sum(len(tokens) - 1 for tokens in encoded) / 2:
        raise SegError(
            f"Most words of --translations {options.translations} are not in the target dictionary: give them in the "
            "model's symbols, or name --target-sentencepiece-model."
        )
    return encoded
