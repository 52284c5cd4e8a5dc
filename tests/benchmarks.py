"""The benchmarks' folder, their smallest sizes, and their tables, for the tests that run them."""

import re

from tests.stock import ROOT

SCRIPTS = ROOT / "examples" / "benchmark"
TINY = ("--hidden", "8", "--symbols", "40", "--batch", "2", "--length", "4", "--rounds", "2")


def rows(output: str) -> dict[str, list[str]]:
    """Return the cells of each table row, by the first; of two rows with the same first cell, both."""
    table: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (.+) \|$", output, flags=re.MULTILINE):
        first, *cells = line.split(" | ")
        table.setdefault(first, []).extend(cells)
    return table
