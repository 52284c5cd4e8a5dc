"""Settings and their defaults, in a file that costs a command line nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# How text can be cut into symbols: see `fairseq_seg.corpus.subwords`.
SUBWORD_KINDS = ("sentencepiece", "@@", "none")


class SearchSettings(NamedTuple):
    """How pairs are searched and scored; an attached file records them, so that live retrieval finds the same pairs."""

    query_unit: str = "symbol"
    score_unit: str = "symbol"
    k1: float = 2.0
    b: float = 1.0
    candidates: int = 100

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> SearchSettings:
        """Take the settings from a mapping that may hold more, or fewer."""
        return cls(**{name: values[name] for name in cls._fields if name in values})
