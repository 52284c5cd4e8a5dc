"""Retrieval at translation time: pairs for sentences that no attached file knows."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_seg.data.attached import AttachedError, AttachedMemory, attached_path
from fairseq_seg.data.databin import DataBin
from fairseq_seg.data.search import SearchSettings, open_retriever
from fairseq_seg.retrieval.select import choose
from fairseq_seg.retrieval.sequences import EOS, Sequences

logger = logging.getLogger(__name__)


class Retrieved(NamedTuple):
    """The pairs of N sentences as ragged rows, best first: starts (N + 1,), ids (P,) and scores (P,)."""

    starts: np.ndarray
    ids: np.ndarray
    scores: np.ndarray


class Side:
    """The sources, or the targets, of the pairs retrieved so far: token ids with eos, as fairseq's datasets have it."""

    def __init__(self):
        self._rows: list[Tensor] = []
        self._sizes = array("q")

    def append(self, symbols: np.ndarray) -> None:
        """Takes the next pair's symbols, without eos."""
        self._rows.append(torch.tensor([*symbols.tolist(), EOS]))
        self._sizes.append(len(symbols) + 1)

    def __getitem__(self, pair: int) -> Tensor:
        return self._rows[pair]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def sizes(self) -> np.ndarray:
        """The length of each row, eos included."""
        return np.array(self._sizes)


class RetrievedPairs:
    """Every distinct pair that was retrieved so far, numbered in the order in which they were first found.

    A pair stays as it was when it was found, even where its memory has changed since: what was read can be looked up.
    """

    def __init__(self):
        self.source, self.target = Side(), Side()
        self.origins: list[str] = []
        self._numbers: dict[tuple, int] = {}

    def number(self, origin: str, source: np.ndarray, target: np.ndarray) -> int:
        """The number of a pair, a new one where it was never retrieved."""
        key = origin, source.tobytes(), target.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self.source.append(source)
            self.target.append(target)
            self.origins.append(origin)
        return self._numbers[key]


class LiveRetrieval:
    """Searches the training set of a data-bin, with the settings that seg-attach used there.

    Pairs go by a number of their own, under which `source`, `target` and `origin` give them.
    """

    def __init__(self, data: str, source_lang: str, target_lang: str, k: int, mode: str, min_score: float):
        home = DataBin(data, source_lang, target_lang)
        try:
            recorded = AttachedMemory.load(attached_path(data, "train", source_lang, target_lang)).settings
        except AttachedError:  # never attached: the index is made now
            recorded = {}
        settings = SearchSettings(**{name: recorded[name] for name in SearchSettings._fields if name in recorded})
        self.retriever, _ = open_retriever(home, settings)
        self.train = home.pair("train")
        self.k, self.mode, self.min_score = k, mode, min_score
        self.pairs = RetrievedPairs()

    @property
    def source(self) -> Side:
        """The sources of the pairs, by id."""
        return self.pairs.source

    @property
    def target(self) -> Side:
        """The targets of the pairs, by id."""
        return self.pairs.target

    def origin(self, pair: int) -> str:
        """Says where a pair comes from: ``train:17`` is the 18th pair of the training set."""
        return self.pairs.origins[pair]

    def retrieve(self, sentences: Sequence) -> Retrieved:
        """Finds the pairs of sentences of token ids (with or without eos)."""
        began = time.perf_counter()
        source, target = self.train
        found = self.retriever.search_and_cover(list(Sequences.from_rows(sentences)))
        rows, scores = [], []
        for candidates in found:
            chosen, similar = choose(*candidates, self.k, self.mode, self.min_score)
            rows.append([self.pairs.number(f"train:{row}", source[row], target[row]) for row in chosen])
            scores.append(similar)
        logger.info("retrieval: %d sentences in %.3f seconds", len(rows), time.perf_counter() - began)
        return Retrieved(
            np.cumsum([0, *map(len, rows)]),
            np.array([pair for row in rows for pair in row], dtype=np.int64),
            np.concatenate([np.zeros(0, np.float32), *scores]),
        )


def _retrieve(sentences: list, *arguments) -> tuple[Retrieved, RetrievedPairs]:
    live = LiveRetrieval(*arguments)
    return live.retrieve(sentences), live.pairs


def retrieve_apart(sentences: list[np.ndarray], *arguments) -> tuple[Retrieved, RetrievedPairs]:
    """As `LiveRetrieval(*arguments).retrieve(sentences)`, with the Java machine in a process of its own.

    For a split that data-loader workers will read: they are forked, and a process with Java inside should not be.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_retrieve, sentences, *arguments).result()
