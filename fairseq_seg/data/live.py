"""Retrieval at translation time: pairs for sentences that no attached file knows."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from fairseq_seg.data.attached import AttachedError, AttachedMemory, attached_path
from fairseq_seg.data.databin import DataBin
from fairseq_seg.data.search import SearchSettings, open_retriever
from fairseq_seg.retrieval.select import choose
from fairseq_seg.retrieval.sequences import Sequences

logger = logging.getLogger(__name__)


class LiveRetrieval:
    """Searches the training set of a data-bin, with the settings that seg-attach used there."""

    def __init__(self, data: str, source_lang: str, target_lang: str, k: int, mode: str, min_score: float):
        home = DataBin(data, source_lang, target_lang)
        try:
            recorded = AttachedMemory.load(attached_path(data, "train", source_lang, target_lang)).settings
        except AttachedError:  # never attached: the index is made now
            recorded = {}
        settings = SearchSettings(**{name: recorded[name] for name in SearchSettings._fields if name in recorded})
        self.retriever, _ = open_retriever(home, settings)
        self.k, self.mode, self.min_score = k, mode, min_score

    def retrieve(self, sentences: Sequence) -> tuple[np.ndarray, np.ndarray]:
        """Finds the pairs of sentences of token ids; returns ragged rows, starts (N + 1,) and ids (P,), best first."""
        began = time.perf_counter()
        found = self.retriever.search_and_cover(list(Sequences.from_rows(sentences)))
        rows = [choose(*pairs, self.k, self.mode, self.min_score)[0] for pairs in found]
        logger.info("retrieval: %d sentences in %.3f seconds", len(rows), time.perf_counter() - began)
        return np.cumsum([0, *map(len, rows)]), np.concatenate([np.zeros(0, np.int64), *rows])


def _retrieve(sentences: list, *arguments) -> tuple[np.ndarray, np.ndarray]:
    return LiveRetrieval(*arguments).retrieve(sentences)


def retrieve_apart(sentences: list[np.ndarray], *arguments) -> tuple[np.ndarray, np.ndarray]:
    """As `LiveRetrieval(*arguments).retrieve(sentences)`, with the Java machine in a process of its own.

    For a split that data-loader workers will read: they are forked, and a process with Java inside should not be.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_retrieve, sentences, *arguments).result()
