"""Settings and their defaults, in a module that is cheap to import for a command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# How text can be split into symbols: see `fairseq_seg.corpus.subwords`.
SUBWORD_KINDS = ("sentencepiece", "@@", "none")
# The search engines: see `fairseq_seg.retrieval.grams` and `fairseq_seg.retrieval.lucene`.
ENGINES = ("lucene", "grams")


class SearchSettings(NamedTuple):
    """How pairs are searched and scored. An attached file records it, so that live retrieval finds the same pairs."""

    query_unit: str = "symbol"
    score_unit: str = "symbol"
    k1: float = 2.0
    b: float = 1.0
    candidates: int = 100
    engine: str = "lucene"

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> SearchSettings:
        """Take the settings from a mapping; ignore other keys, and use defaults for missing ones."""
        return cls(**{name: values[name] for name in cls._fields if name in values})
