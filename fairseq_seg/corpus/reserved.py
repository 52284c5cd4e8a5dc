"""Reserved symbols: what stands in a sentence of symbols for a protected token, and how they are told apart.

    ⟦n1⟧   the first number of the source, verbatim        ⟦N1⟧   the same in the target language's notation
    ⟦p1⟧   the first placeholder                           ⟦t1⟧   the first tag      ⟦u1⟧   the first URL or file name

A ▁ before a reserved symbol says, as in any symbol, that a space comes before it. In a source, ⟦N1⟧ stands for a number
that is not digits alone, whose notation can therefore differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from fairseq_seg.corpus.tokens import KINDS

LIMIT = 24  # tokens of a kind in a sentence; those beyond stay text
LETTERS = dict(zip("nptu", KINDS, strict=True))
SYMBOL = re.compile(r"(▁?)⟦([nNptu])([0-9]{1,2})⟧")
# A reserved symbol with its value, as typed sentences carry it through fairseq's commands.
VALUED = re.compile(r"(▁?⟦[nNptu][0-9]{1,2})=(.*)⟧", re.DOTALL)
BLANK = re.compile(r"[\s\\]")
ESCAPE = re.compile(r"\\([0-9a-f]{6})")


class Reserved(NamedTuple):
    """What a reserved symbol says."""

    kind: str
    number: int  # from 1, in order of first appearance in the source
    localised: bool  # in the target language's notation, not verbatim
    begins: bool  # a space comes before it

    def __str__(self) -> str:
        letter = next(letter for letter, kind in LETTERS.items() if kind == self.kind)
        return f"{'▁' * self.begins}⟦{letter.upper() if self.localised else letter}{self.number}⟧"

    @property
    def key(self) -> int:
        """A number that tells kind and number, whatever the form."""
        return KINDS.index(self.kind) * LIMIT + self.number - 1


def parse(symbol: str) -> Reserved | None:
    """Return what a symbol says, None if it is not reserved."""
    match = SYMBOL.fullmatch(symbol) if "⟦" in symbol else None
    if match is None or not 1 <= int(match[3]) <= LIMIT:
        return None
    return Reserved(LETTERS[match[2].lower()], int(match[3]), match[2] == "N", bool(match[1]))


def reserved_symbols(kinds: Iterable[str]) -> list[str]:
    """List the reserved symbols of some kinds."""
    found = []
    for kind in kinds:
        forms = product(range(1, LIMIT + 1), (False, True) if kind == "numbers" else (False,), (True, False))
        found += [str(Reserved(kind, *form)) for form in forms]
    return found


def escape(value: str) -> str:
    """Write a value without white space."""
    return BLANK.sub(lambda blank: f"\\{ord(blank[0]):06x}", value)


def unescape(text: str) -> str:
    """Read what `escape` wrote."""
    return ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)


def with_value(symbol: str, value: str) -> str:
    """Write a reserved symbol together with its value, as one word."""
    return f"{symbol[:-1]}={escape(value)}⟧"


def split_value(word: str) -> tuple[str, str] | None:
    """Return the reserved symbol and the value of what `with_value` wrote, None for any other word."""
    match = VALUED.fullmatch(word)
    return (f"{match[1]}⟧", unescape(match[2])) if match else None


class ReservedIds:
    """The reserved symbols of a dictionary of V symbols, by id.

    `ids` (R,): their ids. `keys` (V,): kind and number of each id, see `Reserved.key`, or -1. `localised` and `begins`
    (V,). `classes` (V,): each id without its number and form: the same for all reserved symbols of a kind.
    """

    def __init__(self, symbols: Sequence[str], found: dict[int, Reserved]):
        count = len(symbols)
        self.ids = np.array(sorted(found), dtype=np.int64)
        self.keys = np.full(count, -1)
        self.localised, self.begins = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.classes = np.arange(count)
        self._of = np.full((len(KINDS) * LIMIT, 2, 2), -1)
        first: dict[str, int] = {}
        for id in self.ids.tolist():
            symbol = found[id]
            self.keys[id], self.localised[id], self.begins[id] = symbol.key, symbol.localised, symbol.begins
            self.classes[id] = first.setdefault(symbol.kind, id)
            self._of[symbol.key, int(symbol.localised), int(symbol.begins)] = id

    @classmethod
    def of(cls, symbols: Sequence[str]) -> ReservedIds | None:
        """Find the reserved symbols among a dictionary's, None if there are none."""
        found = {id: reserved for id, symbol in enumerate(symbols) if (reserved := parse(symbol))}
        return cls(symbols, found) if found else None

    def id(self, key: int, localised: bool, begins: bool) -> int:
        """Return the id of a reserved symbol, -1 if the dictionary has none."""
        return int(self._of[key, int(localised), int(begins)])

    @cached_property
    def is_reserved(self) -> np.ndarray:
        """Whether each id is a reserved symbol, (V,)."""
        return self.keys >= 0
