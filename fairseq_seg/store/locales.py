"""Varieties of a language: a memory of English takes en-GB and en-US too, and gives them back as such."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

# The attributes that keep the language of a pair's sides where it is not the memory's own.
SIDES = ("source-lang", "target-lang")


def language_code(code: str) -> str:
    """Spell a language's code as in XML: es-419 for es_419."""
    return code.replace("_", "-")


@lru_cache
def base_language(code: str) -> str:
    """Return the language of a variety: en for en-GB and en_US, sr for sr@latin."""
    return code.lower().replace("_", "-").replace("@", "-").split("-")[0]


def varieties(variants: Sequence[tuple[str, T]], lang: str) -> list[tuple[str, T]]:
    """Choose the texts for a language: all of its varieties, or of a variety that the memory is made for only that."""
    alike = [variant for variant in variants if variant[0] and base_language(variant[0]) == base_language(lang)]
    if language_code(lang).lower() == base_language(lang):
        return alike
    exact = [variant for variant in alike if language_code(variant[0]).lower() == language_code(lang).lower()]
    return exact or alike
