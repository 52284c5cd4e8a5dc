"""What the benchmarks share: options, rounds in which jobs take turns, tables, and the JSON file that each one writes.

The file holds {"ratios": {line: [one ratio per round]}} and whatever else the benchmark measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq_seg.files import write_whole


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option that every benchmark has."""

    class Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
        pass

    parser = argparse.ArgumentParser(description=description, formatter_class=Formatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures as JSON")
    return parser


def add_data_options(parser: argparse.ArgumentParser, data: str = "use its training and test set") -> None:
    """Add the options of a benchmark that needs a data-bin."""
    parser.add_argument("data", nargs="?", metavar="DATA-BIN", help=f"{data} instead of generated data")
    parser.add_argument("--pairs", type=int, default=20_000, help="size of the generated training set")


@contextmanager
def data_folder(options: argparse.Namespace, sentences: int, seed: int = 1) -> Iterator[Path]:
    """Open the data-bin of the options, or a generated one with a test set of `sentences`."""
    from generated import generate

    with tempfile.TemporaryDirectory() as folder:
        if options.data is None:
            generate(Path(folder), options.pairs, sentences, seed)
        yield Path(options.data or folder)


def interleave(
    jobs: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Measure the seconds of each job in each round; the jobs take turns. A first round, to warm up, does not count.

    The clock is the CPU time of this process, unless other processes do the jobs' work.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in tqdm(range(rounds + 1), desc=", ".join(jobs), unit="round", leave=False):
        for name, job in jobs.items():
            start = clock()
            job()
            if turn > 0:
                seconds[name].append(clock() - start)
    return seconds


def ratios(numerator: list[float], denominator: list[float]) -> list[float]:
    """Return the ratio of two jobs in each round: what slows a whole round down does not change it."""
    return [a / b for a, b in zip(numerator, denominator, strict=True)]


def spread(values: list[float]) -> str:
    """Spell the median, with the least and the greatest of several values."""
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f} to {max(values):.2f})"


def peak_megabytes(who: int = resource.RUSAGE_SELF) -> float:
    """Return the largest resident size that this process, or the largest of its children, has had."""
    return resource.getrusage(who).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def print_table(columns: str, rows: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table, each row as soon as it is there; `columns` are separated by bars."""
    print(f"\n| {columns} |\n|{'---|' * (columns.count('|') + 1)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def write_json(path: Path | None, results: dict) -> None:
    """Write the figures, if a file was named."""
    if path is not None:
        with write_whole(path) as file:
            file.write(json.dumps(results, indent=1).encode() + b"\n")
