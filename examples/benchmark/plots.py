"""Draws how time and memory grow with K, with the memory's size and with the sentences' length, from suite.py's JSON.

    python examples/benchmark/plots.py FILE FOLDER

Of what the file lacks, because a benchmark was left out or failed, no figure is drawn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from fairseq_seg.evaluate.figures import LIGHT, MARKERS, Drawing, render

Curves = dict[str, list[tuple[float, list[float]]]]  # by name: x, and y in every round


def draw(results: dict, folder: Path) -> list[Path]:
    """Write the figures that there is data for, as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (label, time_label, time, memory) in growths(results["benchmarks"]).items():

        def panels(figure, palette: dict, label=label, time_label=time_label, time=time, memory=memory) -> None:
            left, right = figure.subplots(1, 2)
            _plot(left, palette, time)
            _plot(right, palette, memory)
            left.set_ylabel(time_label)
            right.set_ylabel("peak memory of the process (MB)")
            figure.supxlabel(label, fontsize=9, color=palette["quiet"])
            if len(time) > 1:
                handles, labels = left.get_legend_handles_labels()
                figure.legend(handles, labels, loc="outside upper left", ncols=2, handlelength=1.6)

        path = folder / f"{name}.png"
        path.write_bytes(render(Drawing(name, "", "", panels), LIGHT, "png"))
        paths.append(path)
    return paths


def growths(benchmarks: dict[str, dict]) -> dict[str, tuple[str, str, Curves, Curves]]:
    """For each figure: labels of x and of time, and the curves of time and memory."""
    found = {}
    rows = benchmarks.get("growth with K", {}).get("rows")
    if rows:
        found["growth-k"] = "retrieved pairs K", "seconds per batch", *_by_job(rows, lambda row: row["k"])
    lengths = [benchmarks.get(name, {}).get("rows", []) for name in ("15 symbols", "growth with K", "60 symbols")]
    if all(lengths):
        rows = [row for benchmark in lengths for row in benchmark if row["k"] == 1]
        found["growth-length"] = "symbols per sentence", "seconds per batch", *_by_job(rows, lambda row: row["length"])
    rows = benchmarks.get("retrieval", {}).get("growth")
    if rows:
        time = [(row["pairs"] / 1000, [1000 * s / row["sentences"] for s in row["seconds"]]) for row in rows]
        memory = [(row["pairs"] / 1000, [row["peak MB"]]) for row in rows]
        labels = "pairs in the memory (thousands)", "ms per sentence"
        found["growth-memory"] = *labels, {"retrieval": time}, {"retrieval": memory}
    return found


def _by_job(rows: list[dict], place: Callable[[dict], int]) -> tuple[Curves, Curves]:
    jobs = ("training", "decoding")
    time = {job: [(place(row), row["seconds"][job]) for row in rows] for job in jobs}
    memory = {job: [(place(row), [row["peak MB"][job]]) for row in rows] for job in jobs}
    return time, memory


def _plot(axes, palette: dict, curves: Curves) -> None:
    """Medians, with bars from the least to the greatest; both axes start at 0, so that a straight line is linear."""
    for (name, points), colour, marker in zip(curves.items(), palette["systems"], MARKERS, strict=False):
        middle = [statistics.median(values) for _, values in points]
        below = [m - min(values) for m, (_, values) in zip(middle, points, strict=True)]
        above = [max(values) - m for m, (_, values) in zip(middle, points, strict=True)]
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.5, "elinewidth": 1, "capsize": 2}
        axes.errorbar([x for x, _ in points], middle, (below, above), label=name, **style)
    widest = max(x for points in curves.values() for x, _ in points)
    highest = max(max(values) for points in curves.values() for _, values in points)
    axes.set_xlim(-0.04 * widest, 1.04 * widest)
    axes.set_ylim(0, 1.06 * highest)


def main() -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path, metavar="FILE", help="what suite.py wrote")
    options.add_argument("folder", type=Path, metavar="FOLDER", help="for the figures")
    options = options.parse_args()
    if not options.file.is_file():
        sys.exit(f"{options.file} does not exist: make it with examples/benchmark/suite.py --json {options.file}.")
    for path in draw(json.loads(options.file.read_text()), options.folder):
        print(path)


if __name__ == "__main__":
    main()
