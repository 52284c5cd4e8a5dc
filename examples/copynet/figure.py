"""Draw BLEU of each system against the updates of the plain translator that it started from.

python examples/copynet/figure.py copynet.png 2000=out/2000/en-fr/report.json 8000=out/8000/en-fr/report.json
"""

import argparse
import json
from pathlib import Path

import matplotlib

from fairseq_seg.errors import SegError, command

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def read(named: list[str]) -> dict[str, list[tuple[int, list[float]]]]:
    """Return of each system the BLEU of its seeds for each base; `named` are UPDATES=REPORT."""
    curves: dict[str, list[tuple[int, list[float]]]] = {}
    for updates, _, path in (text.partition("=") for text in named):
        if not updates.isdigit() or not Path(path).is_file():
            raise SegError(f"'{updates}={path}' is not UPDATES=REPORT.json: give a number and a report of the recipe.")
        for system in json.loads(Path(path).read_text(encoding="utf-8"))["systems"]:
            curves.setdefault(system["name"], []).append((int(updates), system["bleu"]))
    return {name: sorted(points) for name, points in curves.items()}


def draw(path: Path, curves: dict[str, list[tuple[int, list[float]]]]) -> None:
    """Draw the mean of the seeds as a line, each seed as a point, and print the table."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    print(f"| system | {' | '.join(f'{updates:,} updates' for updates, _ in next(iter(curves.values())))} |")
    print(f"|---|{'---|' * len(next(iter(curves.values())))}")
    for name, points in curves.items():
        means = [sum(seeds) / len(seeds) for _, seeds in points]
        [line] = axes.plot([updates for updates, _ in points], means, label=name)
        for updates, seeds in points:
            axes.plot([updates] * len(seeds), seeds, "o", color=line.get_color(), markersize=3)
        print(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    axes.set(xlabel="updates of the plain translator before the memory", ylabel="BLEU")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


@command("figure.py")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=Path, metavar="FIGURE.png")
    parser.add_argument("reports", nargs="+", metavar="UPDATES=REPORT.json")
    args = parser.parse_args()
    draw(args.figure, read(args.reports))


if __name__ == "__main__":
    main()
