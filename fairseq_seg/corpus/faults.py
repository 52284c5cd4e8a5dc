"""Faults of a translation that can be seen without understanding it: numbers, placeholders, tags, addresses.

What is not seen: numbers or placeholders that swapped places, a wrong sign, and a number above twelve that one side
writes in words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from fairseq_seg.corpus.notation import Notation, value
from fairseq_seg.corpus.number_words import numbers_in_words
from fairseq_seg.corpus.tokens import KINDS, Token, find_tokens

# What may be right: a number that the translation writes in words, a name that stays as it is.
WEAK = ("missing number", "identical")

NAMES = {"placeholders": "placeholder", "tags": "tag", "urls": "address"}
POSITION = re.compile(r"(?<=^%)\d+\$")
TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)[^>]*?(/?)>")
# Attributes whose values are translated.
TRANSLATED = re.compile(r"""\b(alt|title|content|label|summary|placeholder|aria-label)\s*=\s*("[^"]*"|'[^']*')""", re.I)
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
# No-break spaces, which a language may write where another has none.
NO_BREAK = frozenset(["&nbsp;", "&#160;", "&#xA0;", "&#xa0;", "&#8239;", "&#x202F;", "&#x202f;"])
THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
SMALL = 12


class Fault(NamedTuple):
    """Something that is wrong with a translation, or may be (`is_weak`)."""

    kind: str  # empty, identical, wrong number, missing number, lost or extra placeholder, tag or address, nesting
    detail: str  # the token as written, or nothing

    @property
    def is_weak(self) -> bool:
        """Whether this may be right all the same."""
        return self.kind in WEAK


def faults(
    source: str,
    target: str,
    source_notation: Notation,
    target_notation: Notation,
    kinds: Collection[str] = KINDS,
) -> list[Fault]:
    """Compare a translation with its source: return what is wrong with the tokens of some kinds."""
    if not target.strip():
        return [Fault("empty", "")] if source.strip() else []
    ours, theirs = (_find(text, kinds) for text in (source, target))
    found: list[Fault] = []
    for kind, name in NAMES.items():
        have, want = (Counter(same(token) for token in tokens if token.kind == kind) for tokens in (theirs, ours))
        found += [Fault(f"lost {name}", text) for text in (want - have).elements()]
        found += [Fault(f"extra {name}", text) for text in (have - want).elements()]
    tags = [[token.text for token in tokens if token.kind == "tags"] for tokens in (ours, theirs)]
    if nests(tags[0]) and not nests(tags[1]):
        found.append(Fault("nesting", "".join(tags[1])))
    if "numbers" in kinds:
        found += _wrong_numbers(source, ours, theirs, source_notation, target_notation)
    if source.strip() == target.strip() and any(map(str.isalpha, rest(source, ours))):
        found.append(Fault("identical", ""))
    return found


def count_values(text: str, notation: Notation, kinds: Collection[str]) -> Counter[Hashable]:
    """Count the values of the tokens of some kinds in a text."""
    return Counter(value(token, notation) if token.kind == "numbers" else same(token) for token in _find(text, kinds))


def _find(text: str, kinds: Collection[str]) -> list[Token]:
    return [token for token in find_tokens(text, kinds) if token.text not in NO_BREAK]


def same(token: Token) -> str:
    """Return what has to be the same in the translation of a placeholder, tag or address.

    The position in %1$s serves to change the order, and the title of a tag is for readers.
    """
    if token.kind == "placeholders":
        return POSITION.sub("", token.text)
    return TRANSLATED.sub(r"\1", token.text) if token.kind == "tags" else token.text


def rest(text: str, tokens: Sequence[Token]) -> str:
    """Return a text without its tokens."""
    ends = [0, *(token.end for token in tokens)]
    starts = [*(token.start for token in tokens), len(text)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def nests(tags: Sequence[str]) -> bool:
    """Tell whether every opening tag has its closing one in the right order; entities and comments do not count."""
    opened: list[str] = []
    for tag in tags:
        match = TAG.fullmatch(tag)
        if match is None or match[3] or match[2].lower() in VOID:
            continue
        if not match[1]:
            opened.append(match[2])
        elif not opened or opened.pop() != match[2]:
            return False
    return not opened


def _wrong_numbers(
    source: str, ours: Sequence[Token], theirs: Sequence[Token], source_notation: Notation, target_notation: Notation
) -> list[Fault]:
    """Return the numbers that only one side has."""
    # Dates and times may be written with words between their parts (30 December, 12 h 30).
    want: dict[Hashable, str] = {}
    parts: set[Hashable] = set()
    for token in (token for token in ours if token.kind == "numbers"):
        want.setdefault(value(token, source_notation), token.text)
        parts.update(_parts(token.text))
    have: dict[Hashable, str] = {}
    have_parts: set[Hashable] = set()
    for token in (token for token in theirs if token.kind == "numbers"):
        have.setdefault(value(token, target_notation), token.text)
        have_parts.update(_parts(token.text))
    missing = [text for key, text in want.items() if key not in have and not _split(text, have_parts, have)]
    words = numbers_in_words(source, source_notation.lang)
    wrong = [
        text
        for key, text in have.items()
        if key not in want
        and key not in parts
        and not _split(text, parts, want)
        # Where a language's words are not known, a small number without a rival may come from one.
        and not (key in words if words is not None else not missing and _is_small(text))
    ]
    return [Fault("wrong number", text) for text in wrong] + [Fault("missing number", text) for text in missing]


def _parts(text: str) -> list[int]:
    """Return the numbers that a date, time or list is made of; a number in groups of thousands has none."""
    runs = re.findall(r"\d+", text)
    return [] if len(runs) < 2 or THOUSANDS.fullmatch(text) else [int(run) for run in runs if len(run) <= 18]


def _split(text: str, parts: set[Hashable], values: Collection[Hashable]) -> bool:
    """Tell whether the other side has all parts of a date, time or list."""
    own = _parts(text)
    return bool(own) and all(part in parts or part in values for part in own)


def _is_small(text: str) -> bool:
    return text.isdecimal() and len(text) <= 2 and int(text) <= SMALL
