"""Measure a translation memory of one's own as it grows: import, additions, searches, rebuilding the index, disk.

    python examples/benchmark/store.py [--pairs 100000] [--text PREFIX]

The pairs are recombined clauses: of PREFIX.en and PREFIX.fr, or generated ones with the word frequencies of a language.
Additions and searches are measured alone, and while a second process imports and a third one rebuilds the index.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rounds import new_parser, print_table, write_json
from tqdm import tqdm

from fairseq_seg.corpus.subword_training import train_subwords
from fairseq_seg.store.formats import import_files, write_pairs
from fairseq_seg.store.index import MemorySearch, make_index
from fairseq_seg.store.store import TranslationMemory

LANGS = ("en", "fr")
# Sentences that the subword models are trained on, and the largest vocabulary.
TRAINING, VOCABULARY = 20_000, 8000
CLAUSES = 20_000
ENDS = re.compile(r"(?<=[,;:]) ")
COMMAND = [sys.executable, "-m", "fairseq_seg.cli.memory"]

Pair = tuple[str, str]


def clauses_of(prefix: str) -> list[Pair]:
    """Return the clauses of a parallel text: those of lines that have equally many of them on both sides."""
    texts = (Path(f"{prefix}.{lang}").read_text(encoding="utf-8").split("\n") for lang in LANGS)
    split = ((ENDS.split(source), ENDS.split(target)) for source, target in zip(*texts, strict=False))
    found = [pair for sides in split if len(sides[0]) == len(sides[1]) for pair in zip(*sides, strict=True)]
    return [
        (source, target)
        for source, target in found
        if source.strip() and target.strip() and "\t" not in source + target
    ]


def generated_clauses(rng: random.Random, count: int) -> list[Pair]:
    """Make up clauses whose words are as frequent as a language's, and their word-by-word translations."""
    syllables = ["".join(pair) for pair in zip("bdfgklmnprstvz" * 5, "aeiou" * 14, strict=True)]
    words = [tuple("".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in LANGS) for _ in range(8000)]
    weights = [1 / rank for rank in range(3, len(words) + 3)]
    lengths = [rng.randint(3, 14) for _ in range(count)]
    drawn = iter(rng.choices(words, weights, k=sum(lengths)))
    clauses = [[next(drawn) for _ in range(length)] for length in lengths]
    return [
        (" ".join(word[0] for word in clause) + ",", " ".join(word[1] for word in clause) + ",") for clause in clauses
    ]


def recombine(rng: random.Random, clauses: list[Pair], count: int) -> Iterator[Pair]:
    """Yield pairs of one to four clauses; a number makes most of them differ."""
    for _ in range(count):
        chosen = rng.choices(clauses, k=rng.randint(1, 4))
        number = f"{rng.randint(1, 9999)}/{rng.randint(1958, 2026)}"
        yield tuple(f"{' '.join(clause[side] for clause in chosen)} {number}" for side in (0, 1))  # type: ignore[misc]


def write_lines(pairs: Iterator[Pair], path: Path) -> Path:
    """Write pairs as a tab-separated file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)
    return path


def create(folder: Path, pairs: list[Pair]) -> TranslationMemory:
    """Make an empty memory whose subwords are learned from pairs."""
    for side, lang in enumerate(LANGS):
        text = folder / f"text.{lang}"
        text.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        letters = len(set(text.read_text(encoding="utf-8")))
        train_subwords([text], folder / f"spm.{lang}", min(VOCABULARY, letters + 4 + len(pairs)))
        (folder / f"spm.{lang}.dict.txt").rename(folder / f"dict.{lang}.txt")
    return TranslationMemory.create(
        folder / "memory", *LANGS, folder, *(folder / f"spm.{lang}.model" for lang in LANGS)
    )


def timed(job: Callable[[], object]) -> float:
    """Return the seconds that a job takes."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def import_rate(memory: TranslationMemory, file: Path) -> float:
    """Import a file, and return the pairs per second."""
    counts = []
    seconds = timed(lambda: counts.extend(outcome for _, outcome in import_files(memory, [file])))
    return (counts[0].added + counts[0].present) / seconds


class Latencies:
    """The milliseconds of additions and of searches, one after the other."""

    def __init__(self, memory: TranslationMemory, pairs: Iterator[Pair]):
        self._memory, self._search, self._pairs = memory, MemorySearch(memory.path), pairs
        self.add: list[float] = []
        self.search: list[float] = []

    def measure(self, count: int) -> None:
        """Add a pair and search for another one, some times."""
        for _ in range(count):
            new, (text, _) = next(self._pairs), next(self._pairs)
            query = self._memory.encode(text, "")[0]
            self.search.append(1000 * timed(lambda query=query: self._search.search([query], 5)))
            self.add.append(1000 * timed(lambda new=new: self._memory.add(*new)))

    def close(self) -> None:
        """Let the index be removed."""
        self._search.close()


def measure_crowded(memory: TranslationMemory, pairs: Iterator[Pair], file: Path, fewest: int) -> Latencies:
    """Measure while another process imports a file, and a third one rebuilds the index again and again."""
    latencies = Latencies(memory, pairs)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    importing = subprocess.Popen([*COMMAND, "import", memory.path, file], **quiet)
    rebuilding = subprocess.Popen([*COMMAND, "rebuild", memory.path], **quiet)
    try:
        while importing.poll() is None or len(latencies.add) < fewest:
            if rebuilding.poll() is not None:
                rebuilding = subprocess.Popen([*COMMAND, "rebuild", memory.path], **quiet)
            latencies.measure(1)
    finally:
        for process in (importing, rebuilding):
            process.kill()
            process.wait()
    latencies.close()
    return latencies


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that is not below this share of all."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def row(name: str, latencies: Latencies) -> list[str]:
    """Return a line of the table of latencies."""
    add, search = latencies.add, latencies.search
    return [name, str(len(add)), *(f"{percentile(add, share):.1f}" for share in (0.5, 0.99)), f"{max(add):.0f}"] + [
        *(f"{percentile(search, share):.1f}" for share in (0.5, 0.95)),
        f"{max(search):.0f}",
    ]


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--pairs", type=int, default=100_000, help="size of the memory in the end (100000)")
    parser.add_argument("--text", metavar="PREFIX", help="recombine PREFIX.en and PREFIX.fr, not generated clauses")
    parser.add_argument("--parts", type=int, default=5, help="parts that are imported one after the other (5)")
    parser.add_argument("--queries", type=int, default=300, help="additions and searches (300)")
    options = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clauses = clauses_of(options.text) if options.text else generated_clauses(rng, CLAUSES)
        endless = recombine(rng, clauses, 10**9)
        memory = create(folder, list(recombine(rng, clauses, min(TRAINING, options.pairs))))
        size = options.pairs // options.parts
        rates, sizes = [], []
        for part in tqdm(range(options.parts), desc="import", unit="part", leave=False):
            file = write_lines(recombine(rng, clauses, size), folder / f"{part}.tsv")
            rates.append(import_rate(memory, file))
            sizes.append(len(memory))
        print_table(
            "pairs in the memory | import TSV, pairs/s", zip(sizes, (f"{rate:,.0f}" for rate in rates), strict=True)
        )
        write_pairs(memory.pairs(), folder / "all.tmx", "tmx", *LANGS)
        with create_like(memory, folder) as other:
            tmx = import_rate(other, folder / "all.tmx")
        disk = (memory.path / "memory.sqlite").stat().st_size / len(memory)
        rebuild = timed(lambda: make_index(memory, wait=True))
        index = sum(path.stat().st_size for path in memory.path.glob("index.*/**/*") if path.is_file()) / len(memory)
        alone = Latencies(memory, endless)
        alone.measure(options.queries)
        alone.close()
        more = write_lines(recombine(rng, clauses, options.pairs), folder / "more.tsv")
        crowded = measure_crowded(memory, endless, more, options.queries)
        columns = "milliseconds | times | add p50 | p99 | most | search p50 | p95 | most"
        print_table(columns, [row("alone", alone), row("while others import and rebuild", crowded)])
        print(
            f"\nTMX {tmx:,.0f} pairs/s; {disk:.0f} bytes per pair and {index:.0f} of index, rebuilt in {rebuild:.1f} s"
        )
        memory.close()
    lines = {
        "memory: import TSV, pairs/s": rates,
        "memory: import TMX, pairs/s": [tmx],
        "memory: import at full size, of an empty one": [rates[-1] / rates[0]],
        "memory: adding while others import and rebuild, p99 ms": [percentile(crowded.add, 0.99)],
        "memory: searching while others import and rebuild, p95 ms": [percentile(crowded.search, 0.95)],
        "memory: rebuilding, pairs/s": [sizes[-1] / rebuild],
    }
    medians = {
        name: {"add": statistics.median(found.add), "search": statistics.median(found.search)}
        for name, found in (("alone", alone), ("crowded", crowded))
    }
    results = {"ratios": lines, "pairs": sizes[-1], "sizes": sizes, "median ms": medians, "bytes per pair": disk}
    write_json(options.json, results)


def create_like(memory: TranslationMemory, folder: Path) -> TranslationMemory:
    """Make an empty memory with the same subwords."""
    models = (folder / f"spm.{lang}.model" for lang in LANGS)
    return TranslationMemory.create(folder / "other", *LANGS, folder, *models)


if __name__ == "__main__":
    main()
