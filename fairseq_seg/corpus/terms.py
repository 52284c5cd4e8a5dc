"""A list of terms: which of them a text has, and whether a translation respects them.

A line of the file is `source term<TAB>target term`, or has a third column with forbidden forms, separated by `|`. Empty
lines and lines that begin with # are skipped.

Terms are found as whole words, longest first, and do not overlap. A term with a capital letter after its first letter
(OpenType, IT) is found in that spelling alone, any other (hyperlink, Writer) in capitals, too. Inflected forms are not
found: hyperlinks is another word than hyperlink. Languages without spaces between words have no whole words to find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairseq_seg.errors import SegError
from fairseq_seg.files import read_text_file

PART = re.compile(r"\w+|[^\w\s]")
MOST_WORDS = 30  # of a term


class Term(NamedTuple):
    """A term, its translation, and translations that are not allowed."""

    source: str
    target: str
    forbidden: tuple[str, ...]
    line: int  # of its file, from 1


class Phrases:
    """Phrases that are looked up in texts, each with a value."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], list[tuple[str | None, Term]]] = {}
        self._longest = 0

    def add(self, phrase: str, term: Term) -> None:
        """Add a phrase."""
        parts = tuple(part.casefold() for part in PART.findall(phrase))
        exact = " ".join(PART.findall(phrase)) if has_inner_capital(phrase) else None
        self._known.setdefault(parts, []).append((exact, term))
        self._longest = max(self._longest, len(parts))

    def find(self, text: str) -> Iterator[Term]:
        """Find phrases from left to right, the longest at each place."""
        words = PART.findall(text)
        folded = [word.casefold() for word in words]
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + self._longest), start, -1):
                found = self._at(words[start:end], tuple(folded[start:end]))
                if found is not None:
                    yield found
                    start = end - 1
                    break
            start += 1

    def _at(self, words: list[str], folded: tuple[str, ...]) -> Term | None:
        entries = self._known.get(folded, ())
        # A term in exactly this spelling goes before one in any.
        for exact, term in sorted(entries, key=lambda entry: entry[0] is None):
            if exact is None or exact == " ".join(words):
                return term
        return None


class Terms:
    """The terms of a file."""

    def __init__(self, terms: list[Term]):
        self.terms = terms
        self._phrases = Phrases()
        for term in terms:
            self._phrases.add(term.source, term)

    @classmethod
    def read(cls, path: str | Path) -> Terms:
        """Read a file of terms."""
        path = Path(path)
        terms: dict[str, Term] = {}
        for number, line in enumerate(read_text_file(path), 1):
            if line.strip() and not line.startswith("#"):
                term = parse_line(line, number, path)
                key = term.source if has_inner_capital(term.source) else term.source.casefold()
                other = terms.setdefault(" ".join(PART.findall(key)), term)
                if other[1:3] != term[1:3]:
                    raise SegError(
                        f"{path}: lines {other.line} and {number} translate the term '{term.source}' differently: "
                        "keep one of them."
                    )
        if not terms:
            raise SegError(f"{path} has no terms: write a source term, a tab and its target term on each line.")
        return cls(list(terms.values()))

    def find(self, text: str) -> list[Term]:
        """Return the terms of a source text, each once, in the order in which they appear."""
        return list(dict.fromkeys(self._phrases.find(text)))

    def __len__(self) -> int:
        return len(self.terms)


def parse_line(line: str, number: int, path: Path) -> Term:
    """Return the term of a line."""
    columns = [column.strip() for column in line.rstrip("\r\n").split("\t")]
    if len(columns) not in (2, 3):
        raise SegError(
            f"{path}, line {number}, has {len(columns)} columns: write the source term, a tab, the target term and, "
            "after another tab, forbidden forms separated by |."
        )
    source, target = columns[:2]
    forbidden = tuple(form.strip() for form in columns[2].split("|") if form.strip()) if len(columns) == 3 else ()
    for name, text in (("source", source), ("target", target)):
        if re.search(r"\w", text) is None:
            raise SegError(f"{path}, line {number}, has an empty {name} term: fill it in, or remove the line.")
        if len(PART.findall(text)) > MOST_WORDS:
            raise SegError(f"{path}, line {number}: the {name} term is longer than {MOST_WORDS} words: shorten it.")
    if any(re.search(r"\w", form) is None or form.casefold() == target.casefold() for form in forbidden):
        raise SegError(f"{path}, line {number}, forbids the target term itself or an empty form: correct it.")
    return Term(source, target, forbidden, number)


def is_respected(term: Term, translation: str) -> bool:
    """Tell whether a translation has the term's target, and no forbidden form outside of it."""
    phrases = Phrases()
    # The longest is found first: a forbidden form within the target is not seen, and the other way round.
    wanted = Term(term.source, term.target, (), 1)
    phrases.add(term.target, wanted)
    for form in term.forbidden:
        phrases.add(form, term._replace(line=0))
    found = list(phrases.find(translation))
    return bool(found) and all(match.line for match in found)


def has_inner_capital(phrase: str) -> bool:
    """Tell whether a phrase has a capital letter after its first character."""
    return any(character.isupper() for character in phrase[1:])
