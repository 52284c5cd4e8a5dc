"""Estimate before any training, from the pairs that seg-attach stored, whether a memory can help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.sequences import row_keys
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.evaluate.best_pair import BINS, best_pairs, best_scores, score_bins
from fairseq_seg.evaluate.scores import bleu_by_bin
from fairseq_seg.source.pair_source import Attached

BAR = 40
COVERAGE_SAMPLE = 5000
# BLEU of SEG state adaptive over NMT, by bin of the best score from 0.0-0.1 to 0.9-1.0, on the test sets of
# docs/results.md (en-fr). The first bin has one sentence in each and counts as no gain.
MEASURED = {
    "EU law": (0.0, 1.5, 2.0, 4.3, 7.9, 11.9, 11.3, 16.3, 25.2, 30.0),
    "LibreOffice's help": (0.0, 0.7, 1.7, 2.0, 1.4, 4.1, 4.6, 8.1, 13.3, 9.7),
}
# A lowest estimate of this many BLEU counts as a likely gain, and a highest one below it as hardly any.
WORTHWHILE = 3.0


@dataclass
class SplitStats:
    """Statistics of a split and its retrieved pairs; ``bins`` (N,) is the score bin of each sentence."""

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
        """Return the share of the sentences in each of `BINS`."""
        return [float(np.mean(self.bins == bin)) if len(self.bins) else 0.0 for _, bin in BINS]


def covered(sentence: np.ndarray, sources: list[np.ndarray]) -> float:
    """Return the share of a sentence's symbols that occur in any of the sources, as in Alg. 1."""
    return float(np.isin(sentence, np.concatenate(sources)).mean()) if sources and len(sentence) else 0.0


def split_stats(split: str, data: DataBin, subword: str | None = None) -> SplitStats:
    """Measure an attached split; train has no BLEU, because its pairs never include the exact copy."""
    found = Attached(data, split, Selection(1))
    kept, ranked = found.attached.kept, found.attached.ranked
    source, target = data.pair(split)
    memory_source, memory_target = found.home.pair(TRAIN)
    best = best_scores(ranked)
    bins = score_bins(best)

    # Coverage is a mean: a few thousand evenly spaced sentences are enough.
    sample = range(0, len(ranked), max(1, len(ranked) // COVERAGE_SAMPLE))

    def coverage(selection: Selection) -> float:
        selected = ranked.select(selection)
        shares = [covered(source[row], [memory_source[pair] for pair in selected[row][0]]) for row in sample]
        return float(np.mean(shares)) if shares else 0.0

    bleu: dict[int | str, float] = {}
    signature, copies = None, []
    if split != TRAIN and len(ranked):
        spelling = Spelling(data.dictionaries[1], subword)
        copies = best_pairs(ranked, memory_target, spelling)
        references = list(spelling.texts(target))
        bleu, signature = bleu_by_bin(copies, references, bins)
    pair_keys, source_keys = row_keys(source, target), row_keys(source)
    return SplitStats(
        split=split,
        bins=bins,
        mean_best=float(best[best >= 0].mean()) if (best >= 0).any() else 0.0,
        adaptive=float(ranked.covering.sum() / len(ranked)) if len(ranked) else 0.0,
        coverage={
            "best pair": coverage(Selection(1)),
            f"best {kept}": coverage(Selection(kept)),
            "adaptive": coverage(Selection(mode="adaptive")),
        },
        repeated_pairs=len(pair_keys) - len(np.unique(pair_keys)),
        repeated_sources=len(source_keys) - len(np.unique(source_keys)),
        pairs_in_memory=int(np.isin(pair_keys, row_keys(memory_source, memory_target)).sum()),
        sources_in_memory=int(np.isin(source_keys, row_keys(memory_source)).sum()),
        bleu=bleu,
        bleu_signature=signature,
        copies=copies,
    )


def stats_report(stats: SplitStats) -> str:
    """Return the figures of a split as text."""
    count = len(stats.bins)
    lines = [
        f"{stats.split}: {count:,} sentences, best fuzzy score {stats.mean_best:.3f} on average, "
        f"{stats.adaptive:.2f} pairs with adaptive selection",
        f"  repeated within the split: {stats.repeated_pairs:,} pairs, {stats.repeated_sources:,} sources",
    ]
    if stats.split != TRAIN:
        lines.append(
            f"  exact matches in the memory: {stats.pairs_in_memory:,} pairs, {stats.sources_in_memory:,} sources"
        )
    parts = ", ".join(f"{name} {share:.1%}" for name, share in stats.coverage.items())
    lines += [f"  source symbols covered by the memory: {parts}", f"  {'best':>8} {'share':>7} {'TM BLEU':>8}"]
    largest = max(max(stats.shares()), 1e-9)
    for (name, bin), share in zip(BINS, stats.shares(), strict=True):
        bleu = f"{stats.bleu[bin]:8.1f}" if bin in stats.bleu else " " * 8
        lines.append(f"  {name:>8} {share:7.1%} {bleu} {'#' * round(BAR * share / largest)}".rstrip())
    if stats.bleu:
        lines.append(f"  {'all':>8} {1:7.1%} {stats.bleu['all']:8.1f}   BLEU|{stats.bleu_signature}")
    if stats.split != TRAIN and count:
        lines.append(verdict(stats))
    return "\n".join(lines)


def expected_gain(stats: SplitStats) -> tuple[float, float]:
    """Return the lowest and highest BLEU over NMT that sentences of such scores gained on the `MEASURED` corpora.

    The mean of the bins' gains by their shares gives back the measured gain of EU law (15.7 for 15.9 BLEU) and of
    LibreOffice's help (4.5 for 3.9). No test set had exact matches: they count as the bin below.
    """
    share = dict(zip((bin for _, bin in BINS), stats.shares(), strict=True))
    share[9] += share[10]
    gains = [sum(share[bin] * gain for bin, gain in enumerate(corpus)) for corpus in MEASURED.values()]
    return min(gains), max(gains)


def verdict(stats: SplitStats) -> str:
    """Say whether, and roughly by how much, a memory will help on a split."""
    low, high = expected_gain(stats)
    if low >= WORTHWHILE:
        answer = "is likely to help"
    else:
        answer = "may help a little" if high >= WORTHWHILE else "will hardly help"
    return (
        f"  verdict: a memory {answer}, by roughly {low:.0f} to {high:.0f} BLEU over a plain translator.\n"
        f"  Sentences with such scores gained that much on {' and '.join(MEASURED)}, with small models, context-state\n"
        "  keys and adaptive selection. The paper's keys gained about half to two thirds of it. Other corpora, and\n"
        "  stronger translators, may lie outside this range."
    )


def draw_histogram(all_stats: list[SplitStats], path: str | Path) -> None:
    """Draw the histograms of all splits side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(all_stats)
    for number, stats in enumerate(all_stats):
        places = np.arange(len(BINS)) + (number - (len(all_stats) - 1) / 2) * width
        axes.bar(places, [100 * share for share in stats.shares()], width, label=stats.split)
    axes.set_xticks(range(len(BINS)), [name for name, _ in BINS], fontsize=8)
    axes.set_xlabel("fuzzy score of the best pair")
    axes.set_ylabel("% of the sentences")
    axes.legend()
    figure.savefig(path, format="png")
