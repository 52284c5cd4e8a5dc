"""Clean pairs of sentences, and draw dev and test from them.

Pairs that are not translations, are too short or too long, or differ much in length are left out. Every source is kept
once, so that no held-out source is trained on. dev and test are drawn with a fixed seed.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairseq_seg.errors import SegError

SEED = 1
TOKEN = re.compile(r"\w+|[^\w\s]")


class Pair(NamedTuple):
    """A source sentence, its translation, and the page they stand on."""

    source: str
    target: str
    page: str


class Size(NamedTuple):
    """Limits of a corpus: tokens per sentence, held-out pairs per set, and pairs to train on."""

    source_tokens: int
    target_tokens: int
    held_out: int
    train: int | None


FULL = Size(source_tokens=80, target_tokens=100, held_out=3000, train=None)


def tokens(text: str) -> list[str]:
    """Split into words and single marks of punctuation; for counting only, the corpus itself stays as it is."""
    return TOKEN.findall(text)


def clean(text: str) -> str:
    """Compose accents, and turn every run of white space, also no-break spaces, into one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_translation(source: str, target: str, size: Size) -> bool:
    """Tell whether a pair is worth training on: translated at all, not too short or long, of comparable lengths."""
    n_source, n_target = len(tokens(source)), len(tokens(target))
    return (
        source.casefold() != target.casefold()
        and 3 <= n_source <= size.source_tokens
        and 3 <= n_target <= size.target_tokens
        and max(n_source, n_target) <= 2 * min(n_source, n_target) + 5
        and any(c.isalpha() for c in source)
        and any(c.isalpha() for c in target)
    )


def without_repeats(pairs: Iterable[Pair]) -> list[Pair]:
    """Keep the first pair of every source, whatever its capitals, so that no held-out source is trained on."""
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair.source.casefold(), pair)
    return list(first.values())


def cleaned(pairs: Iterable[Pair], size: Size) -> list[Pair]:
    """Keep the pairs worth training on, each source once."""
    return without_repeats(pair for pair in pairs if is_translation(pair.source, pair.target, size))


def split(pairs: Sequence[Pair], held_out: int) -> dict[str, list[Pair]]:
    """Draw dev and test at random, `held_out` pairs each but at most a tenth; the rest is for training."""
    if len(pairs) < 10:
        raise SegError(f"Only {len(pairs)} usable pairs were found, at least 10 are needed: check the input.")
    shuffled = sorted(pairs, key=lambda pair: pair.source)
    random.Random(SEED).shuffle(shuffled)
    held_out = min(held_out, len(shuffled) // 10)
    dev, test, train = shuffled[:held_out], shuffled[held_out : 2 * held_out], shuffled[2 * held_out :]
    return {"train": train, "dev": dev, "test": test}
