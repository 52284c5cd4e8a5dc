"""What --memory-cache saves and takes: decoding speed without a cache, with an empty and with a full one, and its size.

Batches and times are those of pairs.py: every sentence has K pairs of its own. The time with an empty cache includes
filling it, and the time with a full one includes reading it. With DATA-BIN and --path, a real split is translated with
fairseq-generate, too, to see how many translations fp16 and int8 change.
"""

import statistics
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from pairs import batch_with_pairs
from rounds import interleave, print_table, ratios, spread, write_json
from sacrebleu import corpus_bleu
from translator import decoder, parser, seg_model, start, vocabulary

from fairseq_seg.cache.frozen import EntryCache
from fairseq_seg.cache.header import Header
from fairseq_seg.cache.rows import RowFormat
from fairseq_seg.cache.segments import ENTRY, PairCache
from fairseq_seg.evaluate.decode import generate
from fairseq_seg.evaluate.outputs import read_output
from fairseq_seg.evaluate.split import load_split
from fairseq_seg.models.seg_gru import SegGRUConfig

TYPES = ("fp32", "fp16", "int8")
PAPER_PAIRS, PAPER_SLOTS = 744_528, 26  # English-French; symbols of a target
LIMIT = 2**40


def cached(sizes: Namespace, model, dictionary, k: int, number_type: str, folder: Path, full: bool) -> Callable:
    """Return beam search over a batch whose slots come from a cache that is full, or empty each time."""
    batch = batch_with_pairs(sizes, dictionary, k)
    pairs = batch["net_input"].pop("pairs")
    cache = EntryCache(model, folder / number_type, number_type, LIMIT)
    search = decoder(model, dictionary, batch)

    def job() -> None:
        if not full:
            cache.pairs = PairCache(Path(mkdtemp(dir=folder)), cache.format.row_bytes, LIMIT)
        batch["net_input"]["slots"] = cache.write(pairs)
        search()

    return job


def measure_speed(sizes: Namespace, folder: Path) -> list[dict]:
    """Measure CPU seconds per round for each way to get K pairs, and for the plain translator in the same rounds."""
    dictionary = vocabulary(sizes.symbols)
    model = seg_model(sizes, dictionary)
    jobs = {(0, "plain"): decoder(model, dictionary, batch_with_pairs(sizes, dictionary, 0))}
    for k in sizes.pairs:
        jobs[k, "no cache"] = decoder(model, dictionary, batch_with_pairs(sizes, dictionary, k))
        jobs[k, "fp32, empty"] = cached(sizes, model, dictionary, k, "fp32", folder, full=False)
        for number_type in TYPES:
            jobs[k, f"{number_type}, full"] = cached(sizes, model, dictionary, k, number_type, folder, full=True)
    seconds = interleave({f"K={k} {name}": job for (k, name), job in jobs.items()}, sizes.rounds)
    rows = []
    for k, name in jobs:
        taken = seconds[f"K={k} {name}"]
        rows.append({"k": k, "cache": name, "sentences": sizes.batch, "seconds": taken, "plain": seconds["K=0 plain"]})
    return rows


def measure_size() -> list[dict]:
    """Work out what a pair of the paper's corpus takes at the paper's sizes, with shallow fusion."""
    paper = SegGRUConfig()
    rows = []
    for number_type in TYPES:
        slot = RowFormat(number_type, (2 * paper.hidden_size, paper.gate_hidden, 0)).row_bytes
        pair = PAPER_SLOTS * slot + ENTRY.itemsize
        row = {"type": number_type, "bytes per slot": slot, "bytes per pair": pair}
        rows.append(row | {"all pairs": PAPER_PAIRS * pair})
    return rows


def compare(options: Namespace, folder: Path) -> list[dict]:
    """Translate a split without a cache and with each type: share of the same translations, BLEU, bytes per pair."""
    split = load_split(options.data, options.split, references=options.references)

    def translate(name: str, *more: str) -> list[str]:
        arguments = ["--memory-k", str(options.memory_k), "--cpu", *more]
        return read_output(generate(name, options.path, arguments, split, folder), split).lines

    plain = translate("no cache")
    bleu = corpus_bleu(plain, [split.references]).score
    rows = [{"cache": "none", "same": 1.0, "bleu": bleu, "bytes per pair": 0}]
    for number_type in TYPES:
        cache = folder / f"cache-{number_type}"
        lines = translate(number_type, "--memory-cache", str(cache), "--memory-cache-type", number_type)
        pairs = PairCache(cache, Header.load(cache).row_bytes, LIMIT)
        same = sum(a == b for a, b in zip(plain, lines, strict=True)) / len(lines)
        score = corpus_bleu(lines, [split.references]).score
        rows.append({"cache": number_type, "same": same, "bleu": score, "bytes per pair": pairs.size / len(pairs)})
    return rows


def main() -> None:
    """Run the command line."""
    options = parser(__doc__, rounds=5)
    options.add_argument("data", nargs="?", metavar="DATA-BIN", help="also translate a split of this data")
    options.add_argument("--path", type=Path, metavar="CHECKPOINT", help="with this model")
    options.add_argument("--split", default="test", help="of DATA-BIN")
    options.add_argument("--references", type=Path, metavar="FILE", help="its references as plain text, for BLEU")
    options.add_argument("--memory-k", type=int, default=2, help="pairs per sentence of the split")
    options.add_argument("--pairs", type=int, nargs="+", default=[1, 4], help="the values of K to time")
    sizes = options.parse_args()
    if (sizes.data is None) != (sizes.path is None):
        options.error("DATA-BIN and --path go together")
    start(sizes)
    results: dict[str, Any] = {"ratios": {}, "size": measure_size()}
    columns = f"type | bytes per slot | KB per pair of {PAPER_SLOTS} symbols | GB for {PAPER_PAIRS:,} pairs"
    kinds, slots, pairs, totals = zip(*(row.values() for row in results["size"]), strict=True)
    kilobytes, gigabytes = ([f"{size / unit:.1f}" for size in sizes] for sizes, unit in ((pairs, 1e3), (totals, 1e9)))
    print_table(columns, zip(kinds, [f"{slot:,}" for slot in slots], kilobytes, gigabytes, strict=True))
    with TemporaryDirectory() as folder:
        results["speed"] = measure_speed(sizes, Path(folder))
    rows = []
    for row in results["speed"]:
        of_plain = ratios(row["plain"], row["seconds"])
        rate = row["sentences"] / statistics.median(row["seconds"])
        rows.append((row["k"], row["cache"], f"{rate:.1f}", spread(of_plain)))
        if row["k"]:
            results["ratios"][f"K={row['k']} decoding, {row['cache']}, of plain"] = of_plain
    print_table("K | cache | decoding sentences/s | of plain", rows)
    if sizes.data is not None:
        with TemporaryDirectory() as folder:
            results["translations"] = found = compare(sizes, Path(folder))
        rows = [(r["cache"], f"{r['same']:.2%}", f"{r['bleu']:.2f}", f"{r['bytes per pair']:,.0f}") for r in found]
        print_table("cache | same translations | BLEU | bytes per pair", rows)
    write_json(sizes.json, results)


if __name__ == "__main__":
    main()
