"""Split a language pair of JRC-Acquis as the paper did: 3,000 pairs each for dev and test, the rest to train on.

Lines of special characters only are left out; so are sentences of more than 80 tokens in training and of more than 100
in dev and test. Nothing else is cleaned, and repeated sentences stay: the paper speaks of neither.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the examples are scripts, not a package

from parallel_text import Pair, pairs_from_text, parse_args, split, tokens, write_once  # noqa: E402

HELD_OUT = 3000
TRAIN_TOKENS, TEST_TOKENS = 80, 100


def has_letters(pair: Pair) -> bool:
    """Tell whether both sides are more than special characters."""
    return any(map(str.isalpha, pair.source)) and any(map(str.isalpha, pair.target))


def length(pair: Pair) -> int:
    """Count the tokens of the longer side."""
    return max(len(tokens(pair.source)), len(tokens(pair.target)))


def as_the_paper(pairs: list[Pair]) -> dict[str, list[Pair]]:
    """Draw dev and test, and leave the longer sentences out of training."""
    splits = split([pair for pair in pairs if has_letters(pair) and length(pair) <= TEST_TOKENS], HELD_OUT)
    return splits | {"train": [pair for pair in splits["train"] if length(pair) <= TRAIN_TOKENS]}


def main() -> None:
    """Run the command line."""
    args = parse_args(__doc__)

    def make() -> dict[str, list[Pair]]:
        return as_the_paper(list(pairs_from_text(args.corpus, args.source, args.target)))

    write_once(make, args.source, args.target, args.output)


if __name__ == "__main__":
    main()
