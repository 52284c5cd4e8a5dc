"""Tiny models with random parameters and tiny batches, made by the package's own builder and data set."""

import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, ListDataset
from torch import Tensor

from fairseq_seg.corpus.pairs import PairTable, RankedPairs
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy
from fairseq_seg.data.example_pairs import ExamplePairs
from fairseq_seg.data.seg_dataset import SegDataset
from fairseq_seg.models.guided import GuidedModel
from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel
from fairseq_seg.models.seg_transformer import SegTransformerConfig, SegTransformerModel
from fairseq_seg.tasks.presets import resolve
from tests.literal import EOS, LiteralModel, Prediction
from tests.literal_transformer import LiteralTransformer, Sizes

Pair = tuple[list[int], list[int]]  # source and target, each ending in eos
PAD = 1


def make_dictionary(words: int) -> Dictionary:
    dictionary = Dictionary()  # <s>, <pad>, </s>, <unk> come first
    for word in range(words):
        dictionary.add_symbol(f"w{word}")
    return dictionary


SOURCE, TARGET = make_dictionary(9), make_dictionary(8)


GRU_SIZES = {"hidden_size": 6, "embed_dim": 5, "attention_size": 4}
TRANSFORMER_SIZES = {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in {"embed_dim": 8, "ffn_embed_dim": 10, "layers": 2, "attention_heads": 2}.items()
}


def make_task() -> SimpleNamespace:
    return SimpleNamespace(source_dictionary=SOURCE, target_dictionary=TARGET)


def make_model(seed: int = 1, randomize: bool = True, translator: str = "gru", **options) -> GuidedModel:
    """Return a model in evaluation mode; M, lambda and the gate's bias are as random as the rest."""
    torch.manual_seed(seed)
    model_class, config_class, sizes = {
        "gru": (SegGRUModel, SegGRUConfig, GRU_SIZES),
        "transformer": (SegTransformerModel, SegTransformerConfig, TRANSFORMER_SIZES | {"dropout": 0.0}),
    }[translator]
    config = config_class(**(sizes | {"gate_hidden": 3} | options))
    resolve(config, "paper")
    model = model_class.build_model(config, make_task())
    if randomize:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.9, 0.9)
            scale = 20.0 / model.guided.translator.key_scale  # or q would be nearly even, and hide faults
            model.decoder.memory.keys.metric.mul_(scale)
            model.decoder.memory.coverage_penalty.fill_(3.0)
            model.decoder.memory.trained.fill_(1)  # or a checkpoint of it would start its memory fresh
    return model.eval()


def make_criterion(
    smoothing: float = 0.0, sentence_avg: bool = False, generator_weight: float = 0.0, copy_weight: float = 0.0
) -> SegCrossEntropy:
    task = SimpleNamespace(target_dictionary=TARGET)
    return SegCrossEntropy(task, sentence_avg, smoothing, generator_weight, copy_weight)


def random_sentence(rng: random.Random, dictionary: Dictionary, longest: int) -> list[int]:
    return [*rng.choices(range(4, len(dictionary)), k=rng.randint(1, longest)), EOS]


def random_pairs(seed: int, count: int, longest: int = 5) -> list[Pair]:
    rng = random.Random(seed)
    return [(random_sentence(rng, SOURCE, longest), random_sentence(rng, TARGET, longest)) for _ in range(count)]


def list_dataset(sentences: list[list[int]]) -> ListDataset:
    return ListDataset([torch.tensor(s) for s in sentences], np.array([len(s) for s in sentences]))


def make_pairs(pairs: list[Pair], rows: list[list[int]], cached: bool = False) -> ExamplePairs:
    """Return the retrieved pairs of one example per row; a row names its pairs, best first."""
    ranked = [(np.array(row, dtype=np.int64), np.ones(len(row), np.float32), np.ones(len(row), bool)) for row in rows]
    sides = (Sequences.from_rows(pair[side] for pair in pairs) for side in (0, 1))
    table = PairTable(*sides, (Spelling(SOURCE.symbols), Spelling(TARGET.symbols)))
    return ExamplePairs(RankedPairs.from_rows(ranked, table), cached=cached)


def make_dataset(sentences: list[Pair], retrieved: ExamplePairs | None = None) -> SegDataset:
    source, target = (list_dataset([sentence[side] for sentence in sentences]) for side in (0, 1))
    sides = (source, source.sizes, SOURCE, target, target.sizes, TARGET)
    return SegDataset(*sides, left_pad_source=False, left_pad_target=False, retrieved=retrieved)


def make_batch(sentences: list[Pair], pairs: list[Pair] = (), rows: list[list[int]] | None = None) -> dict:
    """Return one batch of all sentences; without rows the data set has no memory, as with --memory-k 0."""
    dataset = make_dataset(sentences, None if rows is None else make_pairs(pairs, rows))
    return dataset.collater([dataset[index] for index in range(len(sentences))])


def by_sentence(batch: dict, x: Tensor) -> list[Tensor]:
    """Return the rows of x (B, T, ...) in the order of the sentences, each cut to its real steps."""
    lengths = batch["target"].ne(PAD).sum(1)
    order = batch["id"].argsort()
    return [x[row, : lengths[row]] for row in order.tolist()]


def predict(model: GuidedModel, batch: dict) -> list[Tensor]:
    """Return the log probabilities (T, V) of every sentence under teacher forcing."""
    return by_sentence(batch, model.get_normalized_probs(model(**batch["net_input"]), log_probs=True))


def literal(model: GuidedModel) -> LiteralModel:
    """Return the literal version of a model."""
    # A shared matrix stands in the state under all of its names.
    known = model.state_dict(), model.guided.fusion, model.guided.detach
    if isinstance(model, SegGRUModel):
        return LiteralModel(*known)
    translator = model.guided.translator
    of_encoder, of_decoder = translator.encoder.cfg.encoder, translator.decoder.cfg.decoder
    sizes = Sizes(
        heads=of_decoder.attention_heads,
        encoder_pre_norm=of_encoder.normalize_before,
        decoder_pre_norm=of_decoder.normalize_before,
        alignment_layer=translator.layer,
        alignment_heads=translator.heads,
        activation=translator.decoder.cfg.activation_fn,
    )
    return LiteralTransformer(*known, sizes)


# Every combination of the memory's options, and a batch for them.
# The CopyNet-style keys always come with a full matrix.
KEYS = [*product(("context", "context-state"), ("diagonal", "full")), ("target", "full"), ("target-context", "full")]
OPTIONS = [
    {"fusion": fusion, "memory_keys": keys, "memory_match": match, "gate_hidden": hidden}
    for fusion, (keys, match), hidden in product(("shallow", "deep", "both"), KEYS, (3, 0))
]
# The overlap, with the keys that have an attention over X'.
OPTIONS += [options | {"memory_overlap": True} for options in OPTIONS if options["memory_match"] == "full"][::2]
OPTIONS = [
    options for options in OPTIONS if not options["memory_keys"].startswith("target") or "memory_overlap" not in options
]
# The Transformer, whose own options go with some of the memory's.
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True, "activation_fn": "gelu"}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True}
OPTIONS += [
    {"translator": "transformer", **options}
    for options in (
        {"fusion": "shallow", "memory_keys": "context", "memory_match": "diagonal", "gate_hidden": 0},
        {
            "fusion": "both",
            "memory_keys": "context",
            "memory_match": "full",
            "alignment_layer": 0,
            "alignment_heads": 1,
        },
        {"fusion": "deep", "memory_keys": "context-state", "memory_match": "diagonal", **PRE_NORM},
        {
            "fusion": "shallow",
            "memory_keys": "context-state",
            "memory_match": "full",
            "memory_overlap": True,
            **LEARNED,
        },
        {"fusion": "both", "memory_keys": "context-state", "memory_match": "full", "memory_overlap": True}
        | {"decoder_output_dim": 6, "encoder_embed_dim": 6, "share_decoder_input_output_embed": False},
        {
            "fusion": "shallow",
            "memory_keys": "target",
            "memory_match": "full",
            "share_decoder_input_output_embed": True,
        },
    )
]
SENTENCES, PAIRS = random_pairs(1, 4), random_pairs(2, 5)
# The sentences share some of the symbols of their pairs' sources, but not all.
PAIRS[0] = ([*SENTENCES[0][0][:-1], 5, EOS], PAIRS[0][1])
PAIRS[3] = ([6, *SENTENCES[3][0][1:]], PAIRS[3][1])
# No pair, one, several; the best pair of the last two sentences is the same.
ROWS = [[0, 1, 2], [], [3], [3, 0]]

every_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
every_translator = pytest.mark.parametrize("translator", ["gru", "transformer"])


def literal_predictions(literal_model: LiteralModel) -> list[list[Prediction]]:
    """Return the literal predictions for SENTENCES with the retrieved ROWS of PAIRS."""
    return [
        literal_model.predict(*sentence, [PAIRS[pair] for pair in row])
        for sentence, row in zip(SENTENCES, ROWS, strict=True)
    ]
