"""Split a language pair of JRC-Acquis as the paper did: 3,000 pairs each for dev and test, the rest to train on.

Lines without letters are left out, and so are sentences of more than 80 tokens in training or 100 in dev and test.
Nothing else is cleaned, and repeated sentences stay, because the paper mentions neither.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the examples are scripts, not a package

from parallel_text import Pair, run, split, tokens  # noqa: E402

HELD_OUT = 3000
TRAIN_TOKENS, TEST_TOKENS = 80, 100


def has_letters(pair: Pair) -> bool:
    """Tell whether both sides are more than special characters."""
    return any(map(str.isalpha, pair.source)) and any(map(str.isalpha, pair.target))


def length(pair: Pair) -> int:
    """Count the tokens of the longer side."""
    return max(len(tokens(pair.source)), len(tokens(pair.target)))


def as_the_paper(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Draw dev and test, and leave the longer sentences out of training."""
    splits = split([pair for pair in pairs if has_letters(pair) and length(pair) <= TEST_TOKENS], HELD_OUT)
    return splits | {"train": [pair for pair in splits["train"] if length(pair) <= TRAIN_TOKENS]}


if __name__ == "__main__":
    run(__doc__, as_the_paper)
