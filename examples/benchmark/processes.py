"""Resident memory of training processes that share one data folder with its attached memory.

    python examples/benchmark/processes.py [DATA-BIN]

The binarized sentences are mapped, so the system holds one copy of them for all processes of a machine. Of the attached
file a process keeps what it selects, 8 bytes per retrieved pair and 16 per sentence. Every process reads every example,
so that all of it is in memory, and then waits for the others. "Mapped files" are what it has of the data folder in its
address space, "its share of them" that divided by how often the same page is in use (the kernel's PSS); "its own" is
memory that no other process can use. Generated data have a memory of random pairs: which pairs are retrieved changes
nothing here, and to retrieve them would take most of the time.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import queue
import re
import sys
from pathlib import Path

import numpy as np
from rounds import add_data_options, data_folder, new_parser, print_table, write_json
from tqdm import tqdm

from fairseq_seg.corpus.attached import write_attached
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN, RankedPairs

PLUGIN = Path(__file__).resolve().parents[2] / "fairseq_seg"
MB = 2**20
KEPT = 16  # pairs per sentence, as many as seg-attach keeps


def attach_random(folder: Path) -> None:
    """Attach random pairs to every training sentence, in the file that seg-attach would write."""
    home = DataBin(folder)
    sentences = len(home.pair(TRAIN)[0])
    ids = np.random.default_rng(1).integers(sentences, size=sentences * KEPT)
    found = RankedPairs(np.arange(sentences + 1) * KEPT, ids, np.ones(len(ids)), np.ones(len(ids)))
    made_from = home.fingerprint(TRAIN)
    header = {"signature": "random", "kept": KEPT, "memory_data": None, "settings": {}}
    header |= {"memory_fingerprint": made_from, "split_fingerprint": made_from}
    write_attached(home.attached_path(TRAIN), header, [found])


def mapped(folder: Path) -> dict[str, int]:
    """Read how many bytes are resident here: all, of files in `folder`, its share of those, and its own."""
    total = {"resident": 0, "mapped": 0, "share": 0, "own": 0}
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            fields = line.split(maxsplit=5)
            inside = len(fields) == 6 and Path(fields[5]).is_relative_to(folder)
        elif found := re.match(r"(Rss|Pss|Private_Clean|Private_Dirty): +(\d+)", line):
            name, size = found[1], int(found[2]) * 1024
            total["resident"] += size * (name == "Rss")
            total["mapped"] += size * (name == "Rss" and inside)
            total["share"] += size * (name == "Pss" and inside)
            total["own"] += size * (name.startswith("Private") and not inside)
    return total


def read_epoch(data: str, languages: list[str], k: int, everyone, answer) -> None:
    """Load the training set as fairseq-train does, read every example, wait for everyone, and report."""
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    # fairseq does not look into a --user-dir whose package is imported already
    import fairseq_seg.models.seg_gru
    import fairseq_seg.tasks.seg_translation  # noqa: F401

    plugin = ["--user-dir", str(PLUGIN), "--task", "seg_translation", "--arch", "seg_gru_small"]
    arguments = [data, *languages, *plugin, "--memory-k", str(k)]
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    logging.disable(logging.INFO)
    task = tasks.setup_task(config.task)
    task.load_dataset("train")
    dataset = task.dataset("train")
    for index in range(len(dataset)):
        dataset[index]
    everyone.wait()
    answer.put(mapped(Path(data).resolve()))
    everyone.wait()  # all are measured while all are there


def measure(options: argparse.Namespace, data: str, processes: int, k: int) -> dict[str, float]:
    """Return the mean of the processes' figures, in MB."""
    context = multiprocessing.get_context("spawn")
    everyone, answer = context.Barrier(processes), context.Queue()
    languages = {"-s": options.source_lang, "-t": options.target_lang}
    chosen = [part for option, language in languages.items() if language for part in (option, language)]
    arguments = (data, chosen, k, everyone, answer)
    readers = [context.Process(target=read_epoch, args=arguments) for _ in range(processes)]
    for reader in readers:
        reader.start()
    figures: list[dict[str, int]] = []
    while len(figures) < processes:
        try:
            figures.append(answer.get(timeout=1))
        except queue.Empty:
            if failed := [reader for reader in readers if reader.exitcode]:
                everyone.abort()
                sys.exit(f"A reading process ended with code {failed[0].exitcode}: see its message above.")
    for reader in readers:
        reader.join()
    return {name: sum(figure[name] for figure in figures) / processes / MB for name in figures[0]}


def compare(rows: list[dict]) -> dict[str, list[float]]:
    """Compare what each of many processes holds of the mapped files, and what the attached pairs add to it."""
    per_k = len(rows) // 2
    without, one, many = rows[per_k - 1], rows[per_k], rows[-1]
    together = f"{many['processes']} processes"
    return {
        f"{together}, mapped files each, of one process alone": [many["share"] / one["share"]],
        f"{together}, own memory with {KEPT} pairs, times without": [many["own"] / without["own"]],
    }


def main() -> None:
    """Run the command line."""
    parser = new_parser(__doc__)
    add_data_options(parser, "use this attached data-bin")
    parser.add_argument("-s", "--source-lang", help="source language")
    parser.add_argument("-t", "--target-lang", help="target language")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], help="how many at a time")
    options = parser.parse_args()
    if not Path("/proc/self/smaps").exists():
        sys.exit("This needs Linux: it reads /proc/self/smaps.")
    rows = []
    with data_folder(options, sentences=1) as data:
        if options.data is None:
            attach_random(data)
        for k in (0, KEPT):
            for processes in tqdm(options.processes, desc=f"K={k}", leave=False):
                rows.append({"k": k, "processes": processes} | measure(options, str(data), processes, k))
    cells = ([row["k"], row["processes"], *(f"{size:.0f}" for size in list(row.values())[2:])] for row in rows)
    print_table("K | processes | resident MB each | mapped files | its share of them | its own", cells)
    write_json(options.json, {"ratios": compare(rows), "rows": rows})


if __name__ == "__main__":
    main()
