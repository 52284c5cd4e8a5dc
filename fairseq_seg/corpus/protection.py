"""Protected tokens: numbers, placeholders, tags and URLs that the model sees as reserved symbols only.

In a source, every token of a protected kind becomes a reserved symbol, numbered by the first appearance of its text;
the same text has the same number. In a target, a token does if the source has it, verbatim or as the target language
writes it; other tokens stay text. A translation's reserved symbols are spelled with the source's tokens again. So the
model translates "Page ⟦n1⟧", and no number, placeholder or tag can come out wrong in itself.

The kinds and the notation of the language are spelled by a symbol that is in no sentence, so that they are wherever the
subword model or the dictionary is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fairseq_seg.corpus.notation import Notation, localised
from fairseq_seg.corpus.reserved import LIMIT, Reserved, parse, reserved_symbols
from fairseq_seg.corpus.tokens import KINDS, Token, find_tokens
from fairseq_seg.errors import SegError

NAME = re.compile(r"⟦=[^\s⟦⟧]*⟧")
# What somebody may type although it looks reserved: it is protected like a placeholder.
TYPED = re.compile(rf"⟦[nNptu][0-9]{{1,2}}⟧|{NAME.pattern}")


class ProtectedText(NamedTuple):
    """A text with reserved symbols in place of tokens."""

    text: str
    values: list[str]  # the token of each reserved symbol, in order
    literals: list[str]  # the text of each name of a `Protection`, in order: it stands for text that looks reserved


class Protection(NamedTuple):
    """Which kinds of tokens are protected in the texts of a language, and how that language writes numbers."""

    kinds: tuple[str, ...]
    notation: Notation

    @classmethod
    def of(cls, symbols: Iterable[str]) -> Protection | None:
        """Find the protection among the symbols of a dictionary or the pieces of a subword model."""
        name = next((symbol for symbol in symbols if symbol.startswith("⟦=") and NAME.fullmatch(symbol)), None)
        return None if name is None else cls.parse(name)

    @classmethod
    def parse(cls, name: str) -> Protection:
        """Read what `name` wrote."""
        try:
            kinds, *codes = name[2:-1].split(":")
            fields = ("".join(chr(int(code, 16)) for code in field.split(".") if code) for field in codes)
            return cls(tuple(kinds.split("+")), Notation(*fields))
        except (ValueError, TypeError):
            raise SegError(
                f"The symbol {name} was written by another version: train the subword model again."
            ) from None

    @property
    def name(self) -> str:
        """The symbol that holds all this; it is in no sentence."""
        codes = (".".join(f"{ord(character):x}" for character in field) for field in self.notation)
        return f"⟦={'+'.join(self.kinds)}:{':'.join(codes)}⟧"

    @property
    def symbols(self) -> list[str]:
        """All symbols that a subword model needs for this."""
        return [self.name, *reserved_symbols(self.kinds)]

    def tokens(self, text: str) -> list[Token]:
        """Find the tokens of a text, and whatever looks like a reserved symbol."""
        found = find_tokens(text, self.kinds)
        if "⟦" not in text:
            return found
        kind = "placeholders" if "placeholders" in self.kinds else self.kinds[0]
        typed = [Token(kind, match.start(), match.end(), match[0]) for match in TYPED.finditer(text)]
        typed = [look for look in typed if not any(t.start <= look.start and look.end <= t.end for t in found)]
        apart = [t for t in found if not any(t.start < look.end and look.start < t.end for look in typed)]
        return sorted([*apart, *typed], key=lambda token: token.start)

    def source(self, text: str) -> ProtectedText:
        """Protect a source text."""
        tokens = self.tokens(text)
        numbers = numbered(tokens)
        symbols = (
            symbol_of(token.kind, numbers.get((token.kind, token.text)), depends(token.text)) for token in tokens
        )
        return self._put(text, tokens, symbols)

    def target(self, text: str, source: str, of_source: Protection) -> ProtectedText:
        """Protect a target text, given the source text and how that is protected."""
        numbers = numbered(of_source.tokens(source))
        # By what the target language writes, the number and whether the source's token is digits alone.
        written: dict[tuple[str, str], tuple[int, bool]] = {}
        for (kind, value), number in numbers.items():
            written.setdefault((kind, self._localised(kind, value, of_source)), (number, depends(value)))
        tokens = self.tokens(text)

        def symbols() -> Iterator[str | None]:
            for token in tokens:
                key = token.kind, token.text
                number, localised = written.get(key, (None, False))
                verbatim = numbers.get(key)
                if verbatim in (None, number):
                    yield symbol_of(token.kind, number, localised)
                else:
                    yield symbol_of(token.kind, verbatim, False)

        return self._put(text, tokens, symbols())

    def _localised(self, kind: str, value: str, of_source: Protection) -> str:
        return localised(value, of_source.notation, self.notation) if kind == "numbers" else value

    def _put(self, text: str, tokens: Sequence[Token], symbols: Iterable[str | None]) -> ProtectedText:
        """Put symbols in place of tokens; None leaves a token as it is."""
        parts, values, literals, end = [], [], [], 0
        for token, symbol in zip(tokens, symbols, strict=True):
            if symbol is not None:
                values.append(token.text)
            elif TYPED.fullmatch(token.text):
                symbol = self.name
                literals.append(token.text)
            else:
                continue
            parts += [text[end : token.start], symbol]
            end = token.end
        return ProtectedText("".join([*parts, text[end:]]), values, literals)

    def restore(self, symbols: Sequence[Reserved], source: dict[int, str], of_source: Protection) -> list[str]:
        """Return the text of each reserved symbol of a translation; `source`: the token of each key of the source.

        A symbol whose number the source lacks has no text.
        """
        found = []
        for symbol in symbols:
            value = source.get(symbol.key, "")
            found.append(self._localised(symbol.kind, value, of_source) if symbol.localised else value)
        return found


def numbered(tokens: Iterable[Token]) -> dict[tuple[str, str], int]:
    """Give numbers to the distinct tokens of each kind from 1, up to `LIMIT`, in order."""
    numbers: dict[tuple[str, str], int] = {}
    counts = dict.fromkeys(KINDS, 0)
    for token in tokens:
        if (token.kind, token.text) not in numbers and counts[token.kind] < LIMIT:
            counts[token.kind] += 1
            numbers[token.kind, token.text] = counts[token.kind]
    return numbers


def depends(value: str) -> bool:
    """Tell whether the spelling of a number may depend on the language: whether it is not digits alone."""
    return not (value.isascii() and value.isdigit())


def symbol_of(kind: str, number: int | None, localised: bool) -> str | None:
    """Return the reserved symbol of a token, without a space before it; None without a number."""
    return None if number is None else str(Reserved(kind, number, localised and kind == "numbers", False))


def values_by_key(symbols: Iterable[str], values: Iterable[str]) -> dict[int, str]:
    """Return the token of each kind and number of a source, from its symbols and the values of the reserved ones."""
    reserved = (found for symbol in symbols if (found := parse(symbol)))
    return {found.key: value for found, value in zip(reserved, values, strict=True)}
