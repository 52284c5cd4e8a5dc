"""Make the datastore of kNN-MT for a plain translator, and fit both ways to use it on the development set.

    python examples/peers/knn.py data-bin nmt.pt FOLDER
    fairseq-generate data-bin --user-dir examples/peers/knn_mt --task knn_translation --path nmt.pt --knn-store FOLDER

Vanilla kNN-MT (Khandelwal et al., ICLR 2021) has a number of neighbours, a temperature and a weight; adaptive kNN-MT
(Zheng et al., ACL 2021) a network that weighs 0, 1, 2, 4 ... neighbours. Both are fitted by the likelihood of the
development set under teacher forcing; the papers choose the three numbers by BLEU. A finished datastore is kept.
"""

import argparse
import itertools
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fairseq_seg import Translator
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.errors import SegError, command
from fairseq_seg.files import file_fingerprint, make_whole

sys.path.insert(0, str(Path(__file__).resolve().parent))

from knn_mt.datastore import HEADER, Datastore, load_faiss, read_header  # noqa: E402
from knn_mt.mixture import MetaK, Vanilla, target_probability  # noqa: E402
from knn_mt.tasks.knn_translation import FITTED, META  # noqa: E402

BATCH = 32
SAMPLE = 200_000  # keys to learn cells and codes from
TEMPERATURES = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # of the mean distance to the nearest key
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class Steps:
    """What the translator does at every target symbol of a split under teacher forcing."""

    def __init__(self, session, split: str):
        self.model, self.task, self.split = session.model, session.task, split
        self.task.load_dataset(split)
        self.dataset = self.task.dataset(split)
        if self.dataset.tgt is None:
            raise SegError(f"{split} has no target side: run fairseq-preprocess with both languages.")

    def batches(self, probabilities: bool = False) -> Iterator[tuple[int, Tensor, Tensor, Tensor | None]]:
        """Yield the sentences of a batch, its states (N, H), symbols (N,) and, on request, p(symbol) (N,)."""
        from tqdm import tqdm

        translator, pad = self.model.guided.translator, self.task.target_dictionary.pad()
        device = next(self.model.parameters()).device
        order = self.dataset.ordered_indices()
        for start in tqdm(range(0, len(order), BATCH), desc=self.split, unit=f" x {BATCH} sentences"):
            batch = self.dataset.collater([self.dataset[i] for i in order[start : start + BATCH]])
            inputs, target = batch["net_input"], batch["target"]
            tokens, lengths, previous = (
                inputs[name].to(device) for name in ("src_tokens", "src_lengths", "prev_output_tokens")
            )
            with torch.no_grad():
                passed = translator.run(previous, translator.encode(tokens, lengths))
                real, p = target.ne(pad), None
                if probabilities:
                    linear = translator.logits_from_context(passed.contexts)
                    p = torch.softmax(translator.logits(passed.states, linear, passed.inputs).float(), -1).cpu()
                    p = p.gather(-1, target.unsqueeze(-1)).squeeze(-1)[real]
            yield len(target), passed.states.float().cpu()[real], target[real], p


def build(session, folder: Path, index: str, facts: dict) -> None:
    """Fill a datastore with the training set, and record its size and how long it took to add pairs."""
    steps = Steps(session, "train")
    count = int(steps.dataset.tgt_sizes.sum())
    sample, taken = [], 0
    for _, states, _, _ in Steps(session, "train").batches():
        sample.append(states.numpy())
        taken += len(states)
        if taken >= SAMPLE:
            break
    store = Datastore.learn(np.concatenate(sample), count, index)
    began, pairs = time.perf_counter(), len(steps.dataset)
    for _, states, symbols, _ in steps.batches():
        store.add(states.numpy(), symbols.numpy())
    seconds = time.perf_counter() - began
    data = session.data.fingerprint("train")
    facts = facts | {"pairs": pairs, "seconds per 1,000 pairs": 1000 * seconds / pairs}
    store.save(folder, session.checkpoint, data, facts)
    size = sum(path.stat().st_size for path in folder.iterdir())
    header = read_header(folder) | {"bytes per pair": size / pairs}
    (folder / HEADER).write_text(json.dumps(header, indent=1), encoding="utf-8")


def fit(session, folder: Path, neighbours: int, split: str) -> dict:
    """Fit both combinations on a split, and record them beside the datastore; return what was found."""
    store = Datastore.load(folder, session.checkpoint)
    columns: list[list[Tensor]] = [[], [], [], []]
    for _, states, target, p in Steps(session, split).batches(probabilities=True):
        distances, symbols = store.search(states.numpy(), neighbours)
        found = torch.from_numpy(distances).float(), torch.from_numpy(symbols).long(), target, p
        for column, part in zip(columns, found, strict=True):
            column.append(part)
    distances, symbols, target, p = map(torch.cat, columns)
    plain = float(-p.log().mean())
    usual = float(distances[:, 0].mean())
    vanilla: tuple[float, ...] = (plain, 1, usual, 0.0)
    sizes = [2**n for n in range(neighbours.bit_length()) if 2**n <= neighbours]
    for k, times, weight in itertools.product(sizes, TEMPERATURES, WEIGHTS):
        shares = Vanilla(k, times * usual, weight)(distances, symbols)
        loss = float(-target_probability(p, shares, symbols, target).log().mean())
        vanilla = min(vanilla, (loss, k, times * usual, weight))
    loss, k, temperature, weight = vanilla
    network, adaptive = train_meta(distances, symbols, target, p, temperature)
    torch.save(network.state_dict(), folder / META)
    losses = {"nll": {"plain": plain, "vanilla": loss, "adaptive": adaptive}}
    fitted = {"neighbours": neighbours, "k": k, "temperature": temperature, "weight": weight} | losses
    (folder / FITTED).write_text(json.dumps(fitted, indent=1), encoding="utf-8")
    return fitted


def train_meta(
    distances: Tensor, symbols: Tensor, target: Tensor, p: Tensor, temperature: float, passes: int = 30
) -> tuple[MetaK, float]:
    """Train the meta-k network with the paper's optimizer (Adam, 3e-4); return it and its loss in nats per symbol."""
    torch.manual_seed(1)
    network = MetaK(distances.size(1), temperature)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-4, betas=(0.9, 0.98))
    for _ in range(passes):
        for rows in torch.randperm(len(target)).split(256):
            shares = network(distances[rows], symbols[rows])
            loss = -target_probability(p[rows], shares, symbols[rows], target[rows]).log().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        final = -target_probability(p, network(distances, symbols), symbols, target).log().mean()
    return network.eval(), float(final)


def is_current(args: argparse.Namespace) -> bool:
    """Tell whether the folder holds a finished datastore of this checkpoint, training set and these options."""
    if not (args.store / FITTED).exists():
        return False
    data = DataBin(args.data, args.source, args.target).fingerprint("train")
    wanted = {"checkpoint": file_fingerprint(args.path), "data": data} | asked(args)
    return wanted.items() <= read_header(args.store).items()


def asked(args: argparse.Namespace) -> dict:
    """Return the options that change a datastore and what is fitted."""
    return {"split": args.split, "neighbours": args.neighbours, "asked index": args.index}


@command("knn.py")
def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA-BIN", help="the data that the translator was trained on")
    parser.add_argument("path", type=Path, metavar="CHECKPOINT", help="the plain translator")
    parser.add_argument("store", type=Path, metavar="FOLDER", help="where the datastore is kept")
    parser.add_argument("-s", "--source", metavar="LANG", help="source language (default: the first of the data-bin)")
    parser.add_argument("-t", "--target", metavar="LANG", help="target language (default: the second of the data-bin)")
    parser.add_argument("--split", default="valid", help="to fit on (default: valid)")
    parser.add_argument("--neighbours", type=int, default=8, metavar="K", help="most neighbours per step (default: 8)")
    parser.add_argument(
        "--index", default="", help="faiss's name of an index (default: Flat, or IVF and PQ64 if large)"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    args = parser.parse_args()
    load_faiss()  # before anything is computed
    if not is_current(args):
        languages = {"source_lang": args.source, "target_lang": args.target}
        options = {"checkpoint": args.path, "memory_k": 0, "cpu": args.cpu, **languages}
        with Translator(args.data, **options) as translator, make_whole(args.store) as folder:
            translator.call(lambda session: build(session, folder, args.index, asked(args)))
            translator.call(lambda session: fit(session, folder, args.neighbours, args.split))
    print((args.store / HEADER).read_text(encoding="utf-8"))
    print((args.store / FITTED).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
