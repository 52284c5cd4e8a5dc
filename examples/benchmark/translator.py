"""Speed of the plain translator beside fairseq's own attention model, arch `lstm` with --encoder-bidirectional.

Both have the same sizes, see the same random batch, and take turns on one thread. What counts is the CPU time of this
process, which other work on the machine changes little. Prints training tokens/s and beam-5 sentences/s of each, and
our rate as a multiple of fairseq's.
"""

import argparse
import logging
import statistics
from argparse import Namespace
from collections.abc import Callable

import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.lstm import LSTMModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from rounds import interleave, new_parser, print_table, ratios, spread, write_json

from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy
from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel
from fairseq_seg.tasks.presets import resolve

BEAM = 5


def parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Describe the options of a benchmark; the defaults are the sizes that its figures are stated for."""
    options = new_parser(description)
    for name, default, meaning in (
        ("--hidden", 512, "units, also size of embedding and attention"),
        ("--symbols", 8000, "size of each vocabulary"),
        ("--batch", 32, "sentences per batch"),
        ("--length", 30, "symbols per sentence, on both sides"),
        ("--rounds", rounds, "timed rounds, of which the median counts"),
    ):
        options.add_argument(name, type=int, default=default, help=meaning)
    return options


def vocabulary(symbols: int) -> Dictionary:
    """Return a fairseq dictionary of `symbols` symbols."""
    dictionary = Dictionary()
    for i in range(symbols - len(dictionary)):
        dictionary.add_symbol(f"s{i}")
    return dictionary


def task(dictionary: Dictionary) -> TranslationTask:
    """Return fairseq's translation task, which models and criterions ask for their dictionaries."""
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def fairseq_model(sizes: Namespace, dictionary: Dictionary) -> LSTMModel:
    """Return fairseq's `lstm` with --encoder-bidirectional and without dropout."""
    widths = ("encoder_embed_dim", "encoder_hidden_size", "decoder_embed_dim", "decoder_hidden_size")
    options = dict.fromkeys((*widths, "decoder_out_embed_dim"), sizes.hidden)
    args = Namespace(encoder_bidirectional=True, dropout=0.0, criterion="cross_entropy", **options)
    base_architecture(args)
    return LSTMModel.build_model(args, task(dictionary))


def seg_model(sizes: Namespace, dictionary: Dictionary) -> SegGRUModel:
    """Return our `seg_gru`; a batch without pairs uses the plain translator alone."""
    config = SegGRUConfig(hidden_size=sizes.hidden, embed_dim=sizes.hidden, gate_hidden=sizes.hidden)
    resolve(config, "paper")
    return SegGRUModel.build_model(config, task(dictionary))


def seg_criterion(dictionary: Dictionary) -> SegCrossEntropy:
    """Return our criterion without label smoothing."""
    return SegCrossEntropy(task(dictionary), sentence_avg=False, label_smoothing=0.0)


def random_rows(rows: int, sizes: Namespace, dictionary: Dictionary) -> torch.Tensor:
    """Return sentences of random symbols, all of one length, eos at the end; (rows, length)."""
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (rows, sizes.length))
    tokens[:, -1] = dictionary.eos()
    return tokens


def random_batch(sizes: Namespace, dictionary: Dictionary) -> dict:
    """Return a batch as fairseq's collater makes it."""
    source, target = (random_rows(sizes.batch, sizes, dictionary) for _ in range(2))
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((sizes.batch,), sizes.length),
        "prev_output_tokens": target.roll(1, dims=1),
    }
    return {"net_input": net_input, "target": target, "ntokens": target.numel()}


def trainer(model, criterion, batch: dict) -> Callable[[], None]:
    """Return one update: loss, gradients, clipping, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model.train()

    def update() -> None:
        optimizer.zero_grad()
        loss, sample_size, _ = criterion(model, batch)
        (loss / sample_size).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def decoder(model, dictionary: Dictionary, batch: dict) -> Callable[[], None]:
    """Return beam search over a batch, prepared as fairseq-generate does it.

    A model that has learned nothing rarely ends a sentence: every output is made as long as the source is.
    """
    length = batch["target"].size(1) - 1
    model.prepare_for_inference_(FairseqConfig())
    model.eval()
    generator = SequenceGenerator([model], dictionary, beam_size=BEAM, max_len_a=0, max_len_b=length, min_len=length)
    return lambda: generator.generate([model], batch)


def start(sizes: Namespace) -> None:
    """Take one thread and fixed random numbers, and say what is measured."""
    logging.disable(logging.INFO)  # fairseq tells what it does not find
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(
        f"batch {sizes.batch} x {sizes.length} symbols, vocabulary {sizes.symbols}, units, embedding and attention "
        f"{sizes.hidden}, one layer, no dropout, beam {BEAM}; one thread, CPU time, median of {sizes.rounds} "
        f"interleaved rounds (smallest to largest), torch {torch.__version__}"
    )


def main() -> None:
    """Run the command line."""
    sizes = parser(__doc__, rounds=9).parse_args()
    start(sizes)
    dictionary = vocabulary(sizes.symbols)
    batch = random_batch(sizes, dictionary)
    criterions = CrossEntropyCriterion(task(dictionary), sentence_avg=False), seg_criterion(dictionary)
    builders = {"fairseq lstm": (fairseq_model, criterions[0]), "seg_gru": (seg_model, criterions[1])}
    updates = {name: trainer(build(sizes, dictionary), loss, batch) for name, (build, loss) in builders.items()}
    training = interleave(updates, sizes.rounds)
    searches = {name: decoder(build(sizes, dictionary), dictionary, batch) for name, (build, _) in builders.items()}
    decoding = interleave(searches, sizes.rounds)

    times_of = {"plain training, of fairseq's lstm": training, "plain decoding, of fairseq's lstm": decoding}
    compared = {name: ratios(times["fairseq lstm"], times["seg_gru"]) for name, times in times_of.items()}
    rows = []
    for name in builders:
        tokens = batch["ntokens"] / statistics.median(training[name])
        rows.append((name, f"{tokens:.0f}", f"{sizes.batch / statistics.median(decoding[name]):.1f}"))
    rows.append(("seg_gru / fairseq lstm", *map(spread, compared.values())))
    print_table("model | training tokens/s | decoding sentences/s", rows)
    write_json(sizes.json, {"ratios": compared, "seconds": times_of})


if __name__ == "__main__":
    main()
