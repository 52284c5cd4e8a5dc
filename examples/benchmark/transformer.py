"""The guided Transformer beside fairseq's own: training and decoding, plain and with K pairs, with and without a cache.

Three layers on each side, 4 heads, an inner size of four times the units. Batches and times are those of translator.py
and pairs.py; all ways to train, and all ways to decode, take turns in the same rounds.
"""

import statistics
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from cache import cached
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from pairs import batch_with_pairs, read
from rounds import interleave, print_table, ratios, spread, write_json
from translator import decoder, parser, seg_criterion, start, task, trainer, vocabulary

from fairseq_seg.models.seg_transformer import SegTransformerConfig, SegTransformerModel
from fairseq_seg.tasks.presets import resolve


def shape(sizes: Namespace) -> dict[str, int]:
    """Return the sizes of both models."""
    each = {"embed_dim": sizes.hidden, "ffn_embed_dim": 4 * sizes.hidden, "layers": 3, "attention_heads": 4}
    return {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in each.items()}


def stock_model(sizes: Namespace, dictionary: Dictionary) -> TransformerModel:
    """Return fairseq's `transformer` without dropout."""
    options = Namespace(dropout=0.0, **shape(sizes))
    base_architecture(options)
    return TransformerModel.build_model(options, task(dictionary))


def guided_model(sizes: Namespace, dictionary: Dictionary) -> SegTransformerModel:
    """Return our `seg_transformer` of the same sizes."""
    config = SegTransformerConfig(dropout=0.0, gate_hidden=sizes.hidden // 2, **shape(sizes))
    resolve(config, "paper")
    return SegTransformerModel.build_model(config, task(dictionary))


def main() -> None:
    """Run the command line."""
    sizes = parser(__doc__, rounds=5).parse_args()
    start(sizes)
    dictionary = vocabulary(sizes.symbols)
    batches = {k: batch_with_pairs(sizes, dictionary, k) for k in (0, 1, 2, 4)}
    loss = CrossEntropyCriterion(task(dictionary), sentence_avg=False)
    updates = {"fairseq": trainer(stock_model(sizes, dictionary), loss, batches[0])}
    for k in (0, 1, 2):
        updates[f"K={k}"] = trainer(guided_model(sizes, dictionary), seg_criterion(dictionary), batches[k])
    updates["memory of K=1"] = read(sizes, 1, guided_model)
    training = interleave(updates, sizes.rounds)
    with TemporaryDirectory() as folder:
        model = guided_model(sizes, dictionary)
        searches = {
            "fairseq": decoder(stock_model(sizes, dictionary), dictionary, batches[0]),
            "K=0": decoder(model, dictionary, batches[0]),
            "K=1, no cache": decoder(model, dictionary, batches[1]),
        }
        for k in (1, 4):
            searches[f"K={k}, fp32, full"] = cached(sizes, model, dictionary, k, "fp32", Path(folder), full=True)
        decoding = interleave(searches, sizes.rounds)
    lines = {
        "plain training, of fairseq's": ratios(training["fairseq"], training["K=0"]),
        "K=1 training, times plain": ratios(training["K=1"], training["K=0"]),
        "K=2 training, times plain": ratios(training["K=2"], training["K=0"]),
        "K=1 training, the memory's own share": ratios(training["memory of K=1"], training["K=1"]),
        "plain decoding, of fairseq's": ratios(decoding["fairseq"], decoding["K=0"]),
        "K=1 decoding, no cache, of plain": ratios(decoding["K=0"], decoding["K=1, no cache"]),
        "K=1 decoding, fp32, full, of plain": ratios(decoding["K=0"], decoding["K=1, fp32, full"]),
        "K=4 decoding, fp32, full, of plain": ratios(decoding["K=0"], decoding["K=4, fp32, full"]),
    }
    print_table("line | ratio", [(name, spread(values)) for name, values in lines.items()])
    seconds = {"training": training, "decoding": decoding}
    rows = [(kind, name, f"{statistics.median(x):.2f}") for kind, of in seconds.items() for name, x in of.items()]
    print_table("what | model | seconds", rows)
    write_json(sizes.json, {"ratios": {f"Transformer, {name}": x for name, x in lines.items()}, "seconds": seconds})


if __name__ == "__main__":
    main()
