"""Conditions that choose pairs of a memory: `origin=a.tmx`, `client=ACME`, `changed>=2026-01-31`, `target~Euro`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_seg.errors import SegError

# The columns that a condition can name; every other name is an attribute's, and so is what follows "attribute.".
COLUMNS = ("id", "source", "target", "origin", "unit", "created", "changed")
DATES = ("created", "changed")
FORM = re.compile(r"([^=!<>~]+)(!=|>=|<=|=|<|>|~)(.*)", re.DOTALL)
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2}(T\d{2}(:\d{2}(:\d{2}Z?)?)?)?)?)?")


class Condition(NamedTuple):
    """A condition as SQL, with the values of its question marks."""

    sql: str
    values: tuple


EVERY = Condition("1", ())


def parse_condition(text: str) -> Condition:
    """Parse ``NAME=PATTERN`` (with * and ?), ``!=``, ``NAME~TEXT`` (contains), or ``<``, ``<=``, ``>`` and ``>=``.

    NAME is id, source, target, text (either side), origin, unit, created, changed, or an attribute. The other
    side of < and > is a date, or a part of one, for created and changed, and a number for ids.
    """
    form = FORM.fullmatch(text)
    if form is None:
        raise SegError(f"'{text}' is not a condition: write NAME=PATTERN, NAME~TEXT or NAME>=VALUE.")
    name, operator, value = form[1].strip(), form[2], form[3].strip()
    if name == "text":
        sides = [parse_condition(f"{side}{operator}{value}") for side in ("source", "target")]
        word = " AND " if operator == "!=" else " OR "
        return Condition(f"({word.join(side.sql for side in sides)})", sides[0].values + sides[1].values)
    column, values = (name, ()) if name in COLUMNS else ("json_extract(attributes, ?)", (json_path(name),))
    if operator in ("=", "!="):
        if name == "id":
            return Condition(f"id {operator} ?", (whole_number(text, value),))
        # A date is a date whatever follows: created=2026-01 is that month.
        pattern = f"{value}*" if name in DATES else value.replace("[", "[[]")
        # What has no such attribute differs from every value.
        return Condition(
            f"coalesce({column} {'NOT ' * (operator == '!=')}GLOB ?, ?)", (*values, pattern, operator == "!=")
        )
    if operator == "~":
        return Condition(f"coalesce(instr(fold({column}), ?) > 0, 0)", (*values, value.casefold()))
    if name in DATES:
        if not DATE.fullmatch(value):
            raise SegError(f"'{text}' needs a date: write {name}{operator}2026-01-31 or 2026-01-31T12:59:00Z.")
        # As many characters as the date has, so that <=2026-01-31 takes that day in.
        return Condition(f"substr({column}, 1, ?) {operator} ?", (len(value), value))
    if name == "id":
        return Condition(f"id {operator} ?", (whole_number(text, value),))
    return Condition(f"coalesce({column} {operator} ?, 0)", (*values, value))


def whole_number(text: str, value: str) -> int:
    """Return the number of a condition on ids."""
    if not value.isdecimal():
        raise SegError(f"'{text}' needs a number: an id is one.")
    return int(value)


def json_path(name: str) -> str:
    """Return where an attribute is among the attributes; a quote cannot be escaped in SQLite's paths."""
    name = name.removeprefix("attribute.")
    if '"' in name:
        raise SegError(f"'{name}' cannot be looked for: the name of an attribute in a condition has no quotes.")
    return f'$."{name}"'


def all_of(conditions: Sequence[Condition]) -> Condition:
    """Join conditions into one that demands all of them."""
    return Condition(
        " AND ".join(condition.sql for condition in (EVERY, *conditions)),
        tuple(value for condition in conditions for value in condition.values),
    )
