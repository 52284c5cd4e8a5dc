"""Decide where a sentence's pairs come from: attached beforehand, or searched for now."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Protocol

import numpy as np

from fairseq_seg.corpus.attached import AttachedError, AttachedPairs
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.corpus.values import Values
from fairseq_seg.errors import SegError

logger = logging.getLogger(__name__)

# Sentences of token ids, with or without eos.
Sentences = Sequence[np.ndarray] | Sequences


@dataclass(frozen=True)
class Wanted:
    """Which pairs sentences get: the options --memory-k, --memory-select, --memory-min-score, --memory ..."""

    selection: Selection = Selection()
    memories: str = TRAIN
    exact: str = "model"  # for an exact match: let the model decide, copy its target, or ignore it
    terms: str = ""  # a file of terms
    terms_subwords: str = ""  # the subword models that cut them, see `term_encoders`

    @property
    def is_plain(self) -> bool:
        """Whether an attached file is enough: only the training set, and no special treatment of exact matches."""
        return self.memories == TRAIN and self.exact == "model"


class PairSource(Protocol):
    """Returns the pairs of sentences."""

    signature: str

    def retrieve(self, sentences: Sentences, first: int = 0) -> RankedPairs:
        """Return the pairs of sentences of token ids, with or without eos, and the table that their ids point into.

        `first` is the position of the first sentence in its split, which matters for attached pairs.
        """
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class Stored:
    """Known pairs of consecutive sentences."""

    def __init__(self, ranked: RankedPairs, signature: str):
        self.ranked, self.signature = ranked, signature

    def retrieve(self, sentences: Sentences, first: int = 0) -> RankedPairs:
        """Return the pairs of the sentences from `first` on."""
        return self.ranked.rows(slice(first, first + len(sentences)))

    def close(self) -> None:
        """Do nothing: files are only memory-mapped."""


class Attached(Stored):
    """The pairs that seg-attach stored for a split."""

    def __init__(self, data: DataBin, split: str, selection: Selection):
        path = data.attached_path(split)
        self.attached = AttachedPairs.load(path)
        place = self.attached.memory_data or ""
        self.home = DataBin(data.folder / place, data.source_lang, data.target_lang) if place else data
        self.attached.check(data.fingerprint(split), self.home.fingerprint(TRAIN))
        selected = self.attached.select(selection)
        if len(selected.ids) and not 0 <= selected.ids.min() <= selected.ids.max() < len(self.home.pair(TRAIN)[0]):
            raise SegError(f"{path} names pairs that {self.home.folder} does not have: run seg-attach again.")
        super().__init__(replace(selected, table=self.home.table(place)), self.attached.signature)


class Apart:
    """A search now, with the Java virtual machine in a separate process.

    For a split that data-loader workers will read: they are forked, and a process that runs Java must not be forked.
    """

    def __init__(self, data: DataBin, wanted: Wanted):
        self._arguments = (data.folder, data.source_lang, data.target_lang), wanted
        self.signature = live_signature(wanted)

    def retrieve(self, sentences: Sentences, first: int = 0) -> RankedPairs:
        """Return the pairs of sentences."""
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = as_sequences(sentences)
            values = None if found.values is None else list(found.values)
            return pool.submit(_retrieve, list(found), values, *self._arguments).result()

    def close(self) -> None:
        """Do nothing: the process ends with each search."""


def _retrieve(rows: list[np.ndarray], values: list[list[str]] | None, home: tuple, wanted: Wanted) -> RankedPairs:
    sentences = Sequences.from_rows(rows)
    if values is not None:
        sentences = sentences.with_values(Values.from_rows(values))
    return open_live(DataBin(*home), wanted).retrieve(sentences)


def open_live(data: DataBin, wanted: Wanted) -> PairSource:
    """Open a search with the settings of the training set."""
    from fairseq_seg.source.live import Live
    from fairseq_seg.source.terms import with_terms

    live = Live(data, wanted, recorded_settings(data))
    return with_terms(live, data, wanted.terms, wanted.terms_subwords)


def recorded_settings(data: DataBin) -> SearchSettings:
    """Return the settings that seg-attach used on the training set, or the defaults."""
    try:
        return SearchSettings.recorded(AttachedPairs.load(data.attached_path(TRAIN)).settings)
    except AttachedError:  # never attached
        return SearchSettings()


def open_for_split(data: DataBin, split: str, wanted: Wanted, may_search: bool) -> PairSource:
    """Open the source of a split's pairs: the attached file, or else a search if allowed."""
    if not wanted.is_plain and not may_search:
        raise SegError("--memory and --memory-exact are for translation: to train, attach a memory with seg-attach.")
    if wanted.terms and not may_search:
        raise SegError("--terms is for translation: leave it out to train.")
    path = data.attached_path(split)
    if wanted.is_plain and (path.exists() or not may_search):
        from fairseq_seg.source.terms import with_terms

        return with_terms(Attached(data, split, wanted.selection), data, wanted.terms, wanted.terms_subwords)
    if wanted.is_plain:
        logger.info("%s does not exist: retrieving now; run seg-attach to do this only once", path)
    return Apart(data, wanted)


def as_sequences(sentences: Sentences) -> Sequences:
    """Return sentences without eos, with their values if they have any."""
    return sentences if isinstance(sentences, Sequences) else Sequences.from_rows(sentences)


def live_signature(wanted: Wanted) -> str:
    """Describe a search in one line."""
    return f"live:{wanted.memories}|exact:{wanted.exact}"


def is_exact(query: np.ndarray, source: np.ndarray) -> bool:
    """Return whether two sentences without eos are equal; a sentence with an unknown symbol never is."""
    return np.array_equal(query, source) and UNKNOWN not in query


def exact_pairs(
    sentences: Sentences, found: RankedPairs, wanted: Wanted, texts: Sequence[str] | None = None
) -> list[int | None] | None:
    """Return, per sentence, the pair whose target is to be returned verbatim; None if `wanted` does not ask for that.

    Such a pair has the same source: the same text, if the `texts` of the sentences are known. Otherwise it has the same
    values of protected tokens, and both sides of
    the pair must be exactly what their symbols spell, because symbols are all that can be compared and returned; an
    unknown symbol could stand for anything.
    """
    if wanted.exact != "copy":
        return None
    table = found.table
    assert table is not None
    sentences = as_sequences(sentences)
    exact: list[int | None] = [None] * len(sentences)
    for place, (ids, scores, _) in enumerate(found):
        for pair in ids[scores == 1].tolist():
            stored = table.texts is not None and table.texts[pair] is not None
            if stored and texts is not None:
                same = texts[place].strip() == table.text(pair)[0].strip()
            else:
                same = is_exact(sentences[place], table.source[pair]) and table.is_spelled(pair)
                same = same and (sentences.values_of(place) or []) == table.values(pair)[0]
                same = same and (texts is None or texts[place].strip() == table.text(pair)[0])
            if same:
                exact[place] = pair
                break
    return exact
