"""Figures like the paper's, drawn from an evaluation by matplotlib, for light and dark pages."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_seg.evaluate.curves import FIGURES
from fairseq_seg.evaluate.report import Report
from fairseq_seg.evaluate.scores import SystemScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, lighter on dark ground; TM is grey.
LIGHT = {
    "text": "#16202c",
    "quiet": "#56616e",
    "line": "#d9dee5",
    "ground": "#ffffff",
    "systems": ["#d55e00", "#0072b2", "#009e73", "#b0468c", "#8a6d00", "#2a9fd6", "#5b4bb7"],
}
DARK = {
    "text": "#e6eaf0",
    "quiet": "#9aa6b5",
    "line": "#323c49",
    "ground": "#1a2029",
    "systems": ["#ff9a4d", "#6db6ff", "#3ddcaa", "#f08fcb", "#e6c84f", "#8fdcff", "#b3a7ff"],
}
MARKERS = "os^DvPX"
# Narrow enough to be read on a phone without zooming; in inches.
WIDTH, HEIGHT = 4.7, 3.4
# A system further than this (in BLEU) from the curve over K is not drawn, because it would flatten the curve.
FAR = 10


@dataclass
class Drawing:
    """A figure: its file name, what it shows, and how it is drawn with a palette."""

    name: str
    title: str
    caption: str
    draw: Callable[[Figure, dict], None]


def drawings(report: Report) -> list[Drawing]:
    """List the figures that an evaluation has data for."""
    scores, count = report.scores, len(report.split)
    figures: list[Drawing] = []
    figures.append(
        Drawing(
            "bins-bleu",
            "Quality by fuzzy score",
            f"BLEU of the sentences whose best retrieved pair has this score; below, how many of the {count:,} they "
            "are. Bins with few sentences say little.",
            partial(_draw_bins, report=report, gain=False),
        )
    )
    if report.best_system() is not None:
        figures.append(
            Drawing(
                "bins-gain",
                f"Improvement over {scores.baseline} by fuzzy score",
                f"BLEU minus that of {scores.baseline} on the same sentences.",
                partial(_draw_bins, report=report, gain=True),
            )
        )
    if report.sweep:
        figures.append(
            Drawing(
                "pairs",
                "Quality by number of retrieved pairs",
                "One trained model, translating with different numbers of pairs. Bars are 95 % bootstrap intervals.",
                partial(_draw_sweep, report=report),
            )
        )
    for figure_name, title in FIGURES.items():
        if any(figure_name in curve.train or figure_name in curve.valid for curve in report.curves):
            both = any(figure_name in curve.train for curve in report.curves)
            figures.append(
                Drawing(
                    f"training-{figure_name.removeprefix('nll_')}",
                    f"Training: {title}",
                    "Thin: while training; with markers: on the development set." if both else "",
                    partial(_draw_curves, report=report, name=figure_name),
                )
            )
    return figures


def render(drawing: Drawing, palette: dict, format: str) -> bytes:
    """Draw a figure and return the bytes of an SVG or PNG file; the same evaluation gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": palette["text"],
        "axes.edgecolor": palette["line"],
        "axes.labelcolor": palette["quiet"],
        "axes.facecolor": palette["ground"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": palette["line"],
        "grid.linewidth": 0.6,
        "xtick.color": palette["quiet"],
        "ytick.color": palette["quiet"],
        "figure.facecolor": palette["ground"],
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "svg.hashsalt": drawing.name,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        drawing.draw(figure, palette)
        file = io.BytesIO()
        metadata = {"Date": None} if format == "svg" else None
        figure.savefig(file, format=format, dpi=200, metadata=metadata)
    return file.getvalue()


def save_figures(report: Report, folder: Path) -> list[Path]:
    """Write every figure as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for drawing in drawings(report):
        for format in ("png", "svg"):
            path = folder / f"{drawing.name}.{format}"
            path.write_bytes(render(drawing, LIGHT, format))
            paths.append(path)
    return paths


def _style(report: Report, system: SystemScores, palette: dict) -> dict:
    """Return the colour and marker of a system, the same in every figure."""
    if system.name == "TM":
        return {"color": palette["quiet"], "marker": "x", "linestyle": "--", "label": "TM"}
    place = [other.name for other in report.scores.systems if other.name != "TM"].index(system.name)
    colours = palette["systems"]
    return {
        "color": colours[place % len(colours)],
        "marker": MARKERS[place % len(MARKERS)],
        # With more systems than colours, the second round is dotted.
        "linestyle": "-" if place < len(colours) else ":",
        "label": system.name,
    }


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the legend above the lines, in as many columns as fit the figure, three at most."""
    handles, labels = axes.get_legend_handles_labels()
    for columns in range(min(3, len(labels)), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=1.6)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _draw_bins(figure: Figure, palette: dict, report: Report, gain: bool) -> None:
    """Draw BLEU, or its gain over the baseline, above the number of sentences of each bin."""
    bins = report.split.bins
    # The bin without any pair is drawn only if it has sentences. The scale of scores is always complete.
    places = [*([-1] if (bins == -1).any() else []), *range(10), *([10] if (bins == 10).any() else [])]
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    baseline = report.scores.system(report.scores.baseline)
    for system in report.scores.systems:
        if gain and system.name in ("TM", baseline.name):
            continue
        shown = [bin for bin in places if bin in system.bin_bleu]
        values = [system.bin_bleu[bin] - (baseline.bin_bleu[bin] if gain else 0) for bin in shown]
        top.plot([bin + 0.5 for bin in shown], values, markersize=4, linewidth=1.5, **_style(report, system, palette))
    if gain:
        top.axhline(0, color=palette["quiet"], linewidth=1)
        top.set_ylabel(f"BLEU − {baseline.name}")
    else:
        top.set_ylim(0, 100)
        top.set_ylabel("BLEU")
    counts = [int((bins == bin).sum()) for bin in places]
    bars = bottom.bar([bin + 0.5 for bin in places], counts, 0.86, color=palette["line"])
    bottom.bar_label(bars, [str(count) for count in counts], fontsize=7, color=palette["quiet"], padding=1)
    bottom.set_ylim(0, max(counts) * 1.45)
    bottom.set_yticks([])
    bottom.set_ylabel("n")
    bottom.spines["left"].set_visible(False)
    edges: list[float] = list(range(11))
    labels = [f"{edge / 10:.1f}" for edge in range(11)]
    if -1 in places:
        edges, labels = [-0.5, *edges], ["none", *labels]
    if 10 in places:
        edges, labels = [*edges[:-1], 10.5], [*labels[:-1], "= 1"]
    bottom.set_xticks(edges, labels)
    bottom.set_xlabel("fuzzy score of the best retrieved pair")
    _legend(figure, top)


def _draw_sweep(figure: Figure, palette: dict, report: Report) -> None:
    """Draw BLEU against K."""
    axes = figure.subplots()
    points, colour = report.sweep, palette["systems"][1]
    places = np.arange(len(points))
    fixed = [place for place, point in enumerate(points) if point.name != "adaptive"]
    axes.plot(fixed, [points[place].mean_bleu for place in fixed], "-", color=colour, linewidth=1.5)
    for place, point in enumerate(points):
        marker = "o" if place in fixed else "D"
        axes.errorbar(place, point.mean_bleu, point.bleu_ci, fmt=marker, color=colour, elinewidth=1, capsize=3)
        axes.annotate(
            f"{point.mean_bleu:.1f}", (place, point.mean_bleu), (7, 4), textcoords="offset points", fontsize=8.5
        )
    for name in dict.fromkeys(("TM", report.scores.baseline)):
        system = report.scores.system(name)
        if min(abs(system.mean_bleu - point.mean_bleu) for point in points) > FAR:
            continue
        style = _style(report, system, palette) | {"marker": None, "linestyle": "--"}
        axes.axhline(system.mean_bleu, linewidth=1.2, **style)
    labels = [
        point.name if point.name != "adaptive" or point.pairs is None else f"adaptive\n({point.pairs:.1f} pairs)"
        for point in points
    ]
    axes.set_xticks(places, labels)
    axes.set_xlim(-0.4, len(points) - 0.3)
    axes.set_xlabel("retrieved pairs K")
    axes.set_ylabel("BLEU")
    _legend(figure, axes)


def _draw_curves(figure: Figure, palette: dict, report: Report, name: str) -> None:
    """Draw one value of all training runs against the updates."""
    axes = figure.subplots()
    names = [system.name for system in report.scores.systems if system.name != "TM"]
    names += [curve.name for curve in report.curves if curve.name not in names]
    for curve in report.curves:
        colour = palette["systems"][names.index(curve.name) % len(palette["systems"])]
        marker = MARKERS[names.index(curve.name) % len(MARKERS)]
        train, valid = (sorted(side.get(name, {}).items()) for side in (curve.train, curve.valid))
        if train:
            axes.plot(*zip(*train, strict=True), color=colour, linewidth=0.9, label=None if valid else curve.name)
        if valid:
            axes.plot(
                *zip(*valid, strict=True), color=colour, linewidth=1.6, marker=marker, markersize=4, label=curve.name
            )
    if name == "gate":
        axes.set_ylim(0, 1)
    axes.set_xlabel("updates")
    axes.set_ylabel(FIGURES[name])
    _legend(figure, axes)
