"""Split a language pair of JRC-Acquis as the paper did: 3,000 pairs each for dev and test, the rest to train on.

dev and test are drawn from all pairs, at random, before anything is left out: the paper's sets have fewer than 3,000
pairs because long ones were left out afterwards. Of the rest, pairs with a side of special characters only, without any
letter or digit ("* * *"), are left out, as in the paper. Nothing else is cleaned, and repeated sentences stay, because
the paper mentions neither. A pair with an empty side is not a pair. Length is limited later, in subwords.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from fairseq_seg.recipes.parallel import Pair, split

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the examples are scripts, not a package

from parallel_text import run  # noqa: E402

HELD_OUT = 3000


def says_something(text: str) -> bool:
    """Tell whether a text is more than special characters: it has a letter or a digit."""
    return any(map(str.isalnum, text))


def as_the_paper(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Draw dev and test, then leave lines of special characters out of the rest."""
    splits = split([pair for pair in pairs if pair.source and pair.target], HELD_OUT)
    train = [pair for pair in splits["train"] if says_something(pair.source) and says_something(pair.target)]
    return splits | {"train": train}


if __name__ == "__main__":
    run(__doc__, as_the_paper)
