"""The pairs of a translation memory: as it holds them, on their way in, and how many of them got there."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from fairseq_seg.corpus.codes import CodedText, tokens_of

Conflict = Literal["keep", "overwrite", "skip"]
Outcome = Literal["added", "updated", "present", "skipped"]
MAX_SYMBOLS = 1000
# A side with more characters than this per symbol that it may have is not even cut into symbols.
LONGEST_SYMBOL = 50
# Characters that no XML file, and so no TMX, can hold.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")

# The symbols of source and target.
SymbolPair = tuple[np.ndarray, np.ndarray]


class Codes(NamedTuple):
    """The inline codes of a pair's texts (see `fairseq_seg.corpus.codes`), in the format that they come from."""

    format: str = ""
    source: dict[str, str] = {}
    target: dict[str, str] = {}

    @classmethod
    def of(cls, format: str, texts: Sequence[CodedText]) -> Codes:
        """Return the codes of a source and a target; most have none."""
        source, target = texts
        return cls(format, source.codes, target.codes) if source.codes or target.codes else NO_CODES

    @classmethod
    def parse(cls, column: str) -> Codes:
        """Read what `spelled` wrote; raise ValueError, KeyError or TypeError if it did not."""
        if not column:
            return NO_CODES
        codes = cls(**json.loads(column))
        sides = (codes.source, codes.target)
        if not all(isinstance(text, str) for side in sides for text in (codes.format, *side.keys(), *side.values())):
            raise ValueError("not text")
        return codes

    def spelled(self) -> str:
        """Return the codes as JSON, none as nothing."""
        return json.dumps(self._asdict(), ensure_ascii=False) if self.source or self.target else ""

    def within(self, source: str, target: str) -> Codes:
        """Return the codes whose tokens are in two texts."""
        sides = [
            {token: codes[token] for token in tokens_of(text) if token in codes}
            for text, codes in ((source, self.source), (target, self.target))
        ]
        return Codes(self.format, *sides) if any(sides) else NO_CODES


NO_CODES = Codes()


class StoredPair(NamedTuple):
    """A pair as the memory holds it; symbols are dictionary ids (int32) without end of sentence."""

    id: int
    source: str
    target: str
    source_symbols: np.ndarray
    target_symbols: np.ndarray
    origin: str
    unit: str
    created: str
    changed: str
    attributes: dict[str, str]
    revision: int
    codes: Codes = NO_CODES


class TranslationUnit(NamedTuple):
    """A pair on its way into a memory; dates are ISO, UTC, in whole seconds, by default now."""

    source: str
    target: str
    origin: str = ""
    unit: str = ""
    attributes: dict[str, str] | None = None
    created: str | None = None
    changed: str | None = None
    codes: Codes = NO_CODES


class Skipped(NamedTuple):
    """Stands in for a unit of a file that cannot become a pair, and says why; `add_many` counts it.

    `languages` are the ones that the unit has, if it lacks one of the memory's.
    """

    reason: str
    languages: tuple[str, ...] = ()


class Changes(NamedTuple):
    """What happened after a revision: the pairs added or changed, the ids deleted, and the revision reached."""

    revision: int
    pairs: list[StoredPair]
    deleted: list[int]


@dataclass
class ImportCounts:
    """What became of many pairs: each is either added, updated, present (the same pair) or skipped."""

    added: int = 0
    updated: int = 0
    present: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    symbols: int = 0
    unknown_symbols: int = 0
    # How many units without one of the memory's languages have each language.
    languages: Counter[str] = field(default_factory=Counter)

    def count(self, skipped: Skipped) -> None:
        """Count what cannot become a pair."""
        self.skipped[skipped.reason] += 1
        self.languages.update(dict.fromkeys(skipped.languages).keys())

    def __str__(self) -> str:
        text = f"{self.added:,} added, {self.updated:,} updated, {self.present:,} already there"
        text += f", {self.skipped.total():,} skipped"
        if self.skipped:
            text += f" ({'; '.join(f'{reason}: {count:,}' for reason, count in self.skipped.most_common(5))}"
            text += "; others)" if len(self.skipped) > 5 else ")"
        if self.languages:
            named = ", ".join(f"{language or 'none'} {count:,}" for language, count in self.languages.most_common(10))
            text += f"; the languages of those without one of the memory's: {named}"
        if self.unknown_symbols:
            text += f"; {self.unknown_symbols / self.symbols:.2%} of the new symbols are unknown to the dictionaries"
        return text


def unfit(pair: TranslationUnit, symbols: SymbolPair | None = None, max_symbols: int = MAX_SYMBOLS) -> str | None:
    """Say what keeps a pair out of a memory; before it is cut into symbols, by its texts alone."""
    if symbols is not None:
        if not all(map(len, symbols)):
            return "an empty side"
        return f"a side of more than {max_symbols:,} symbols" if max(map(len, symbols)) > max_symbols else None
    if max(len(pair.source), len(pair.target)) > LONGEST_SYMBOL * max_symbols:
        return f"a side of more than {LONGEST_SYMBOL * max_symbols:,} characters"
    texts = (pair.source, pair.target, pair.origin, pair.unit, *itertools.chain(*(pair.attributes or {}).items()))
    if UNPRINTABLE.search("\n".join(texts)):
        return "a control character"
    if not all(DATE.fullmatch(date) for date in (pair.created, pair.changed) if date):
        return "a date that is not like 2026-01-31T12:59:00Z"
    if not pair.source.strip() or not pair.target.strip():
        return "an empty side"
    return None
