"""Split a plain-text parallel corpus, PREFIX.en and PREFIX.fr, into train, dev and test, cleaned and described.

Pairs that are no translations, too short, too long or of unlike lengths are left out, and every source is kept once, so
that no held-out source is trained on. dev and test are drawn at random with a fixed seed: the same text gives the same
files.
"""

import argparse
import os
import random
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SEED = 1
TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Pair:
    """A source sentence, its translation, and the page they stand on."""

    source: str
    target: str
    page: str


@dataclass(frozen=True)
class Size:
    """Which pairs a corpus takes: lengths in tokens, held-out pairs a set, and at most how many pairs to train on."""

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


def pairs_from_text(prefix: str, source_language: str, target_language: str) -> Iterator[Pair]:
    """Pair the lines of PREFIX.source and PREFIX.target; for want of pages, fifty lines are taken for one."""
    lines = []
    for path in (Path(f"{prefix}.{language}") for language in (source_language, target_language)):
        try:
            lines.append(path.read_text(encoding="utf-8").split("\n"))
        except FileNotFoundError:
            raise SystemExit(f"{path} is not there: --corpus takes what stands before .{source_language}.") from None
        except UnicodeDecodeError:
            raise SystemExit(f"{path} is not UTF-8 text: convert it, e.g. with iconv.") from None
    if len(lines[0]) != len(lines[1]):
        counts = f"{len(lines[0])} and {len(lines[1])}"
        raise SystemExit(
            f"The two files of --corpus {prefix} have {counts} lines: line n of one must translate line n."
        )
    for number, (source, target) in enumerate(zip(*lines, strict=True)):
        yield Pair(clean(source), clean(target), f"lines {number // 50}")


def without_repeats(pairs: Iterable[Pair]) -> list[Pair]:
    """Keep the first pair of every source, whatever its capitals, so that no held-out source is trained on."""
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair.source.casefold(), pair)
    return list(first.values())


def best_matches(queries: Sequence[str], memory: Sequence[str]) -> list[float]:
    """Return for every query the fuzzy score (Eq. 3, on words) of the nearest other sentence of `memory`."""
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
    from tqdm import tqdm

    # One character a word: the edit distance of strings is several times quicker than that of lists.
    symbols: dict[str, str] = {}

    def coded(text: str) -> str:
        return "".join(symbols.setdefault(token, chr(0x100 + len(symbols))) for token in tokens(text))

    coded_queries, coded_memory = [coded(text) for text in queries], [coded(text) for text in memory]
    place = {text: index for index, text in enumerate(memory)}
    best = []
    with tqdm(total=len(queries), desc="best matches", unit="sentence") as bar:
        for start in range(0, len(queries), 256):
            chunk = range(start, min(start + 256, len(queries)))
            scores = cdist(
                [coded_queries[i] for i in chunk],
                coded_memory,
                scorer=Levenshtein.normalized_similarity,
                dtype=np.float32,
                workers=-1,
            )
            for row, i in enumerate(chunk):
                if queries[i] in place:
                    scores[row, place[queries[i]]] = 0
            best += scores.max(axis=1, initial=0).tolist()
            bar.update(len(chunk))
    return best


def split(pairs: Sequence[Pair], held_out: int) -> dict[str, list[Pair]]:
    """Draw dev and test at random, `held_out` pairs each but at most a tenth; the rest is for training."""
    if len(pairs) < 10:
        raise SystemExit(f"Only {len(pairs)} usable pairs were found, at least 10 are needed: check the input.")
    shuffled = sorted(pairs, key=lambda pair: pair.source)
    random.Random(SEED).shuffle(shuffled)
    held_out = min(held_out, len(shuffled) // 10)
    return {
        "train": shuffled[2 * held_out :],
        "dev": shuffled[:held_out],
        "test": shuffled[held_out : 2 * held_out],
    }


def statistics(splits: dict[str, list[Pair]], source_language: str, target_language: str) -> str:
    """Describe a corpus in Markdown: sizes, vocabularies, and how near the training set comes to the test set."""
    rows = [
        f"| set | pairs | {source_language} tokens | {target_language} tokens | tokens per pair |",
        "|---|---|---|---|---|",
    ]
    for name, pairs in splits.items():
        n_source, n_target = (sum(len(tokens(getattr(p, side))) for p in pairs) for side in ("source", "target"))
        average = f"{n_source / len(pairs):.1f} / {n_target / len(pairs):.1f}"
        rows.append(f"| {name} | {len(pairs):,} | {n_source:,} | {n_target:,} | {average} |")
    words_source, words_target = (
        len({token for pair in splits["train"] for token in tokens(getattr(pair, side))})
        for side in ("source", "target")
    )
    best = best_matches([p.source for p in splits["test"][:1000]], [p.source for p in splits["train"]])
    shares = [sum(score >= bound for score in best) / len(best) for bound in (0.5, 0.7, 0.9)]
    rows += [
        "",
        f"Words in the training set: {source_language} {words_source:,}, {target_language} {words_target:,}.",
        f"Best fuzzy match of {len(best):,} test sentences in the training set: mean {sum(best) / len(best):.3f};"
        f" at least 0.5 for {shares[0]:.0%}, 0.7 for {shares[1]:.0%}, 0.9 for {shares[2]:.0%}.",
        "",
    ]
    return "\n".join(rows)


def write(splits: dict[str, list[Pair]], source_language: str, target_language: str, output: Path) -> None:
    """Write the sets as text and their statistics into a new folder, whole or not at all."""
    part = output.with_name(output.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, pairs in splits.items():
        for language, side in ((source_language, "source"), (target_language, "target")):
            text = "".join(getattr(pair, side) + "\n" for pair in pairs)
            (part / f"{name}.{language}").write_text(text, encoding="utf-8")
    (part / "statistics.md").write_text(statistics(splits, source_language, target_language), encoding="utf-8")
    os.rename(part, output)


def write_once(make: Callable[[], dict[str, list[Pair]]], source: str, target: str, output: Path) -> None:
    """Make a corpus unless it is there already, and print its statistics."""
    if output.exists():
        print(f"{output} is there already and is kept; remove it to make it anew.")
    else:
        write(make(), source, target, output)
    print((output / "statistics.md").read_text(encoding="utf-8"), end="")


def parse_args(description: str) -> argparse.Namespace:
    """Read the command line of a script that makes a corpus of two text files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", required=True, metavar="PREFIX", help="PREFIX.en and PREFIX.fr, one sentence per line"
    )
    parser.add_argument("-s", "--source", required=True, metavar="LANG", help="source language: the ending of its file")
    parser.add_argument("-t", "--target", required=True, metavar="LANG", help="target language: the ending of its file")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to make")
    return parser.parse_args()


def main() -> None:
    """Run the command line."""
    args = parse_args(__doc__)

    def make() -> dict[str, list[Pair]]:
        found = pairs_from_text(args.corpus, args.source, args.target)
        return split(
            without_repeats(pair for pair in found if is_translation(pair.source, pair.target, FULL)), FULL.held_out
        )

    write_once(make, args.source, args.target, args.output)


if __name__ == "__main__":
    main()
