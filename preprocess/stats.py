"""seg-stats: tells from an attached data-bin, before any training, whether a memory can help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if not __package__:  # run as a script from the clone
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_seg.corpus.attached import AttachedPairs
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import Sequences, row_keys
from fairseq_seg.corpus.subwords import KINDS, Spelling
from fairseq_seg.errors import SegError, command
from fairseq_seg.evaluate.best_pair import BINS, best_pairs, best_scores, score_bins
from fairseq_seg.evaluate.scores import bleu_by_bin
from fairseq_seg.source.pair_source import Attached

BAR = 40
COVERAGE_SAMPLE = 5000


def get_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    options = argparse.ArgumentParser(
        prog="seg-stats",
        description="Shows how well the memory that seg-attach retrieved fits each split: fuzzy scores, duplicates, "
        "coverage, and BLEU of copying the best pair's target (TM). High scores with a high TM BLEU promise much.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    options.add_argument("data", metavar="DATA-BIN", help="a data-bin after seg-attach")
    options.add_argument("-s", "--source-lang", help="source language; by default the first of the data-bin")
    options.add_argument("-t", "--target-lang", help="target language; by default the second of the data-bin")
    options.add_argument(
        "--subword",
        choices=KINDS,
        help="how the target text was cut into symbols; by default told from the dictionary",
    )
    options.add_argument("--copies", metavar="FOLDER", help="also write the TM translations, FOLDER/SPLIT.TARGET")
    options.add_argument("--png", metavar="FILE", help="also draw the histogram of best scores")
    return options


@dataclass
class SplitStats:
    """What one split and its memory look like; ``bins`` (N,) gives the score bin of each sentence."""

    split: str
    bins: np.ndarray
    mean_best: float
    adaptive: float
    coverage: dict[str, float]
    repeated_pairs: int
    repeated_sources: int
    pairs_in_memory: int
    sources_in_memory: int
    bleu: dict[int | str, float]
    bleu_signature: str | None
    copies: list[str]

    def shares(self) -> list[float]:
        """The share of the sentences in each of `BINS`."""
        return [float(np.mean(self.bins == bin)) if len(self.bins) else 0.0 for _, bin in BINS]


def covered(sentence: np.ndarray, sources: list[np.ndarray]) -> float:
    """The share of a sentence's symbols that occur in any of the sources, as in Alg. 1."""
    return float(np.isin(sentence, np.concatenate(sources)).mean()) if sources and len(sentence) else 0.0


def split_stats(
    split: str,
    data: DataBin,
    memory: tuple[Sequences, Sequences],
    attached: AttachedPairs,
    subword: str | None,
) -> SplitStats:
    """Measure one split. BLEU is left out for train, whose memory never holds the exact copy."""
    source, target = data.pair(split)
    memory_source, memory_target = memory
    ranked = attached.ranked
    best = best_scores(ranked)
    bins = score_bins(best)

    # Coverage is a mean: a few thousand sentences, evenly spaced, tell it well enough.
    sample = range(0, len(ranked), max(1, len(ranked) // COVERAGE_SAMPLE))

    def coverage(choose: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
        chosen = ((row, choose(ranked[row][0], ranked[row][2])) for row in sample)
        shares = [covered(source[row], [memory_source[i] for i in ids]) for row, ids in chosen]
        return float(np.mean(shares)) if shares else 0.0

    bleu, signature, copies = {}, None, []
    if split != TRAIN and len(ranked):
        spelling = Spelling(data.dictionaries[1], subword)
        copies = best_pairs(ranked, memory_target, spelling)
        references = [spelling.text(sentence) for sentence in target]
        bleu, signature = bleu_by_bin(copies, references, bins)
    pair_keys, source_keys = row_keys(source, target), row_keys(source)
    return SplitStats(
        split=split,
        bins=bins,
        mean_best=float(best[best >= 0].mean()) if (best >= 0).any() else 0.0,
        adaptive=float(ranked.covering.sum() / len(ranked)) if len(ranked) else 0.0,
        coverage={
            "best pair": coverage(lambda ids, marks: ids[:1]),
            f"best {attached.kept}": coverage(lambda ids, marks: ids[: attached.kept]),
            "adaptive": coverage(lambda ids, marks: ids[marks]),
        },
        repeated_pairs=len(pair_keys) - len(np.unique(pair_keys)),
        repeated_sources=len(source_keys) - len(np.unique(source_keys)),
        pairs_in_memory=int(np.isin(pair_keys, row_keys(memory_source, memory_target)).sum()),
        sources_in_memory=int(np.isin(source_keys, row_keys(memory_source)).sum()),
        bleu=bleu,
        bleu_signature=signature,
        copies=copies,
    )


def report(stats: SplitStats) -> str:
    """Write the figures of a split as text."""
    count = len(stats.bins)
    lines = [
        f"{stats.split}: {count:,} sentences, best fuzzy score {stats.mean_best:.3f} on average, "
        f"{stats.adaptive:.2f} pairs under adaptive selection",
        f"  repeated within the split: {stats.repeated_pairs:,} pairs, {stats.repeated_sources:,} sources",
    ]
    if stats.split != "train":
        lines.append(
            f"  found in the memory word for word: {stats.pairs_in_memory:,} pairs, {stats.sources_in_memory:,} sources"
        )
    parts = ", ".join(f"{name} {share:.1%}" for name, share in stats.coverage.items())
    lines += [f"  source symbols covered by the memory: {parts}", f"  {'best':>8} {'share':>7} {'TM BLEU':>8}"]
    largest = max(max(stats.shares()), 1e-9)
    for (name, bin), share in zip(BINS, stats.shares(), strict=True):
        bleu = f"{stats.bleu[bin]:8.1f}" if bin in stats.bleu else " " * 8
        lines.append(f"  {name:>8} {share:7.1%} {bleu} {'#' * round(BAR * share / largest)}".rstrip())
    if stats.bleu:
        lines.append(f"  {'all':>8} {1:7.1%} {stats.bleu['all']:8.1f}   BLEU|{stats.bleu_signature}")
    return "\n".join(lines)


def draw(all_stats: list[SplitStats], path: str) -> None:
    """Draw the histograms of all splits beside each other."""
    try:
        import matplotlib
    except ImportError:
        raise SegError("--png needs matplotlib; run 'pip install matplotlib'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    width = 0.8 / len(all_stats)
    for number, stats in enumerate(all_stats):
        places = np.arange(len(BINS)) + (number - (len(all_stats) - 1) / 2) * width
        axes.bar(places, [100 * share for share in stats.shares()], width, label=stats.split)
    axes.set_xticks(range(len(BINS)), [name for name, _ in BINS], fontsize=8)
    axes.set_xlabel("fuzzy score of the best pair")
    axes.set_ylabel("% of the sentences")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, format="png")
    pyplot.close(figure)


@command("seg-stats")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = get_parser().parse_args(arguments)
    data = DataBin(options.data, options.source_lang, options.target_lang)
    all_stats = []
    for split in data.splits():
        if not data.attached_path(split).exists():
            continue
        attached = Attached(data, split, Selection(1)).attached
        home = DataBin(data.folder / (attached.memory_data or ""), data.source_lang, data.target_lang)
        stats = split_stats(split, data, home.pair("train"), attached, options.subword)
        print(report(stats), flush=True)
        all_stats.append(stats)
        if options.copies and stats.copies:
            path = Path(options.copies) / f"{split}.{data.target_lang}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{copy}\n" for copy in stats.copies), encoding="utf-8")
    if not all_stats:
        raise SegError(f"{data.folder} has no attached memory; run seg-attach first.")
    if options.png:
        draw(all_stats, options.png)


if __name__ == "__main__":
    main()
