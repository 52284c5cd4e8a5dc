"""Run all benchmarks and print one table of ratios, each with its spread and the target it should reach.

    python examples/benchmark/suite.py [DATA-BIN] [--json FILE] [--plots FOLDER]

Each benchmark is a process of its own. One that fails is reported with its last words, and the others still run.
Retrieval, Spark and the size of processes are measured on DATA-BIN (attached by seg-attach), or on generated data.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rounds import spread, write_json
from tqdm import tqdm

SCRIPTS = Path(__file__).resolve().parent
OUTPUT = SCRIPTS / "output" / "bench.json"


@dataclass
class Benchmark:
    """A script with the sizes that the suite gives it; `smoke` are the smallest that it can run with."""

    name: str
    script: str
    options: str
    smoke: str
    takes_data: bool = False


@dataclass
class Target:
    """What a line should reach; `most` where less is better, `pairs` where the memory must have so many of them."""

    value: float
    most: bool = False
    pairs: int = 0

    def __str__(self) -> str:
        return f"{'at most' if self.most else 'at least'} {self.value:g}"

    def reached(self, values: list[float]) -> bool:
        """Tell whether the median of the rounds reaches the target."""
        median = statistics.median(values)
        return median <= self.value if self.most else median >= self.value


TINY = "--hidden 8 --symbols 40 --batch 2 --length 4 --rounds 1"
# Fewer rounds than the scripts take by themselves, so that all of it fits into 15 minutes on two quiet cores.
SUITE = [
    Benchmark("translator", "translator.py", "--rounds 5", TINY),
    Benchmark("pairs", "pairs.py", "--pairs 1 --rounds 5", f"{TINY} --pairs 1"),
    Benchmark("cache", "cache.py", "--rounds 3", TINY),
    Benchmark("transformer", "transformer.py", "--hidden 256 --rounds 3", TINY),
    Benchmark("threads", "threads.py", "--rounds 3", TINY),
    # Growth. A quarter of the batch is enough to see it, and K = 16 costs as much as ten plain steps.
    Benchmark("growth with K", "pairs.py", "--batch 8 --rounds 2", f"{TINY} --pairs 1 3"),
    Benchmark("15 symbols", "pairs.py", "--length 15 --pairs 1 --batch 8 --rounds 2", f"{TINY} --pairs 1"),
    Benchmark("60 symbols", "pairs.py", "--length 60 --pairs 1 --batch 8 --rounds 2", f"{TINY} --pairs 1"),
    Benchmark(
        "retrieval",
        "retrieval.py",
        "--pairs 324000 --queries 1000 --brute 100 --repeats 3 --sizes 20000 80000",
        "--pairs 60 --queries 4 --brute 4 --repeats 1 --threads 1 --starts 1 --sizes 30",
        takes_data=True,
    ),
    Benchmark(
        "spark", "spark.py", "--sentences 4000", "--pairs 60 --sentences 4 --rounds 1 --cores 1", takes_data=True
    ),
    Benchmark("own memory", "store.py", "--pairs 100000", "--pairs 300 --parts 2 --queries 4"),
    Benchmark("processes", "processes.py", "--processes 1 4", "--pairs 60 --processes 1", takes_data=True),
]
TARGETS = {
    "plain training, of fairseq's lstm": Target(1.0),
    "plain decoding, of fairseq's lstm": Target(1.1),
    "K=1 training, times plain": Target(1.8, most=True),
    "K=1 decoding, no cache, of plain": Target(0.75),
    "K=1 decoding, fp32, full, of plain": Target(0.85),
    "K=4 decoding, fp32, full, of plain": Target(0.7),
    "Transformer, plain training, of fairseq's": Target(0.97),
    "Transformer, plain decoding, of fairseq's": Target(0.97),
    "Transformer, K=1 training, times plain": Target(2.2, most=True),
    "Transformer, K=2 training, times plain": Target(3.2, most=True),
    "Transformer, K=1 decoding, no cache, of plain": Target(0.7),
    "Transformer, K=1 decoding, fp32, full, of plain": Target(0.85),
    "Transformer, K=4 decoding, fp32, full, of plain": Target(0.7),
    "retrieval, of pyserini batch_search and reading": Target(3, pairs=320_000),
    "retrieval, of bm25s with numba, same candidates and re-ranking": Target(1, pairs=320_000),
    "memory: import TSV, pairs/s": Target(10_000, pairs=90_000),
    "memory: import TMX, pairs/s": Target(10_000, pairs=90_000),
    "memory: adding while others import and rebuild, p99 ms": Target(100, most=True, pairs=90_000),
}
# Of these the table says nothing: they are in the file and in the figures.
GROWTH = ("growth with K", "15 symbols", "60 symbols")


def run(benchmark: Benchmark, options: list[str], folder: Path) -> dict:
    """Run a script; return what it wrote and the seconds it took, or {"failed": its last words, "log": all}."""
    file, log = folder / f"{benchmark.name}.json", folder / f"{benchmark.name}.log"
    command: list[str | Path] = [sys.executable, SCRIPTS / benchmark.script, *options, "--json", file]
    # One thread per process: several would measure how well they share the cores.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream, env=environment)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it was interrupted, too, and ends what it has started
            raise
    if code:
        words = log.read_text(errors="replace")
        said = [line.strip() for line in re.split(r"[\r\n]+", words) if line.strip()]
        return {"failed": said[-1] if said else f"exit code {code}", "log": words}
    return {"took": time.monotonic() - start} | json.loads(file.read_text())


def table(results: dict[str, dict]) -> str:
    """Return all lines of all benchmarks that ran, as Markdown."""
    rows = ["| benchmark | line | median (least to greatest) | target | reached |", "|---|---|---|---|---|"]
    for name, result in results.items():
        if name in GROWTH:
            continue
        for line, values in result.get("ratios", {}).items():
            target = TARGETS.get(line)
            if target and target.pairs > result.get("pairs", 0):
                target = None
            verdict = f"{target} | {'yes' if target.reached(values) else 'no'}" if target else " | "
            rows.append(f"| {name} | {line} | {spread(values)} | {verdict} |")
    return "\n".join(rows)


def machine() -> dict:
    """Say where and when it was measured."""
    from importlib.metadata import version

    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", info.read_text()) if info.exists() else []
    return {
        "date": datetime.date.today().isoformat(),
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load at the start": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", metavar="DATA-BIN", help="for retrieval, Spark and processes")
    parser.add_argument("--json", type=Path, metavar="FILE", default=OUTPUT, help=f"({OUTPUT.relative_to(SCRIPTS)})")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw growth with K, memory and length, too")
    names = [benchmark.name for benchmark in SUITE]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see whether everything runs here")
    options = parser.parse_args(arguments)
    if options.data is not None and not Path(options.data).is_dir():
        parser.error(f"{options.data} is not a folder: give an attached data-bin, or nothing for generated data")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    about, start = machine(), time.monotonic()
    results: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        bar = tqdm([benchmark for benchmark in SUITE if benchmark.name in options.only], unit="benchmark", leave=False)
        for benchmark in bar:
            bar.set_description(benchmark.name)
            sizes = (benchmark.smoke if options.smoke else benchmark.options).split()
            data = [options.data] if benchmark.takes_data and options.data is not None else []
            results[benchmark.name] = run(benchmark, [*data, *sizes], Path(folder))
            if "failed" in results[benchmark.name]:
                bar.write(f"{benchmark.name} failed: {results[benchmark.name]['failed']}", file=sys.stderr)
    write_json(options.json, {"machine": about, "data": options.data, "benchmarks": results})
    print(table(results))
    seconds = time.monotonic() - start
    print(f"\n{', '.join(f'{name} {value}' for name, value in about.items())}; {seconds / 60:.1f} minutes")
    print(f"All figures: {options.json}")
    if options.plots:
        from plots import draw

        for path in draw(json.loads(options.json.read_text()), options.plots):
            print(path)
    failed = [name for name, result in results.items() if "failed" in result]
    if failed:
        sys.exit(f"{len(failed)} of {len(results)} benchmarks failed: {', '.join(failed)}.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Stopped. No figures were written.")
