"""Speed of the plain translator beside fairseq's own attention model, arch `lstm` with --encoder-bidirectional.

Both have the same sizes, see the same random batch, and take turns, round after round, on one thread. What counts is
the CPU time of this process: on a free core that is the time on the clock, on a busy machine it leaves out what others
take. Prints training tokens/s and beam-5 sentences/s of each, and our rate as a multiple of fairseq's.
"""

import argparse
import logging
import statistics
from argparse import Namespace
from collections.abc import Callable

from rounds import add_json_option, interleave, ratios, spread, write_json

BEAM = 5


def parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """Describe the options of a benchmark; the defaults are the sizes that its figures are stated for."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--hidden", type=int, default=512, help="units, also size of embedding and attention")
    options.add_argument("--symbols", type=int, default=8000, help="size of each vocabulary")
    options.add_argument("--batch", type=int, default=32, help="sentences per batch")
    options.add_argument("--length", type=int, default=30, help="symbols per sentence, on both sides")
    options.add_argument("--rounds", type=int, default=rounds, help="timed rounds, of which the median counts")
    add_json_option(options)
    return options


def vocabulary(symbols: int):
    """Return a fairseq dictionary of `symbols` symbols."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for i in range(symbols - len(dictionary)):
        dictionary.add_symbol(f"s{i}")
    return dictionary


def task(dictionary):
    """Return fairseq's translation task, for what models and criterions ask of one."""
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def fairseq_model(sizes: Namespace, dictionary):
    """Return fairseq's `lstm` with --encoder-bidirectional and without dropout."""
    from fairseq.models.lstm import LSTMModel, base_architecture

    widths = ("encoder_embed_dim", "encoder_hidden_size", "decoder_embed_dim", "decoder_hidden_size")
    args = Namespace(
        encoder_bidirectional=True, dropout=0.0, decoder_out_embed_dim=sizes.hidden, criterion="cross_entropy"
    )
    for width in widths:
        setattr(args, width, sizes.hidden)
    base_architecture(args)
    return LSTMModel.build_model(args, task(dictionary))


def seg_model(sizes: Namespace, dictionary):
    """Return our `seg_gru`; a batch without pairs uses the plain translator alone."""
    from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel
    from fairseq_seg.tasks.presets import resolve

    config = SegGRUConfig(hidden_size=sizes.hidden, embed_dim=sizes.hidden, gate_hidden=sizes.hidden)
    resolve(config, "paper")
    return SegGRUModel.build_model(config, task(dictionary))


def random_rows(rows: int, sizes: Namespace, dictionary):
    """Return sentences of random symbols, all of one length, eos at the end; (rows, length)."""
    import torch

    tokens = torch.randint(dictionary.nspecial, len(dictionary), (rows, sizes.length))
    tokens[:, -1] = dictionary.eos()
    return tokens


def random_batch(sizes: Namespace, dictionary) -> dict:
    """Return a batch as fairseq's collater makes it."""
    import torch

    source, target = (random_rows(sizes.batch, sizes, dictionary) for _ in range(2))
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((sizes.batch,), sizes.length),
        "prev_output_tokens": target.roll(1, dims=1),
    }
    return {"net_input": net_input, "target": target, "ntokens": target.numel()}


def trainer(model, criterion, batch: dict) -> Callable[[], None]:
    """Return one update: loss, gradients, clipping, Adam."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model.train()

    def update() -> None:
        optimizer.zero_grad()
        loss, sample_size, _ = criterion(model, batch)
        (loss / sample_size).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def translator(model, dictionary, batch: dict) -> Callable[[], None]:
    """Return beam search over a batch, prepared as fairseq-generate does it.

    A model that has learned nothing rarely ends a sentence: every output is made as long as the source is.
    """
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.sequence_generator import SequenceGenerator

    length = batch["target"].size(1) - 1
    model.prepare_for_inference_(FairseqConfig())
    model.eval()
    generator = SequenceGenerator([model], dictionary, beam_size=BEAM, max_len_a=0, max_len_b=length, min_len=length)
    return lambda: generator.generate([model], batch)


def start(sizes: Namespace) -> None:
    """Take one thread and fixed random numbers, and say what is measured."""
    import torch

    logging.disable(logging.INFO)  # fairseq tells what it does not find
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(
        f"batch {sizes.batch} x {sizes.length} symbols, vocabulary {sizes.symbols}, units, embedding and attention "
        f"{sizes.hidden}, one layer, no dropout, beam {BEAM}; one thread, CPU time, median of {sizes.rounds} "
        f"interleaved rounds (smallest to largest), torch {torch.__version__}\n"
    )


def main() -> None:
    """Run the command line."""
    sizes = parser(__doc__.splitlines()[0], rounds=9).parse_args()
    start(sizes)
    from fairseq.criterions.cross_entropy import CrossEntropyCriterion

    from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy

    dictionary = vocabulary(sizes.symbols)
    batch = random_batch(sizes, dictionary)
    builders = {"fairseq lstm": fairseq_model, "seg_gru": seg_model}
    criterions = {
        "fairseq lstm": CrossEntropyCriterion(task(dictionary), sentence_avg=False),
        "seg_gru": SegCrossEntropy(task(dictionary), sentence_avg=False, label_smoothing=0.0),
    }
    updates = {name: trainer(build(sizes, dictionary), criterions[name], batch) for name, build in builders.items()}
    training = interleave(updates, sizes.rounds)
    translators = {name: translator(build(sizes, dictionary), dictionary, batch) for name, build in builders.items()}
    decoding = interleave(translators, sizes.rounds)

    print("| model | training tokens/s | decoding sentences/s |\n|---|---|---|")
    for name in builders:
        tokens = batch["ntokens"] / statistics.median(training[name])
        sentences = sizes.batch / statistics.median(decoding[name])
        print(f"| {name} | {tokens:.0f} | {sentences:.1f} |")
    times_of = {"plain training, of fairseq's lstm": training, "plain decoding, of fairseq's lstm": decoding}
    compared = {name: ratios(times["fairseq lstm"], times["seg_gru"]) for name, times in times_of.items()}
    print(f"| seg_gru / fairseq lstm | {' | '.join(map(spread, compared.values()))} |")
    write_json(sizes.json, {"ratios": compared, "seconds": times_of})


if __name__ == "__main__":
    main()
