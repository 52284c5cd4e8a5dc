"""What the sentences of a batch and their translations say, with the values of protected tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.protection import Protection
from fairseq_seg.corpus.reserved import parse
from fairseq_seg.corpus.subwords import Spelling, SymbolEncoder
from fairseq_seg.data.valued_dictionary import ValuedDictionary, split_values
from fairseq_seg.errors import SegError
from fairseq_seg.source.terms import TermCutter

if TYPE_CHECKING:
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

SentenceKey = tuple[int, ...]  # the symbols of a sentence


def source_symbols(sample: dict) -> list[SentenceKey]:
    """Return the symbols of a batch's sentences, eos included, as keys."""
    tokens, lengths = (sample["net_input"][name].tolist() for name in ("src_tokens", "src_lengths"))
    return [tuple(row[:length]) for row, length in zip(tokens, lengths, strict=True)]


def with_values(dictionary: ValuedDictionary, tokens: Tensor, values: Sequence[Sequence[str]]) -> Tensor:
    """Give the reserved symbols of padded sentences (B, T) their values."""
    rows = [dictionary.with_values(row, own) for row, own in zip(tokens.cpu().numpy(), values, strict=True)]
    return torch.from_numpy(np.stack(rows)).to(tokens)


class Spellings:
    """The spelling of both sides of a task, and what cuts pieces of target text into symbols."""

    def __init__(self, task: SegTranslationTask):
        self._task = task
        self.dictionaries = task.src_dict, task.tgt_dict
        self.source, self.target = (Spelling(dictionary.symbols) for dictionary in self.dictionaries)

    @property
    def protections(self) -> tuple[Protection, Protection] | None:
        """How tokens of source and target are protected, None if they are not."""
        return self._task.protections

    @cached_property
    def encoder(self) -> SymbolEncoder | None:
        """What cuts target text into symbols, None if the subword model is not known."""
        with suppress(SegError):
            return TermCutter(self._task.data_bin(), self._task.cfg.terms_subwords).encoders[1]
        return None


class BatchTexts:
    """The texts of a batch, as its symbols and values spell them.

    Args:
        sample: a batch whose reserved symbols have their values, see `ValuedDictionary`.
    """

    def __init__(self, spellings: Spellings, sample: dict):
        self._of, self._sample = spellings, sample

    @cached_property
    def _sources(self) -> list[tuple[list[int], list[str]]]:
        """The sentences as the model sees them, and their values."""
        return [split_values(self._of.dictionaries[0], symbols) for symbols in source_symbols(self._sample)]

    def source(self, row: int) -> str:
        """Return the text of a sentence, without its unknown symbols, whose mark looks like a tag."""
        ids, values = self._sources[row]
        return self._of.source.text([id for id in ids if id != UNKNOWN], values)

    def target(self, row: int, tokens: Tensor) -> str:
        """Return the text of a hypothesis."""
        ids, values = split_values(self._of.dictionaries[1], self.restored(row, tokens).tolist())
        return self._of.target.text([id for id in ids if id != UNKNOWN], values)

    def encode(self, row: int, text: str) -> Tensor | None:
        """Return the symbols of a piece of target text: the reserved symbol of a token that the source has."""
        if (symbol := self._reserved(row, text)) is not None:
            return torch.tensor([symbol])
        if self._of.encoder is None:
            return None
        ids = self._of.encoder.encode_target(text, "", None)
        return torch.from_numpy(ids.astype(np.int64)) if len(ids) and UNKNOWN not in ids else None

    def restored(self, row: int, tokens: Tensor) -> Tensor:
        """Give the reserved symbols of a translation (T,) the tokens of its source, by kind and number.

        A source in symbols without values leaves them as they are.
        """
        if not (of_source := self._tokens(row)) or self._of.protections is None:
            return tokens
        target = self._of.dictionaries[1]
        ids = tokens.cpu().numpy()
        symbols = [target.symbols[id] for id in ids[target.reserved.is_reserved[ids]]]
        reserved = [found for symbol in symbols if (found := parse(symbol))]
        of_both, own = self._of.protections
        return torch.from_numpy(target.with_values(ids, own.restore(reserved, of_source, of_both))).to(tokens)

    def _tokens(self, row: int) -> dict[int, str]:
        """Return the tokens of a sentence by the key of their reserved symbols."""
        ids, values = self._sources[row]
        if not values:
            return {}
        keys = self._of.dictionaries[0].reserved.keys[ids]
        return dict(zip(keys[keys >= 0].tolist(), values, strict=False))

    def _reserved(self, row: int, text: str) -> int | None:
        """Return the target symbol that is restored to a token, None without one."""
        source, target = self._of.dictionaries
        for id in self._sources[row][0]:
            symbol = parse(source.symbols[id])
            if symbol is None or self._of.protections is None:
                continue
            of_both, own = self._of.protections
            forms = [symbol._replace(localised=form) for form in sorted({symbol.localised, False}, reverse=True)]
            for form, spelled in zip(forms, own.restore(forms, self._tokens(row), of_both), strict=True):
                if spelled == text and str(form) in target.indices:
                    return target.indices[str(form)]
        return None
