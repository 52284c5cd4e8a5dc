"""seg-cache: fill the cache of a frozen model ahead of time, or tell what one holds."""

from __future__ import annotations

import argparse
import logging
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_seg.cache.address import pair_address
from fairseq_seg.cache.header import Header, spell_size
from fairseq_seg.cache.segments import ENTRY, PairCache
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval.sequences import UNKNOWN

if TYPE_CHECKING:
    import numpy as np
    from fairseq.dataclass.configs import FairseqConfig

    from fairseq_seg.cache.frozen import FrozenMemory
    from fairseq_seg.data.pair_memory import PairMemory
    from fairseq_seg.tasks.seg_translation import SegTranslationTask

MAX_TOKENS = 4000


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-cache",
        usage="seg-cache CHECKPOINT DATA-BIN --memory-cache PATH [option ...]\n       seg-cache --stats PATH",
        description="Make what a model needs of the pairs of a memory, for --memory-cache of fairseq-generate and "
        "fairseq-interactive. Stopped, it goes on where it was.",
        epilog="All other options are those of fairseq-interactive with --task seg_translation: -s, -t, --memory (the "
        "memories whose pairs are wanted, by default the training set), --memory-cache-type, --memory-cache-size, "
        "--max-tokens (of a batch), --fp16, --cpu ...",
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", nargs="?", metavar="CHECKPOINT", help="the model that will translate")
    parser.add_argument("data", nargs="?", metavar="DATA-BIN", help="the data folder, with the dictionaries")
    parser.add_argument("--pairs", type=int, metavar="N", help="only the first N pairs")
    parser.add_argument("--stats", metavar="PATH", help="tell what a cache holds, and do nothing else")
    return parser


def describe(folder: Path) -> str:
    """What a cache holds, a fact a line."""
    header = Header.load(folder)
    if header is None:
        raise SegError(f"{folder} does not exist or is empty: fill it with seg-cache, or translate with it.")
    pairs = PairCache(folder, header.row_bytes, limit=sys.maxsize)
    facts = {
        "type": header.number_type,
        "pairs": f"{len(pairs):,}",
        "bytes a pair": f"{pairs.bytes / len(pairs):,.0f}" if len(pairs) else "-",
        "bytes a slot": f"{header.row_bytes:,}",
        "total": spell_size(pairs.bytes),
        "numbers a slot": "key {}, gate {}, value {}".format(*header.sizes),
        "model": header.model,
    }
    return "\n".join(f"{name}: {fact}" for name, fact in facts.items())


def set_up(options: argparse.Namespace, rest: list[str]) -> tuple[FairseqConfig, SegTranslationTask, FrozenMemory]:
    """Read fairseq's options, load the model and open its cache."""
    import torch
    from fairseq import checkpoint_utils, tasks
    from fairseq import options as fairseq_options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_seg.models.seg_gru import SegGRUModel

    parser = fairseq_options.get_interactive_generation_parser("seg_translation")
    parser.prog, parser.usage = "seg-cache", get_parser().usage
    arguments = [options.data, *rest, "--path", options.checkpoint]
    cfg = convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, arguments))
    if not cfg.task.memory_cache or cfg.task.memory_k == 0:
        raise SegError("Name the folder to fill with --memory-cache PATH, and leave out --memory-k 0.")
    task = tasks.setup_task(cfg.task)
    try:
        [model], _ = checkpoint_utils.load_model_ensemble([options.checkpoint], task=task)
    except OSError:
        raise SegError(f"The checkpoint {options.checkpoint} does not exist or cannot be read.") from None
    except (RuntimeError, EOFError, LookupError, pickle.UnpicklingError):
        raise SegError(f"{options.checkpoint} is no checkpoint of a fairseq model, or it was cut short.") from None
    if not isinstance(model, SegGRUModel):
        raise SegError(f"{options.checkpoint} is no seg_gru model: it has no memory to keep.")
    if cfg.common.fp16:
        model.half()
    if torch.cuda.is_available() and not cfg.common.cpu:
        model.cuda()
    model.prepare_for_inference_(cfg)
    model.eval()
    return cfg, task, task.open_cache([model])


def read_memories(task: SegTranslationTask, limit: int | None) -> tuple[PairMemory, np.ndarray]:
    """The pairs of the memories that --memory names, and the ids of those that the model takes."""
    import numpy as np
    from fairseq.data import ConcatDataset

    from fairseq_seg.data.live import Side
    from fairseq_seg.data.memories import TRAIN, parse_memories
    from fairseq_seg.store.store import TranslationMemory

    sides: list[tuple] = []
    for name, _ in parse_memories(task.cfg.memory):
        if name == TRAIN:
            sides.append(task.memory_sides(task.cfg.data))
            continue
        sides.append((Side(), Side()))
        with TranslationMemory(name, read_only=True) as memory:
            for entry in memory.entries():
                for side, symbols in zip(sides[-1], (entry.source_symbols, entry.target_symbols), strict=True):
                    side.append(symbols)
    source, target = (parts[0] if len(parts) == 1 else ConcatDataset(parts) for parts in zip(*sides, strict=True))
    count = len(source) if limit is None else min(limit, len(source))
    memory = task.pair_memory(np.array([0, count]), np.arange(count), source, target)
    return memory, memory.row(0)


def choose(memory: PairMemory, ids: np.ndarray, cache: FrozenMemory) -> tuple[list[int], list[int]]:
    """The pairs that the cache lacks, each text once, and how many bytes each of them will take."""
    from tqdm import tqdm

    new: dict[bytes, tuple[int, int]] = {}
    for pair in tqdm(ids.tolist(), desc="reading", unit=" pairs"):
        source, target = memory.source[pair].numpy(), memory.target[pair].numpy()
        address = pair_address(source, target)
        if address not in cache.pairs:
            new[address] = pair, int((target != UNKNOWN).sum()) * cache.format.row_bytes + ENTRY.itemsize
    return [pair for pair, _ in new.values()], [size for _, size in new.values()]


def check_room(sizes: list[int], pairs: int, cache: FrozenMemory) -> None:
    """Say how much the pairs will take, and refuse what would push out what was written just before."""
    needed, room = sum(sizes), cache.pairs.room
    if not sizes:
        print(f"{pairs:,} pairs, all of them there already")
        return
    print(
        f"{pairs:,} pairs, of which {len(sizes):,} are to be made: {spell_size(needed)}, "
        f"{needed / len(sizes):,.0f} bytes a pair",
        flush=True,
    )
    if needed > room:
        raise SegError(
            f"--memory-cache-size has room for {spell_size(room)} more, not for {spell_size(needed)}: raise it, take a "
            "smaller --memory-cache-type, or name the first so many pairs with --pairs."
        )


def batches(memory: PairMemory, pairs: list[int], max_tokens: int) -> Iterator[list[int]]:
    """Pairs of like length together, the longest first: where there is too little memory, it shows at once."""
    import numpy as np

    lengths = np.maximum(np.asarray(memory.source.sizes)[pairs], np.asarray(memory.target.sizes)[pairs])
    batch: list[int] = []
    for place in np.argsort(-lengths, kind="stable"):
        if not batch:
            size = max(1, max_tokens // lengths[place])
        batch.append(pairs[place])
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def fill(options: argparse.Namespace, rest: list[str]) -> None:
    """Make what the cache lacks."""
    from fairseq import utils
    from tqdm import tqdm

    cfg, task, cache = set_up(options, rest)
    memory, ids = read_memories(task, options.pairs)
    pairs, sizes = choose(memory, ids, cache)
    check_room(sizes, len(ids), cache)
    with tqdm(desc="filling", total=len(pairs), unit=" pairs") as bar:
        for batch in batches(memory, pairs, cfg.dataset.max_tokens or MAX_TOKENS):
            collated = memory.collate([[pair] for pair in batch])
            if collated is not None:
                cache.fill(utils.apply_to_sample(lambda tensor: tensor.to(cache.device), collated))
                if collated["addresses"][0] not in cache.pairs:
                    raise SegError(
                        f"{cfg.task.memory_cache} takes no more pairs: is the disk full, or does another process write "
                        "to it? The same command goes on from here."
                    )
            bar.update(len(batch))
    print(describe(Path(cfg.task.memory_cache)))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = get_parser()
    options, rest = parser.parse_known_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        if options.stats:
            print(describe(Path(options.stats)))
        elif options.data is None:
            parser.error("CHECKPOINT and DATA-BIN are required")
        else:
            warnings.filterwarnings("ignore", category=UserWarning)  # of hydra, about how fairseq calls it
            fill(options, rest)
    except KeyboardInterrupt:
        sys.exit("seg-cache: stopped; the same command goes on from here.")


if __name__ == "__main__":
    main()
