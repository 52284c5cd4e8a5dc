"""Rounds in which jobs take turns, the ratios of what they took, and the JSON file that every benchmark writes.

The file holds {"ratios": {line: [one ratio per round]}} and whatever else the benchmark measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tqdm import tqdm

from fairseq_seg.files import write_whole


def interleave(
    jobs: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Measure the seconds of each job in each round; the jobs take turns. A first round, to warm up, does not count.

    The clock is the CPU time of this process, unless the jobs have others work for them.
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


def add_json_option(options: argparse.ArgumentParser) -> None:
    """Add the option that every benchmark has."""
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON, too")


def write_json(path: Path | None, results: dict) -> None:
    """Write the figures, if a file was named."""
    if path is not None:
        with write_whole(path) as file:
            file.write(json.dumps(results, indent=1).encode() + b"\n")
