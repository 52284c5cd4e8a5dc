"""Make a parallel corpus, English to French, German or Spanish, from LibreOffice's help: train, dev and test as text.

A paragraph that has the same page and the same element id in both languages is a pair. `--subset` keeps short
sentences of pages that repeat each other, so that a small model learns something in minutes.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import help_pages
from tqdm import tqdm

from fairseq_seg.errors import command
from fairseq_seg.recipes.parallel import FULL, Pair, Size, clean, cleaned, split

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the examples are scripts, not a package

from parallel_text import nearest_scores, pairs_from_text, write_once  # noqa: E402

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z]|[\"«“(¿¡])")


# Every sentence is compared with every other one: 40,000 take half a minute, ten times as many would take an hour.
COMPARED = 40_000
SUBSET = Size(source_tokens=16, target_tokens=24, held_out=500, train=8000)


def sentences(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Split a pair of paragraphs into sentences where both have the same number of them, else leave it whole."""
    sources, targets = SENTENCE_END.split(source), SENTENCE_END.split(target)
    if len(sources) == len(targets):
        yield from zip(sources, targets, strict=True)
    else:
        yield source, target


def pairs_from_packages(source_package: Path, target_package: Path) -> Iterator[Pair]:
    """Pair the paragraphs of two help packages by page and element id."""
    target_pages = dict(help_pages.read_pages(target_package))
    for page, html in tqdm(sorted(help_pages.read_pages(source_package)), desc="pages", unit="page"):
        targets = help_pages.paragraphs(target_pages.get(page, ""))
        for element_id, source in help_pages.paragraphs(html).items():
            if element_id in targets:
                for pair in sentences(clean(source), clean(targets[element_id])):
                    yield Pair(*pair, page)


def repetitive_pages(pairs: Sequence[Pair], limit: int) -> list[Pair]:
    """Keep the pages whose sentences have the nearest neighbours, on average, up to `limit` pairs."""
    if len(pairs) <= limit:
        return list(pairs)
    pairs = pairs[:COMPARED]
    sources = [pair.source for pair in pairs]
    scores: dict[str, list[float]] = {}
    for pair, score in zip(pairs, nearest_scores(sources, sources), strict=True):
        scores.setdefault(pair.page, []).append(score)
    ranking = sorted(scores, key=lambda page: (-sum(scores[page]) / len(scores[page]), page))
    kept, count = set(), 0
    for page in ranking:
        if count + len(scores[page]) <= limit:
            kept.add(page)
            count += len(scores[page])
    return [pair for pair in pairs if pair.page in kept]


@command("prepare.py")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="fr", metavar="LANG", help="target language: fr (default), de or es")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder to make (default: data/en-LANG beside this file)"
    )
    parser.add_argument(
        "--subset", action="store_true", help="up to 8,000 short pairs from pages that repeat each other"
    )
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument("--deb", nargs=2, type=Path, metavar="FILE", help="local help packages, English and target")
    origin.add_argument(
        "--corpus", metavar="PREFIX", help="your own text, PREFIX.en and PREFIX.LANG, instead of the help"
    )
    args = parser.parse_args()

    size = SUBSET if args.subset else FULL

    def make() -> dict[str, list[Pair]]:
        if args.corpus:
            found = pairs_from_text(args.corpus, "en", args.target)
        else:
            packages = args.deb or [help_pages.fetch_package(lang, HERE / "data") for lang in ("en", args.target)]
            found = pairs_from_packages(*packages)
        pairs = cleaned(found, size)
        if size.train:
            pairs = repetitive_pages(pairs, size.train + 2 * size.held_out)
        return split(pairs, size.held_out)

    output = args.output or HERE / "data" / f"en-{args.target}{'-subset' if args.subset else ''}"
    write_once(make, "en", args.target, output)


if __name__ == "__main__":
    main()
