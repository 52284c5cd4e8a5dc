"""Cost of K retrieved pairs per sentence in training, decoding and peak memory, beside the plain translator.

Every sentence has K pairs of its own, as long as itself: no pair is shared, which is the most work a memory can make.
Times are taken as in translator.py; the peak is that of a fresh process for each figure.
"""

import multiprocessing
import statistics
from argparse import Namespace
from collections.abc import Callable

import numpy as np
import torch
from rounds import interleave, peak_megabytes, print_table, ratios, spread, write_json
from tqdm import tqdm
from translator import decoder, parser, random_batch, random_rows, seg_criterion, seg_model, start, trainer, vocabulary

from fairseq_seg.corpus.pairs import PairTable, RankedPairs
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.data.example_pairs import ExamplePairs
from fairseq_seg.modules.fusion import target_log_prob
from fairseq_seg.modules.translator import each

Job = Callable[[Namespace, int], Callable[[], None]]


def batch_with_pairs(sizes: Namespace, dictionary, k: int) -> dict:
    """Return a batch with k pairs per sentence, laid out by the collater of the data."""
    batch = random_batch(sizes, dictionary)
    if k > 0:
        count, spelling = sizes.batch * k, Spelling(dictionary.symbols)
        rows = (random_rows(count, sizes, dictionary).numpy() for _ in range(2))
        table = PairTable(*map(Sequences.from_rows, rows), (spelling, spelling))
        ids = np.arange(count)
        ranked = RankedPairs(np.arange(sizes.batch + 1) * k, ids, np.ones(count), np.ones(count, bool), table)
        pairs = ExamplePairs(ranked, cached=True)
        batch["net_input"]["pairs"] = pairs.collate(ids.reshape(sizes.batch, k))
    return batch


def update(sizes: Namespace, k: int) -> Callable[[], None]:
    """Return a training step with k pairs per sentence."""
    dictionary = vocabulary(sizes.symbols)
    batch = batch_with_pairs(sizes, dictionary, k)
    return trainer(seg_model(sizes, dictionary), seg_criterion(dictionary), batch)


def decode(sizes: Namespace, k: int) -> Callable[[], None]:
    """Return beam search over a batch with k pairs per sentence, which runs the pairs through the translator, too."""
    dictionary = vocabulary(sizes.symbols)
    return decoder(seg_model(sizes, dictionary), dictionary, batch_with_pairs(sizes, dictionary, k))


def read(sizes: Namespace, k: int, build: Callable = seg_model) -> Callable[[], None]:
    """Return what pairs add to the translator's pass, forward and backward: slots, match, coverage, gate, mixture."""
    dictionary = vocabulary(sizes.symbols)
    model, batch = build(sizes, dictionary), batch_with_pairs(sizes, dictionary, k)
    net_input, target = batch["net_input"], batch["target"]
    pairs, guided = net_input["pairs"], model.guided

    def translator_pass(tokens: dict):
        annotations = guided.translator.encode(tokens["src_tokens"], tokens["src_lengths"])
        passed = guided.translator.run(tokens["prev_output_tokens"], annotations)
        return each(passed, lambda x: x.detach().requires_grad_())

    of_sentences, of_pairs = translator_pass(net_input), translator_pass(pairs)
    log_gen = torch.full(target.shape, -9.0, requires_grad=True)

    def step() -> None:
        slots = guided.write_pairs(pairs, of_pairs)
        linear = guided.from_context(of_sentences.contexts, slots)
        result = guided.memory(*guided.queries(of_sentences.states, linear, slots), slots)
        log_p, _ = target_log_prob(log_gen, result, target)
        log_p.sum().backward()

    return step


def peak(job: Job, sizes: Namespace, k: int) -> float:
    """Run a job twice; return the largest resident size of this process in MB."""
    once = job(sizes, k)
    once()
    once()
    return peak_megabytes()


def peaks(job: Job, sizes: Namespace, ks: list[int]) -> dict[int, float]:
    """Return the peak for each k, each in a process that begins as a copy of this one."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        return {k: pool.apply(peak, (job, sizes, k)) for k in tqdm(ks, desc="peak memory", leave=False)}


def main() -> None:
    """Run the command line."""
    options = parser(__doc__, rounds=5)
    options.add_argument("--pairs", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="the values of K")
    sizes = options.parse_args()
    ks = [0, *sizes.pairs]
    start(sizes)
    peak_of = {"training": peaks(update, sizes, ks), "decoding": peaks(decode, sizes, ks)}
    share = f"memory of K={ks[1]}"
    training = interleave({f"K={k}": update(sizes, k) for k in ks} | {share: read(sizes, ks[1])}, sizes.rounds)
    decoding = interleave({f"K={k}": decode(sizes, k) for k in ks}, sizes.rounds)
    own = ratios(training[share], training[f"K={ks[1]}"])

    lines = {f"K={ks[1]} training, the memory's own share": own}
    rows, of_training, of_decoding = [], [], []
    for k in ks:
        taken = {"training": training[f"K={k}"], "decoding": decoding[f"K={k}"]}
        slower, rate = ratios(taken["training"], training["K=0"]), ratios(decoding["K=0"], taken["decoding"])
        peak_mb = {job: found[k] for job, found in peak_of.items()}
        tokens = sizes.batch * k * sizes.length
        rows.append({"k": k, "seconds": taken, "peak MB": peak_mb, "length": sizes.length, "pair tokens": tokens})
        if k:
            lines |= {f"K={k} training, times plain": slower, f"K={k} decoding, of plain": rate}
        slope = f"{1000 * (peak_mb['training'] - peak_of['training'][0]) / tokens:.0f}" if tokens else ""
        milliseconds = 1000 * statistics.median(taken["training"])
        of_training.append((k, tokens, f"{milliseconds:.0f}", spread(slower), f"{peak_mb['training']:.0f}", slope))
        sentences = sizes.batch / statistics.median(taken["decoding"])
        of_decoding.append((k, f"{sentences:.1f}", spread(rate), f"{peak_mb['decoding']:.0f}"))
    print_table("K | pair tokens | training ms | times plain | peak MB | MB per 1,000 pair tokens", of_training)
    print(f"\nshare of a K={ks[1]} step that is the memory's own: {spread(own)}")
    print_table("K | decoding sentences/s | of plain | peak MB", of_decoding)
    write_json(sizes.json, {"ratios": lines, "rows": rows, "batch": sizes.batch})


if __name__ == "__main__":
    main()
