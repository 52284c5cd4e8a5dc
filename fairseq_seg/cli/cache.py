"""seg-cache: fill the cache of a frozen model ahead of time, or show what it holds."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.cache.address import pair_address
from fairseq_seg.cache.header import Header, spell_size
from fairseq_seg.cache.segments import ENTRY, PairCache
from fairseq_seg.corpus.dictionary import UNKNOWN
from fairseq_seg.errors import SegError, command

if TYPE_CHECKING:
    from fairseq.dataclass.configs import FairseqConfig

    from fairseq_seg.cache.frozen import EntryCache
    from fairseq_seg.data.example_pairs import ExamplePairs
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

MAX_TOKENS = 4000


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-cache",
        usage="seg-cache MODEL --memory-cache PATH [option ...]\n"
        "       seg-cache DATA-BIN --path CHECKPOINT --memory-cache PATH [option ...]\n       seg-cache --stats PATH",
        description="Compute a frozen model's keys and values for the pairs of a memory ahead of time, for "
        "--memory-cache of fairseq-generate and fairseq-interactive. Rerun a stopped command to resume.",
        epilog="All other options are those of fairseq-interactive with --task seg_translation: -s, -t, --memory (the "
        "memories to cache, by default the training set), --memory-cache-type, --memory-cache-size, --max-tokens (per "
        "batch), --fp16, --cpu ...",
        allow_abbrev=False,
    )
    parser.add_argument("data", nargs="?", metavar="MODEL", help="a model folder, or a data-bin with --path")
    parser.add_argument(
        "--path",
        metavar="CHECKPOINT",
        help="the model that will translate (default: the checkpoint in the model folder)",
    )
    parser.add_argument("--pairs", type=int, metavar="N", help="cache only the first N pairs")
    parser.add_argument("--stats", metavar="PATH", help="show what a cache holds, and exit")
    return parser


def describe(folder: Path) -> str:
    """Describe what a cache holds, one fact per line."""
    header = Header.load(folder)
    if header is None:
        raise SegError(
            f"{folder} does not exist or is empty: fill it with seg-cache, or by translating with --memory-cache."
        )
    pairs = PairCache(folder, header.row_bytes, limit=sys.maxsize)
    facts = {
        "type": header.number_type,
        "pairs": f"{len(pairs):,}",
        "bytes per pair": f"{pairs.size / len(pairs):,.0f}" if len(pairs) else "-",
        "bytes per slot": f"{header.row_bytes:,}",
        "total": spell_size(pairs.size),
        "numbers per slot": "key {}, gate {}, value {}".format(*header.sizes),
        "model": header.model,
    }
    return "\n".join(f"{name}: {fact}" for name, fact in facts.items())


def set_up(options: argparse.Namespace, rest: list[str]) -> tuple[FairseqConfig, SegTranslationTask, EntryCache]:
    """Read fairseq's options, load the model and open its cache."""
    from fairseq import tasks

    from fairseq_seg.checkpoints import load_model
    from fairseq_seg.corpus.model_folder import ModelFolder
    from fairseq_seg.translator import configure

    path = options.path or ModelFolder.load(options.data).checkpoint_path
    cfg = configure([options.data, *rest, "--path", str(path)])
    if not cfg.task.memory_cache or cfg.task.memory_k == 0:
        raise SegError(
            "seg-cache needs a folder to fill and a memory: give --memory-cache PATH, and leave out --memory-k 0."
        )
    task = tasks.setup_task(cfg.task)
    model, _ = load_model(path, task, cfg)
    return cfg, task, task.open_cache([model])


def read_pairs(task: SegTranslationTask, limit: int | None) -> list[ExamplePairs]:
    """Return the pairs of the memories that --memory names and that fit the model, one row per memory."""
    import numpy as np

    from fairseq_seg.corpus.pairs import RankedPairs
    from fairseq_seg.source.memories import every_pair

    tables, left = [], limit
    for table in every_pair(task.data_bin(), task.cfg.memory):
        count = len(table) if left is None else min(left, len(table))
        left = None if left is None else left - count
        ids = np.arange(count)
        row = RankedPairs(np.array([0, count]), ids, np.ones(count, np.float32), np.ones(count, bool), table)
        tables.append(task.example_pairs([np.zeros(0, int)], row))
    return tables


def missing_pairs(memories: list[ExamplePairs], cache: EntryCache) -> tuple[list[tuple[ExamplePairs, int]], list[int]]:
    """Return the distinct pairs missing from the cache, and how many bytes each of them will take."""
    from tqdm import tqdm

    from fairseq_seg.data.example_pairs import as_tokens

    new: dict[bytes, tuple[tuple[ExamplePairs, int], int]] = {}
    every = [(memory, pair) for memory in memories for pair in memory.row(0).tolist()]
    for memory, pair in tqdm(every, desc="reading", unit=" pairs"):
        source, target = (as_tokens(side[pair]).numpy() for side in (memory.table.source, memory.table.target))
        address = pair_address(source, target)
        if address not in cache.pairs:
            size = int((target != UNKNOWN).sum()) * cache.format.row_bytes + ENTRY.itemsize
            new[address] = (memory, pair), size
    return [pair for pair, _ in new.values()], [size for _, size in new.values()]


def check_room(sizes: list[int], pairs: int, cache: EntryCache) -> None:
    """Print how much space the pairs will take, and refuse a set that would evict its own first pairs."""
    needed, room = sum(sizes), cache.pairs.room
    if not sizes:
        print(f"{pairs:,} pairs, all of them cached already")
        return
    print(
        f"{pairs:,} pairs, {len(sizes):,} of them not cached yet: {spell_size(needed)}, "
        f"{needed / len(sizes):,.0f} bytes per pair",
        flush=True,
    )
    if needed > room:
        raise SegError(
            f"--memory-cache-size leaves room for {spell_size(room)}, but the pairs take {spell_size(needed)}: raise "
            "it, choose a smaller --memory-cache-type, or cache only the first N pairs with --pairs N."
        )


def batches(pairs: list[tuple[ExamplePairs, int]], max_tokens: int) -> Iterator[tuple[ExamplePairs, list[int]]]:
    """Yield pairs of similar length together, the longest first, so that a lack of RAM shows at once."""
    import numpy as np

    by_memory: dict[int, tuple[ExamplePairs, list[int]]] = {}
    for memory, pair in pairs:
        by_memory.setdefault(id(memory), (memory, []))[1].append(pair)
    for memory, numbers in by_memory.values():
        table = memory.table
        lengths = np.maximum(table.source.lengths[numbers], table.target.lengths[numbers]) + 1
        batch: list[int] = []
        for place in np.argsort(-lengths, kind="stable"):
            if not batch:
                size = max(1, max_tokens // lengths[place])
            batch.append(numbers[place])
            if len(batch) == size:
                yield memory, batch
                batch = []
        if batch:
            yield memory, batch


def fill(options: argparse.Namespace, rest: list[str]) -> None:
    """Compute and store the entries missing from the cache."""
    from fairseq import utils
    from tqdm import tqdm

    cfg, task, cache = set_up(options, rest)
    memories = read_pairs(task, options.pairs)
    pairs, sizes = missing_pairs(memories, cache)
    check_room(sizes, sum(len(memory.row(0)) for memory in memories), cache)
    with tqdm(desc="filling", total=len(pairs), unit=" pairs") as bar:
        for memory, batch in batches(pairs, cfg.dataset.max_tokens or MAX_TOKENS):
            collated = memory.collate([[pair] for pair in batch])
            if collated is not None:
                cache.fill(utils.apply_to_sample(lambda tensor: tensor.to(cache.device), collated))
                if collated["addresses"][0] not in cache.pairs:
                    raise SegError(
                        f"{cfg.task.memory_cache} accepts no more pairs: the disk may be full, or another process may "
                        "be writing to it. Rerun the command to resume."
                    )
            bar.update(len(batch))
    print(describe(Path(cfg.task.memory_cache)))


@command("seg-cache", stopped="stopped. Rerun the command to resume.")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = get_parser()
    options, rest = parser.parse_known_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    if options.stats:
        print(describe(Path(options.stats)))
    elif options.data is None:
        parser.error("give MODEL, or DATA-BIN and --path CHECKPOINT")
    else:
        warnings.filterwarnings("ignore", category=UserWarning)  # from hydra, about how fairseq calls it
        fill(options, rest)


if __name__ == "__main__":
    main()
