"""The benchmark scripts run as they stand, on tiny sizes, and print their tables."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent / "examples" / "benchmark"
TINY = ("--hidden", "8", "--symbols", "40", "--batch", "2", "--length", "4", "--rounds", "2")


def run(script: str, *options: str) -> str:
    done = subprocess.run([sys.executable, SCRIPTS / script, *TINY, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(output: str) -> dict[str, list[str]]:
    """The cells of each table row, by the first; of two rows with the same first cell, both."""
    table: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (.+) \|$", output, flags=re.MULTILINE):
        first, *cells = line.split(" | ")
        table.setdefault(first, []).extend(cells)
    return table


def test_translator_prints_rates_and_their_ratio():
    table = rows(run("translator.py"))
    ours, theirs = ([float(cell) for cell in table[name]] for name in ("seg_gru", "fairseq lstm"))
    for a, b, cell in zip(ours, theirs, table["seg_gru / fairseq lstm"], strict=True):
        median, low, high = map(float, re.findall(r"[\d.]+", cell))
        assert a > 0 and b > 0
        assert low <= median <= high


def test_memory_prints_training_decoding_and_peaks_for_each_k():
    output = run("memory.py", "--pairs", "1", "3")
    table = rows(output)
    assert [table[k][0] for k in ("0", "1", "3")] == ["0", "8", "24"]  # memory tokens: batch x K x length
    for k in ("1", "3"):
        assert all(float(re.match(r"-?[\d.]+", cell)[0]) > 0 for cell in (*table[k][1:4], *table[k][5:]))
    assert 0 < float(re.search(r"share of a K=1 step .*: ([\d.]+) \(", output)[1]) < 1
