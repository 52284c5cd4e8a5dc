"""The input of seg-explain: sentences with their references and translations, typed, from files or from a split."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairseq_seg.corpus.dictionary import mostly_unknown
from fairseq_seg.corpus.subwords import SubwordModel, SymbolEncoder, check_protection
from fairseq_seg.errors import SegError
from fairseq_seg.files import read_lines, read_text_file
from fairseq_seg.source.pair_source import PairSource, Stored, open_for_split

if TYPE_CHECKING:
    from fairseq_seg.translator import Session


class Sentence(NamedTuple):
    """A sentence to explain, with its reference and translation if there are any."""

    symbols: np.ndarray  # token ids, without eos
    text: str
    reference: str | None = None
    translation: np.ndarray | None = None  # token ids, without eos


def somebody_types(options: argparse.Namespace) -> bool:
    """Return whether sentences are typed, without references or translations."""
    files = options.gen_subset or options.translations or options.references
    return options.input == "-" and not files and sys.stdin.isatty()


def read_sentences(session: Session, options: argparse.Namespace) -> tuple[Iterable[Sentence], PairSource | None]:
    """Return the sentences, and the source of their pairs."""
    if somebody_types(options):
        return (as_sentence(session, line.strip()) for line in sys.stdin), session.live
    if options.gen_subset is None:
        if options.input == "-":
            lines = [line.strip() for line in read_lines(sys.stdin.buffer, "--input -")]
        else:
            lines = named_lines(options.input, "--input")
        return add_files([as_sentence(session, line) for line in lines], session, options), session.live
    sentences = add_files(split_sentences(session, options.gen_subset), session, options)
    if session.live is None:
        return sentences, None
    source = open_for_split(session.data, options.gen_subset, session.task.wanted, may_search=True)
    found = source.retrieve(session.task.sequences([sentence.symbols for sentence in sentences]))
    return sentences, Stored(found, source.signature)


def as_sentence(session: Session, line: str) -> Sentence:
    """Return a typed sentence."""
    return Sentence(session.symbols_of(line), line)


def split_sentences(session: Session, split: str) -> list[Sentence]:
    """Return the sentences of a split; its target side, if it has one, is the reference."""
    source, target = session.data.sides(split)
    texts = session.source_spelling.texts(source)
    references = [None] * len(source) if target is None else session.target_spelling.texts(target)
    sentences = [Sentence(*row) for row in zip(source, texts, references, strict=True)]
    if source.values is None:
        return sentences
    give = session.task.source_dictionary.with_values
    return [s._replace(symbols=give(s.symbols, own)) for s, own in zip(sentences, source.values, strict=True)]


def named_lines(path: str, option: str) -> list[str]:
    """Return the stripped lines of the file that an option names."""
    return [line.strip() for line in read_text_file(path, f"{option} {path}")]


def add_files(sentences: list[Sentence], session: Session, options: argparse.Namespace) -> list[Sentence]:
    """Add the references and translations that the options name to the sentences."""
    for option, path in (("--references", options.references), ("--translations", options.translations)):
        if path is None:
            continue
        lines = named_lines(path, option)
        if len(lines) != len(sentences):
            raise SegError(
                f"{option} {path} has {len(lines)} lines but there are {len(sentences)} sentences: give one line per "
                "sentence."
            )
        if option == "--references":
            sentences = [s._replace(reference=line) for s, line in zip(sentences, lines, strict=True)]
        else:
            encoded = encode_translations(lines, [sentence.text for sentence in sentences], session, options)
            sentences = [s._replace(translation=ids) for s, ids in zip(sentences, encoded, strict=True)]
    return sentences


def encode_translations(
    lines: list[str], sources: list[str], session: Session, options: argparse.Namespace
) -> list[np.ndarray]:
    """Return finished translations of some texts as token ids."""
    dictionary, model = session.task.target_dictionary, None
    if options.target_sentencepiece_model:
        model = SubwordModel(Path(options.target_sentencepiece_model))
        check_protection(dictionary.symbols, model, f"The dictionary of {session.data.folder}")
    encoder = SymbolEncoder(dictionary.symbols, None)
    if model is None:
        encoded = [encoder.encode(line) for line in lines]
    else:
        protections = session.task.protections
        of_source = None if protections is None else protections[0]
        cuts = [model.cut_target(line, source, of_source) for line, source in zip(lines, sources, strict=True)]
        encoded = [encoder.ids(cut.symbols) for cut in cuts]
        if of_source is not None:
            encoded = [dictionary.with_values(ids, cut.values) for ids, cut in zip(encoded, cuts, strict=True)]
    if encoded and mostly_unknown(np.concatenate(encoded)):
        raise SegError(
            f"Most words of --translations {options.translations} are not in the target dictionary: give them in the "
            "model's symbols, or add --target-sentencepiece-model."
        )
    return encoded
