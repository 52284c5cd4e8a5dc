"""Leave out pairs with a long sentence, counted in the model's symbols, from a text and from its symbols alike.

    python examples/shorten.py TEXT SYMBOLS OUTPUT en fr train=80 dev=100 test=100

TEXT and SYMBOLS hold train, dev and test of both languages, line by line; OUTPUT gets both without the long pairs.
"""

import sys
from pathlib import Path

from fairseq_seg.files import make_whole, read_text_file


def shorten(text: Path, symbols: Path, output: Path, languages: list[str], longest: dict[str, int]) -> None:
    """Write `output`/text and `output`/symbols; a split that has no limit is copied."""
    with make_whole(output) as folder:
        for split in ("train", "dev", "test"):
            names = [f"{split}.{language}" for language in languages]
            files = [folder / name for folder in (text, symbols) for name in names]
            lines = list(zip(*map(read_text_file, files), strict=True))
            kept = [line for line in lines if fits(line[-len(names) :], longest.get(split))]
            print(f"{split}: {len(kept):,} of {len(lines):,} pairs have at most {longest.get(split)} symbols a side.")
            sides = [(part, name) for part in ("text", "symbols") for name in names]
            for (part, name), side in zip(sides, zip(*kept, strict=True), strict=True):
                (folder / part).mkdir(exist_ok=True)
                (folder / part / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")


def fits(sides: tuple[str, ...], longest: int | None) -> bool:
    """Tell whether no side has more symbols."""
    return longest is None or max(len(side.split()) for side in sides) <= longest


if __name__ == "__main__":
    folders, names, limits = sys.argv[1:4], sys.argv[4:6], sys.argv[6:]
    shorten(*map(Path, folders), names, {split: int(limit) for split, _, limit in (x.partition("=") for x in limits)})
