"""Split a plain-text parallel corpus, PREFIX.en and PREFIX.fr, into train, dev and test, cleaned and described.

Pairs that are not translations, are too short or too long, or differ much in length are left out. Every source is kept
once, so that no held-out source is trained on. dev and test are drawn with a fixed seed.
"""

import argparse
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from tqdm import tqdm

from fairseq_seg.errors import SegError, command
from fairseq_seg.files import make_whole, read_text_file
from fairseq_seg.recipes.parallel import FULL, Pair, clean, cleaned, split, tokens


def pairs_from_text(prefix: str, source_language: str, target_language: str) -> Iterator[Pair]:
    """Pair the lines of PREFIX.source and PREFIX.target; for want of pages, fifty lines are taken for one."""
    sources, targets = (lines_of(prefix, language) for language in (source_language, target_language))
    if len(sources) != len(targets):
        counts = f"{len(sources)} and {len(targets)}"
        raise SegError(f"The files of --corpus {prefix} have {counts} lines: line n of one must translate line n.")
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        yield Pair(clean(source), clean(target), f"lines {number // 50}")


def lines_of(prefix: str, language: str) -> list[str]:
    """Return the lines of PREFIX.language, or of all texts of a language in a zip archive, by name."""
    if zipfile.is_zipfile(prefix):
        with zipfile.ZipFile(prefix) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(f".{language}"))
            if not names:
                raise SegError(f"{prefix} has no text of {language}: give an archive that has NAME.{language}.")
            return [line for name in names for line in archive.read(name).decode().removesuffix("\n").split("\n")]
    path = f"{prefix}.{language}"
    return read_text_file(path, f"--corpus {prefix}: {path}")


def nearest_scores(queries: Sequence[str], memory: Sequence[str]) -> list[float]:
    """Return for every query the fuzzy score (Eq. 3, on words) of the nearest other sentence of `memory`."""
    # One character per word: the edit distance of strings is several times quicker than that of lists.
    symbols: dict[str, str] = {}

    def coded(text: str) -> str:
        return "".join(symbols.setdefault(token, chr(0x100 + len(symbols))) for token in tokens(text))

    coded_memory = [coded(text) for text in memory]
    place = {text: index for index, text in enumerate(memory)}
    best: list[float] = []
    for start in tqdm(range(0, len(queries), 256), desc="best matches", unit=" x 256 sentences"):
        chunk = queries[start : start + 256]
        options = {"scorer": Levenshtein.normalized_similarity, "dtype": np.float32, "workers": -1}
        scores = cdist([coded(text) for text in chunk], coded_memory, **options)
        for row, text in enumerate(chunk):
            if text in place:
                scores[row, place[text]] = 0
        best += scores.max(axis=1, initial=0).tolist()
    return best


def statistics(splits: dict[str, list[Pair]], source_language: str, target_language: str) -> str:
    """Describe a corpus in Markdown: sizes, vocabularies, and how similar the training set is to the test set."""

    def all_tokens(name: str) -> list[list[str]]:
        return [
            [token for text in side for token in tokens(text)] for side in list(zip(*splits[name], strict=True))[:2]
        ]

    rows = [
        f"| set | pairs | {source_language} tokens | {target_language} tokens | tokens per pair |",
        "|---" * 5 + "|",
    ]
    for name, pairs in splits.items():
        source, target = map(len, all_tokens(name))
        average = f"{source / len(pairs):.1f} / {target / len(pairs):.1f}"
        rows.append(f"| {name} | {len(pairs):,} | {source:,} | {target:,} | {average} |")
    source, target = (len(set(side)) for side in all_tokens("train"))
    best = nearest_scores([p.source for p in splits["test"][:1000]], [p.source for p in splits["train"]])
    shares = [sum(score >= bound for score in best) / len(best) for bound in (0.5, 0.7, 0.9)]
    return "\n".join(rows) + (
        f"\n\nWords in the training set: {source_language} {source:,}, {target_language} {target:,}.\n"
        f"Best fuzzy match of {len(best):,} test sentences in the training set: mean {sum(best) / len(best):.3f};"
        f" at least 0.5 for {shares[0]:.0%}, 0.7 for {shares[1]:.0%}, 0.9 for {shares[2]:.0%}.\n"
    )


def write_once(make: Callable[[], dict[str, list[Pair]]], source: str, target: str, output: Path) -> None:
    """Write a corpus and its statistics into a new folder, whole or not at all; keep an existing one."""
    if output.exists():
        print(f"{output} exists and is kept: remove it to rebuild it.")
    else:
        splits = make()
        with make_whole(output) as folder:
            for name, pairs in splits.items():
                for language, side in ((source, "source"), (target, "target")):
                    text = "".join(getattr(pair, side) + "\n" for pair in pairs)
                    (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
            (folder / "statistics.md").write_text(statistics(splits, source, target), encoding="utf-8")
    print((output / "statistics.md").read_text(encoding="utf-8"), end="")


@command("parallel_text.py")
def run(description: str, divide: Callable[[Iterable[Pair]], dict[str, list[Pair]]]) -> None:
    """Run the command line of a script that divides two text files into train, dev and test."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = partial(parser.add_argument, required=True)
    add("--corpus", metavar="PREFIX", help="PREFIX.en and PREFIX.fr, one sentence per line, or a zip archive of them")
    add("-s", "--source", metavar="LANG", help="source language: the extension of its file")
    add("-t", "--target", metavar="LANG", help="target language: the extension of its file")
    add("--output", type=Path, metavar="DIR", help="folder to create")
    parser.add_argument("--first", type=int, metavar="N", help="use only the first N pairs, to try it out")
    args = parser.parse_args()
    languages = args.source, args.target
    write_once(lambda: divide(islice(pairs_from_text(args.corpus, *languages), args.first)), *languages, args.output)


if __name__ == "__main__":
    run(__doc__, lambda pairs: split(cleaned(pairs, FULL), FULL.held_out))
