"""The tables of the report as rows of text, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairseq_seg.evaluate.best_pair import BINS
from fairseq_seg.evaluate.scores import Scores, SystemScores

NOTHING = "–"
INTERVAL = "±\N{NO-BREAK SPACE}95\N{NO-BREAK SPACE}%"


@dataclass
class Table:
    """Columns and rows; the first column names the row, and `best` lists the columns in which a row is best."""

    heads: list[str]
    rows: list[list[str]]
    best: dict[int, set[int]]

    def as_text(self) -> str:
        """Return the table for a terminal."""
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        lines = []
        for row in (self.heads, *self.rows):
            first, *others = (
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join([first, *others]).rstrip())
        return "\n".join(lines)


def show_p(p_value: float | None) -> str:
    """Format a p value from 1000 bootstrap samples, which cannot be below a thousandth."""
    if p_value is None:
        return NOTHING
    return "≤ 0.001" if p_value < 0.0011 else f"{p_value:.3f}"


def show_gain(gain: float) -> str:
    """Format a difference with its sign."""
    return f"{gain:+.1f}".replace("-", "−")


def headline(scores: Scores) -> Table:
    """Return one row per system."""
    baseline = scores.system(scores.baseline)
    several = any(len(system.bleu) > 1 for system in scores.systems)
    heads = [
        "system",
        "BLEU",
        INTERVAL,
        f"−\N{NO-BREAK SPACE}{scores.baseline}",
        "p",
        "chrF",
        "BLEU Moses",
        "pairs",
        "sent./s",
    ]
    heads += ["runs"] if several else []
    rows = []
    for system in scores.systems:
        itself = system is baseline
        row = [
            system.name,
            f"{system.mean_bleu:.1f}",
            f"{system.bleu_ci:.1f}",
            NOTHING if itself else show_gain(system.mean_bleu - baseline.mean_bleu),
            show_p(system.p_value),
            f"{np.mean(system.chrf):.1f}",
            f"{np.mean(system.moses_bleu):.1f}",
            NOTHING if system.pairs is None else f"{system.pairs:.2f}",
            NOTHING if system.speed is None else f"{system.speed:.1f}",
        ]
        if several:
            spread = f": {min(system.bleu):.1f}–{max(system.bleu):.1f}" if len(system.bleu) > 1 else ""
            row.append(f"{len(system.bleu)}{spread}")
        rows.append(row)
    columns = {1: _means(scores, "bleu"), 5: _means(scores, "chrf"), 6: _means(scores, "moses_bleu")}
    best: dict[int, set[int]] = {}
    for column, values in columns.items():
        best.setdefault(int(np.argmax(values)), set()).add(column)
    return Table(heads, rows, best)


def _means(scores: Scores, name: str) -> list[float]:
    return [float(np.mean(getattr(system, name))) for system in scores.systems]


def by_bin(scores: Scores, bins: np.ndarray) -> Table:
    """Return BLEU of every system, one row per score bin with sentences."""
    rows: list[list[str]] = []
    best: dict[int, set[int]] = {}
    for name, bin in BINS:
        count = int((bins == bin).sum())
        if not count:
            continue
        bleu = [system.bin_bleu[bin] for system in scores.systems]
        best[len(rows)] = {2 + int(np.argmax(bleu))}
        rows.append([name.replace("-", "–"), f"{count:,}", *(f"{score:.1f}" for score in bleu)])
    return Table(["best score", "sentences", *(system.name for system in scores.systems)], rows, best)


def empty_bins(bins: np.ndarray) -> str:
    """List the bins without sentences."""
    empty = [name.replace("-", "–") for name, bin in BINS if not (bins == bin).any()]
    return f"Bins without sentences: {', '.join(empty)}." if empty else ""


def by_pairs(points: list[SystemScores]) -> Table:
    """Return one row per number of retrieved pairs in the sweep."""
    rows = [
        [
            point.name,
            f"{point.mean_bleu:.1f}",
            f"{point.bleu_ci:.1f}",
            f"{np.mean(point.chrf):.1f}",
            NOTHING if point.pairs is None else f"{point.pairs:.2f}",
            NOTHING if point.speed is None else f"{point.speed:.1f}",
        ]
        for point in points
    ]
    best = {int(np.argmax([point.mean_bleu for point in points])): {1}} if points else {}
    return Table(["K", "BLEU", INTERVAL, "chrF", "pairs", "sent./s"], rows, best)
