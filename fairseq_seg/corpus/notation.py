"""How languages write numbers and dates: read a token's value, and write it as another language does.

The table follows Unicode's CLDR. What a text shows about itself goes before the table: which mark it writes between
groups of digits, and whether 01/12/2022 is in January.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import NamedTuple

from fairseq_seg.corpus.tokens import APOSTROPHES, SPACES, Token

NARROW = "\u202f"
NO_BREAK = "\u00a0"


class Notation(NamedTuple):
    """How a language writes numbers and dates."""

    lang: str
    decimal: str  # the mark before a fraction
    groups: str  # marks accepted between groups of three digits
    group: str  # the mark that is written
    date: str  # order and separator of numeric dates: d/m/y, m/d/y, d.m.y, y-m-d ...


class Number(NamedTuple):
    """A number in digits."""

    whole: str
    fraction: str
    exponent: str  # e-10, or nothing
    grouped: bool


# decimal mark, written group mark, date; the languages that write so
TABLE = {
    (".", ",", "m/d/y"): "en",
    (
        ".",
        ",",
        "d/m/y",
    ): "en-gb en-ie en-au en-nz en-in en-za en-mt en-sg th hi bn ta te mr gu kn ml pa ms cy ga mt ur sw "
    "es-mx es-419 es-us es-pr es-gt es-hn es-sv es-ni es-pa es-do",
    (".", ",", "y/m/d"): "ja zh ne si",
    (".", ",", "y-m-d"): "en-ca",
    (".", ",", "y.m.d"): "ko",
    (".", ",", "d.m.y"): "he",
    (".", "\u2019", "d.m.y"): "de-ch de-li it-ch rm",
    (",", ".", "d/m/y"): "es it pt el id vi ca gl",
    (",", ".", "d.m.y"): "de da hr ro sl sr tr mk bs is az",
    (",", ".", "d-m-y"): "nl fy",
    (",", ".", "y/m/d"): "eu",
    (",", NARROW, "d/m/y"): "fr",
    (",", NARROW, "d.m.y"): "fr-ch",
    (",", NO_BREAK, "y-m-d"): "fr-ca sv lt af",
    (",", NO_BREAK, "d.m.y"): "cs sk pl ru uk be bg fi et lv nb nn no ka hy kk",
    (",", NO_BREAK, "y.m.d"): "hu",
    (",", NO_BREAK, "d/m/y"): "pt-pt oc br",
    (",", " ", "d/m/y"): "eo",
}
LANGUAGES = {lang: columns for columns, langs in TABLE.items() for lang in langs.split()}
UNKNOWN = (".", ",", "d/m/y")  # of a language that the table does not have

GROUPED = re.compile(rf"(?<![\w.,{SPACES}])[1-9]\d{{0,2}}([.,{SPACES}{APOSTROPHES}])\d{{3}}(?:\1\d{{3}})*(?!\d|[.,]\d)")
SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/\d{4}(?![\d/])")
DATE = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})|(\d{4})([-/.])(\d{1,2})\6(\d{1,2})")


def notation_of(lang: str, lines: Iterable[str] = ()) -> Notation:
    """Return the notation of a language, by its code; pt_BR falls back to pt. Lines of text, if given, refine it."""
    code = re.split(r"[.@]", lang.lower().replace("_", "-"))[0]
    while code not in LANGUAGES and "-" in code:
        code = code.rpartition("-")[0]
    decimal, group, date = LANGUAGES.get(code, UNKNOWN)
    own = group if group in ".," else ""
    groups = own + "".join(mark for mark in SPACES + APOSTROPHES if mark != own)
    written: Counter[str] = Counter()
    orders: Counter[str] = Counter()
    for line in lines:
        written.update(match[1] for match in GROUPED.finditer(line) if match[1] in groups)
        if "/" in line:
            orders.update(order for match in SLASHED.finditer(line) if (order := _order(int(match[1]), int(match[2]))))
    if written:
        group = written.most_common(1)[0][0]
    if date in ("d/m/y", "m/d/y") and orders:
        date = orders.most_common(1)[0][0]
    return Notation(lang, decimal, groups, group, date)


def _order(first: int, second: int) -> str | None:
    """Tell the order of day and month from two numbers of a date, if one of them can only be the day."""
    if first > 12 >= second:
        return "d/m/y"
    return "m/d/y" if second > 12 >= first else None


def value(token: Token, notation: Notation) -> Hashable:
    """Return what a token stands for: a Decimal, a date (year, month, day), or its text."""
    if token.kind != "numbers":
        return token.text
    if (number := read_number(token.text, notation)) is not None:
        return Decimal(f"{number.whole or 0}.{number.fraction or 0}{number.exponent}")
    if (parts := read_date(token.text, notation)) is not None:
        year, month, day = map(int, parts)
        return year, month, day
    return token.text


def localised(text: str, source: Notation, target: Notation) -> str:
    """Write a number or date of a source text as the target language does.

    What may be something else stays as it is: versions and addresses (7.4.7), times, ISO dates, fractions.
    """
    if (number := read_number(text, source)) is not None:
        return write_number(number, target) if set(text) & set(".,'\u2019" + SPACES) else text
    parts = read_date(text, source)
    if parts is None or text[:4].isdigit():
        return text
    order, mark = target.date[::2], next(mark for mark in text if not mark.isdigit())
    if mark != source.date[1]:
        # Points in an English text, for example: what is not the usual notation is kept if it can be.
        return text if order == "dmy" else target.date[1].join(_by_order(parts, order))
    return target.date[1].join(_by_order(parts, order))


def _by_order(parts: tuple[str, str, str], order: str) -> list[str]:
    return [dict(zip("ymd", parts, strict=True))[part] for part in order]


def read_date(text: str, notation: Notation) -> tuple[str, str, str] | None:
    """Return year, month and day of a date in digits, as they are written; None for anything else."""
    match = DATE.fullmatch(text)
    if match is None:
        return None
    if match[1]:
        day, month, year = match[1], match[3], match[4]
        usual = notation.date[::2] if match[2] != "." else "dmy"
        if _order(int(day), int(month)) == "m/d/y" or (usual == "mdy" and int(month) <= 12 and int(day) <= 12):
            day, month = month, day
    else:
        year, month, day = match[5], match[7], match[8]
    return (year, month, day) if 1 <= int(month) <= 12 and 1 <= int(day) <= 31 else None


def read_number(text: str, notation: Notation) -> Number | None:
    """Read a number; None for anything else, as dates, times and versions.

    A single mark before exactly three digits groups them if the language groups so, else it begins the fraction: 1,234
    is above a thousand in English and below two in French. Every other single mark begins a fraction in any language.
    """
    mantissa, exponent = re.fullmatch(r"([^eE]*)([eE].*)?", text, re.DOTALL).groups("")  # type: ignore[union-attr]
    marks = [mark for mark in mantissa if not mark.isdecimal()]
    if not marks:
        return Number(mantissa, "", exponent, False)
    last, others = marks[-1], set(marks[:-1])
    if len(marks) == 1 and last in ".,":
        head, tail = mantissa.split(last)
        if not (len(tail) == 3 and 1 <= len(head) <= 3 and head[0] != "0" and last in notation.groups):
            return Number(head, tail, exponent, False)
    if last in ".," and len(others) == 1 and last not in others:
        whole, _, fraction = mantissa.rpartition(last)
        group = others.pop()
    elif not others - {last}:
        whole, fraction, group = mantissa, "", last
    else:
        return None
    if group not in ".," + SPACES + APOSTROPHES:
        return None
    first, *parts = whole.split(group)
    if not 1 <= len(first) <= 3 or any(len(part) != 3 for part in parts):
        return None
    return Number(first + "".join(parts), fraction, exponent, True)


def write_number(number: Number, notation: Notation) -> str:
    """Write a number with the marks of a language; groups, if it came in groups."""
    whole = number.whole or ("" if notation.decimal == "." else "0")  # of .5
    if number.grouped:
        first = len(whole) % 3
        whole = notation.group.join([whole[:first]] * bool(first) + re.findall("...", whole[first:]))
    return whole + (notation.decimal + number.fraction if number.fraction else "") + number.exponent
