"""Clean a memory: find pairs that do more harm than good, and delete them if the user agrees.

- duplicates: the same texts as an earlier pair's, but for white space and the way that accents are encoded.
- empty: one side has letters or digits, the other has none.
- identical: the target is the source, and has letters.
- language: a side is in the other side's language, or in a script that its side hardly ever has. What a language looks
  like is learned from the memory itself, so it must be right for the most part.
- tags: the target lacks tags or inline codes of the source, has others, or does not close what it opens.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.errors import SegError
from fairseq_seg.store.conditions import Condition
from fairseq_seg.store.pair import StoredPair
from fairseq_seg.store.rows import as_ids
from fairseq_seg.store.store import TranslationMemory

CHECKS = ("duplicates", "empty", "identical", "language", "tags")
TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*?)?(/?)>")
# Elements of HTML that nothing closes.
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
# Pairs that a language is learned from, the fewest that are enough, and the fewest letters of a text that tell.
SAMPLE = 20_000
FEWEST_PAIRS = 200
FEWEST_LETTERS = 20
# Natural logarithm per trigram by which the other language must be likelier.
MARGIN = 0.5
BUCKETS = 1 << 16
RARE_SCRIPT = 0.01


class Fault(NamedTuple):
    """A pair that should go, and the check that says so."""

    check: str
    pair: StoredPair


def find_faults(memory: TranslationMemory, checks: Collection[str] = CHECKS) -> Iterator[Fault]:
    """Iterate over the pairs that fail a check, each with the first one that it fails."""
    tests: dict[str, Callable[[StoredPair], bool]] = {}
    if "duplicates" in checks:
        tests["duplicates"] = Duplicates(memory)
    tests |= {name: test for name, test in SIMPLE.items() if name in checks}
    if "language" in checks and len(memory) >= FEWEST_PAIRS:
        tests["language"] = Languages(memory)
    for pair in tqdm(memory.pairs(), "checking", len(memory), leave=False, unit=" pairs"):
        failed = next((name for name, test in tests.items() if test(pair)), None)
        if failed is not None:
            yield Fault(failed, pair)


def delete_faults(memory: TranslationMemory, faults: Iterable[Fault]) -> int:
    """Delete pairs, unless somebody has changed them since; return how many."""
    revisions = {fault.pair.id: fault.pair.revision for fault in faults}
    if not revisions:
        return 0
    chosen = Condition(
        "id IN (SELECT value FROM json_each(?)) AND revision <= ?", (as_ids(revisions), max(revisions.values()))
    )
    return memory.delete_where([chosen])


class Duplicates:
    """Tells a pair with the texts of an earlier one."""

    def __init__(self, memory: TranslationMemory):
        """Read the memory once; 8 bytes of RAM per pair."""
        keys = np.fromiter((text_pair_key(pair) for pair in memory.pairs()), dtype=np.uint64)
        keys.sort()
        self._repeated = set(keys[:-1][keys[1:] == keys[:-1]].tolist())
        # The texts that came first for each repeated key; two different texts with one key are not duplicates.
        self._seen: dict[int, tuple[str, str]] = {}

    def __call__(self, pair: StoredPair) -> bool:
        """Tell whether an earlier pair has the same texts; pairs come in the order of their ids."""
        key = text_pair_key(pair)
        if key not in self._repeated:
            return False
        if key in self._seen:
            return self._seen[key] == plain_texts(pair)
        self._seen[key] = plain_texts(pair)
        return False


def text_pair_key(pair: StoredPair) -> int:
    """Return a 64-bit key of a pair's texts."""
    return int.from_bytes(blake2b("\0".join(plain_texts(pair)).encode(), digest_size=8).digest(), "little")


def plain_texts(pair: StoredPair) -> tuple[str, str]:
    """Return both texts with accents encoded in one way and single blanks."""
    source, target = (" ".join(unicodedata.normalize("NFC", text).split()) for text in (pair.source, pair.target))
    return source, target


def is_half_empty(pair: StoredPair) -> bool:
    """Tell whether only one side has letters or digits."""
    source, target = (any(map(str.isalnum, without_codes(text))) for text in (pair.source, pair.target))
    return source != target


def is_identical(pair: StoredPair) -> bool:
    """Tell whether the target is the source."""
    source, target = plain_texts(pair)
    return source == target and any(map(str.isalpha, without_codes(source)))


def has_wrong_tags(pair: StoredPair) -> bool:
    """Tell whether the target has other tags than the source, or does not close what it opens while the source does."""
    source, target = TAG.findall(pair.source), TAG.findall(pair.target)
    if not source and not target:
        return False
    return Counter(source) != Counter(target) or (is_nested(source) and not is_nested(target))


def is_nested(tags: list[tuple[str, str, str]]) -> bool:
    """Tell whether tags, as `TAG` finds them, are closed in the order in which they were opened."""
    is_open: list[str] = []
    for closing, name, alone in tags:
        if closing:
            if not is_open or is_open.pop() != name:
                return False
        elif not alone and name.lower() not in VOID:
            is_open.append(name)
    return not is_open


SIMPLE: dict[str, Callable[[StoredPair], bool]] = {
    "empty": is_half_empty,
    "identical": is_identical,
    "tags": has_wrong_tags,
}


class Languages:
    """Tells a side in the wrong language by its trigrams of letters, as the sides of the memory have them."""

    def __init__(self, memory: TranslationMemory):
        """Learn from pairs that are spread over the whole memory."""
        counts = np.ones((2, BUCKETS))
        scripts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        step = max(len(memory) // SAMPLE, 1)
        for number, pair in enumerate(memory.pairs()):
            if number % step:
                continue
            for side, text in enumerate((pair.source, pair.target)):
                letters = letters_of(text)
                np.add.at(counts[side], trigrams(letters), 1)
                scripts[side].update(map(script, letters.replace(" ", "")))
        logs = np.log(counts / counts.sum(axis=1, keepdims=True))
        self._difference = logs[1] - logs[0]  # of a trigram being the target's language rather than the source's
        self._scripts = [
            {name for name, count in found.items() if count > RARE_SCRIPT * found.total()} for found in scripts
        ]

    def __call__(self, pair: StoredPair) -> bool:
        """Tell whether a side is in the other side's language, or in a script that its side hardly has."""
        sides = letters_of(pair.source), letters_of(pair.target)
        for side, letters in enumerate(sides):
            if len(letters) < FEWEST_LETTERS:
                continue
            foreign = sum(script(letter) not in self._scripts[side] for letter in letters if letter != " ")
            if foreign > len(letters) / 2:
                return True
            other = float(self._difference[trigrams(letters)].mean()) * (1 if side == 0 else -1)
            if other > MARGIN:
                return True
        return False


def letters_of(text: str) -> str:
    """Return the letters of a text, small, with single blanks between words."""
    return " ".join("".join(c if c.isalpha() else " " for c in without_codes(text).lower()).split())


def trigrams(letters: str) -> np.ndarray:
    """Return a bucket for each three characters in a row, (T,)."""
    codes = np.frombuffer(f" {letters} ".encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    if len(codes) < 3:
        return np.zeros(0, dtype=np.int64)
    mixed = (codes[:-2] * np.uint64(961) + codes[1:-1] * np.uint64(31) + codes[2:]) * np.uint64(0x9E3779B1)
    return ((mixed >> np.uint64(11)) % np.uint64(BUCKETS)).astype(np.int64)


@cache
def script(letter: str) -> str:
    """Return the script of a letter, by the first word of its name: LATIN, CYRILLIC, CJK ..."""
    return unicodedata.name(letter, "UNKNOWN").split()[0]


def parse_checks(names: str) -> tuple[str, ...]:
    """Parse ``empty,tags`` into the names of checks."""
    checks = tuple(name.strip() for name in names.split(","))
    for name in checks:
        if name not in CHECKS:
            raise SegError(f"'{name}' is not a check: choose from {', '.join(CHECKS)}.")
    return checks
