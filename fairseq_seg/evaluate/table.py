"""The tables of the report as rows of text, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairseq_seg.evaluate.best_pair import BINS
from fairseq_seg.evaluate.quality import Quality, Share
from fairseq_seg.evaluate.scores import Scores, SystemScores

NOTHING = "–"
INTERVAL = "±\N{NO-BREAK SPACE}95\N{NO-BREAK SPACE}%"


@dataclass
class Table:
    """Columns and rows; the first column names the row, and `best` lists the best cells as (row, column)."""

    heads: list[str]
    rows: list[list[str]]
    best: set[tuple[int, int]]

    def as_text(self) -> str:
        """Return the table for a terminal."""
        first, *others = (max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True))
        form = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
        return "\n".join(form.format(*row).rstrip() for row in (self.heads, *self.rows))


def show_p(p_value: float | None) -> str:
    """Format a p value from 1000 bootstrap samples, which cannot be below a thousandth."""
    if p_value is None:
        return NOTHING
    return "≤ 0.001" if p_value < 0.0011 else f"{p_value:.3f}"


def show_gain(gain: float) -> str:
    """Format a difference with its sign."""
    return f"{gain:+.1f}".replace("-", "−")


def show(number: Any, digits: int = 1) -> str:
    """Format a number that may not be known."""
    return NOTHING if number is None else f"{number:.{digits}f}"


def headline(scores: Scores) -> Table:
    """Return one row per system."""
    baseline = scores.system(scores.baseline)
    several = any(len(system.bleu) > 1 for system in scores.systems)
    gain = f"−\N{NO-BREAK SPACE}{scores.baseline}"
    heads = ["system", "BLEU", INTERVAL, gain, "p", "chrF", "BLEU Moses", "pairs", "sent./s", *["runs"] * several]
    rows = []
    for system in scores.systems:
        spread = f": {min(system.bleu):.1f}–{max(system.bleu):.1f}" if len(system.bleu) > 1 else ""
        row = [
            system.name,
            show(system.mean_bleu),
            show(system.bleu_ci),
            NOTHING if system is baseline else show_gain(system.mean_bleu - baseline.mean_bleu),
            show_p(system.p_value),
            show(np.mean(system.chrf)),
            show(np.mean(system.moses_bleu)),
            show(system.pairs, 2),
            show(system.speed),
            f"{len(system.bleu)}{spread}",
        ]
        rows.append(row[: len(heads)])
    best = set()
    for column, name in ((1, "bleu"), (5, "chrf"), (6, "moses_bleu")):
        best.add((int(np.argmax([np.mean(getattr(system, name)) for system in scores.systems])), column))
    return Table(heads, rows, best)


def what_users_notice(measured: list[Quality]) -> Table:
    """Return one row per system; columns that no system has are left out."""
    shares = [("numbers", "numbers %"), ("markup", "placeh., tags %"), ("terms", "terms %")]
    efforts = [("ter", "TER", 1), ("edits", "char. edits", 1), ("wrong_copies", "wrong copies", 2)]
    efforts.append(("copied_mass", "copied mass", 3))
    heads, columns = ["system"], [[quality.name for quality in measured]]
    best = set()
    for name, head in shares:
        known: list[Share | None] = [getattr(quality, name) for quality in measured]
        if (first := known[0]) is not None:
            best.add((int(np.argmax([share.percent for share in known if share is not None])), len(heads)))
            heads.append(f"{head} of {first.of:,}")
            columns.append([show_share(share) for share in known])
    for name, head, digits in efforts:
        figures = [getattr(quality, name) for quality in measured]
        if figures[0] is not None:
            if name != "copied_mass":  # more is not better
                best.add((int(np.argmin(figures)), len(heads)))
            heads.append(head)
            columns.append([show(figure, digits) for figure in figures])
    return Table(heads, [list(row) for row in zip(*columns, strict=True)], best)


def show_share(share: Share | None) -> str:
    """Format a share; a star marks a difference to the baseline that is hardly chance."""
    if share is None:
        return NOTHING
    return f"{share.percent:.1f}" + ("*" if share.p_value is not None and share.p_value < 0.05 else "")


def by_bin(scores: Scores, bins: np.ndarray) -> Table:
    """Return BLEU of every system, one row per score bin with sentences."""
    rows: list[list[str]] = []
    best = set()
    for name, bin in BINS:
        if count := int((bins == bin).sum()):
            bleu = [system.bin_bleu[bin] for system in scores.systems]
            best.add((len(rows), 2 + int(np.argmax(bleu))))
            rows.append([name.replace("-", "–"), f"{count:,}", *map(show, bleu)])
    return Table(["best score", "sentences", *(system.name for system in scores.systems)], rows, best)


def empty_bins(bins: np.ndarray) -> str:
    """List the bins without sentences."""
    empty = [name.replace("-", "–") for name, bin in BINS if not (bins == bin).any()]
    return f"Bins without sentences: {', '.join(empty)}." if empty else ""


def by_pairs(points: list[SystemScores]) -> Table:
    """Return one row per number of retrieved pairs in the sweep."""
    rows = [
        [p.name, *map(show, (p.mean_bleu, p.bleu_ci, np.mean(p.chrf))), show(p.pairs, 2), show(p.speed)] for p in points
    ]
    best = {(int(np.argmax([point.mean_bleu for point in points])), 1)}
    return Table(["K", "BLEU", INTERVAL, "chrF", "pairs", "sent./s"], rows, best)
