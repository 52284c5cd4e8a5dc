"""Stock fairseq's Transformers: equal to the bit without a memory, and guided from their checkpoints, old and new."""

import argparse
import copy
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.sequence_generator import SequenceGenerator

from fairseq_seg.checkpoints import load_state
from tests.stock import DECODING, PLUGIN, hypotheses, run_stock, run_stock_until_it_stops
from tests.tiny import (
    LEARNED,
    PRE_NORM,
    SENTENCES,
    TARGET,
    TRANSFORMER_SIZES,
    make_batch,
    make_criterion,
    make_model,
    make_task,
    random_pairs,
)

BATCHES = {"padded": SENTENCES, "one": SENTENCES[:1], "equal": SENTENCES[:1] * 3, "long": random_pairs(7, 20, 30)}


def stock_model(model, **options) -> TransformerModel:
    """Return fairseq's own model with the parameters of one of ours."""
    given = Namespace(**TRANSFORMER_SIZES | {"dropout": 0.1} | options)
    base_architecture(given)
    stock = TransformerModel.build_model(given, make_task())
    ours = {name: value for name, value in model.state_dict().items() if name in stock.state_dict()}
    stock.load_state_dict(ours | {"encoder.version": torch.tensor([3.0]), "decoder.version": torch.tensor([3.0])})
    return stock


@pytest.mark.parametrize("sentences", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize(
    "options",
    [{}, PRE_NORM, LEARNED, {"decoder_layerdrop": 0.5, "encoder_layerdrop": 0.5}],
    ids=lambda o: min(o, default=""),
)
def test_without_a_memory_it_is_fairseqs_to_the_bit(options: dict, sentences: list):
    model = make_model(translator="transformer", dropout=0.1, **options)
    stock, batch = stock_model(model, **options), make_batch(sentences)
    real = batch["target"] != TARGET.pad()
    criterion = LabelSmoothedCrossEntropyCriterion(make_task(), sentence_avg=False, label_smoothing=0.1)
    for training in (False, True) if "decoder_layerdrop" not in options else (False,):
        found, losses = [], []
        for each, loss in ((model.train(training), make_criterion(0.1)), (stock.train(training), criterion)):
            torch.manual_seed(3)  # dropout
            output = each(**batch["net_input"])
            found.append(each.get_normalized_probs(output, log_probs=True)[real])
            torch.manual_seed(3)
            losses.append(float(loss(each, batch)[2]["nll_loss"]))
        assert torch.equal(*found) and losses[0] == pytest.approx(losses[1], rel=1e-6)
    searched = []
    for each in (model, stock):
        each = copy.deepcopy(each).eval()  # fairseq's own keeps the size of the beam
        searched.append(SequenceGenerator([each], TARGET, beam_size=3, max_len_b=12).generate([each], batch))
    for ours, theirs in zip(*searched, strict=True):
        assert [x["tokens"].tolist() for x in ours] == [x["tokens"].tolist() for x in theirs]
        assert [float(x["score"]) for x in ours] == pytest.approx([float(x["score"]) for x in theirs], abs=1e-5)


@torch.no_grad()
def test_a_search_leaves_teacher_forcing_alone():
    """fairseq's attention, told the size of a beam, would take sentences for its hypotheses."""
    model, batch = make_model(translator="transformer"), make_batch(SENTENCES)
    before = model(**batch["net_input"])[0]
    SequenceGenerator([model], TARGET, beam_size=2, max_len_b=5).generate([model], batch)
    assert torch.equal(model(**batch["net_input"])[0], before)


# Checkpoints

TINY = "--encoder-embed-dim 16 --encoder-layers 2 --decoder-layers 3 --encoder-attention-heads 2"
TINY = [*TINY.split(), "--decoder-attention-heads", "4"]
TRAIN = ["--optimizer", "adam", "--batch-size", "16", "--cpu", "--max-update", "2", "--disable-validation"]
STOCK = {
    "base": ["--arch", "transformer", *TINY, "--encoder-ffn-embed-dim", "20"],
    "iwslt": [
        "--arch",
        "transformer_iwslt_de_en",
        *TINY,
        "--share-decoder-input-output-embed",
        "--encoder-learned-pos",
    ],
    "wmt19": [
        "--arch",
        "transformer_wmt_en_de_big",
        *TINY,
        "--decoder-embed-dim",
        "16",
        "--encoder-ffn-embed-dim",
        "24",
    ]
    + ["--share-all-embeddings", "--decoder-normalize-before", "--activation-fn", "gelu"],
}


@pytest.fixture(scope="module", params=STOCK)
def trained_by_stock(request, data_bin: Path, bpe_data_bin: Path, tmp_path_factory) -> tuple[Path, Path]:
    """A data-bin (with a joint dictionary for shared embeddings) and a checkpoint that stock fairseq trained on it."""
    folder, data = tmp_path_factory.mktemp(request.param), bpe_data_bin if request.param == "wmt19" else data_bin
    run_stock("train", data, "--task", "translation", *STOCK[request.param], *TRAIN, "--lr", 0.01, "--save-dir", folder)
    return data, folder / "checkpoint_last.pt"


def as_written_long_ago(path: Path, to: Path) -> Path:
    """Rewrite a checkpoint in the form that fairseq gave it before it had a `cfg`."""
    state = load_state(path)
    options = vars(state.pop("cfg")["model"])
    for name in ("merge_src_tgt_embed", "encoder_layerdrop", "offload_activations", "no_cross_attention"):
        options.pop(name)  # there were no such options
    state["args"] = argparse.Namespace(**options)
    model = state["model"]
    model["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    for name in [name for name in model if name.endswith("self_attn.q_proj.weight")]:
        start = name.removesuffix("q_proj.weight")
        for kind in ("weight", "bias"):
            model[f"{start}in_proj_{kind}"] = torch.cat([model.pop(f"{start}{part}_proj.{kind}") for part in "qkv"])
    if not state["args"].share_decoder_input_output_embed:
        model["decoder.embed_out"] = model.pop("decoder.output_projection.weight")
    torch.save(state, to)
    return to


@pytest.mark.parametrize("form", ["cfg", "args"])
def test_a_stock_checkpoint_is_guided_with_no_size_given(trained_by_stock, form: str, tmp_path: Path):
    data, checkpoint = trained_by_stock
    start = checkpoint if form == "cfg" else as_written_long_ago(checkpoint, tmp_path / "old.pt")
    own = ["--arch", "seg_transformer", "--criterion", "seg_cross_entropy", *TRAIN, "--lr", 0, "--save-dir", tmp_path]
    output = run_stock("train", data, *PLUGIN, *own, "--finetune-from-model", start)
    assert "start fresh" in output
    stock, ours = (load_state(path)["model"] for path in (checkpoint, tmp_path / "checkpoint_last.pt"))
    for name, value in stock.items():
        assert name.endswith("version") or torch.equal(value, ours[name]), name
    found = [
        hypotheses(run_stock("generate", data, *task, *DECODING, "--path", path, "--cpu", "--beam", 2))
        for task, path in ((["--task", "translation"], checkpoint), (PLUGIN, tmp_path / "checkpoint_last.pt"))
    ]
    assert found[0] == found[1]
    # The file tells its sizes, and so is trained further and loaded without them.
    [model], _ = checkpoint_utils.load_model_ensemble([str(tmp_path / "checkpoint_last.pt")])
    assert len(model.guided.translator.decoder.layers) == 3 and model.guided.translator.layer == 2


def refused(data_bin: Path, folder: Path, *arguments: object) -> str:
    own = ["--criterion", "seg_cross_entropy", *TRAIN, "--lr", 0.01, "--save-dir", folder / "new"]
    return run_stock_until_it_stops("train", data_bin, *PLUGIN, *own, *arguments)


def test_checkpoints_that_do_not_fit(
    trained_by_stock, trained: Path, data_bin: Path, bpe_data_bin: Path, tmp_path: Path
):
    data, checkpoint = trained_by_stock
    start = ["--arch", "seg_transformer", "--finetune-from-model"]
    message = refused(data, tmp_path, *start, checkpoint, "--encoder-layers", 5)
    assert message == f"{checkpoint} was trained with --encoder-layers 2, not 5: leave that out."
    other = data_bin if data == bpe_data_bin else bpe_data_bin
    message = refused(other, tmp_path, *start, checkpoint)
    assert "symbols, but" in message or "--joined-dictionary, or with those of the checkpoint" in message
    assert "--srcdict, --tgtdict" in message
    message = refused(data, tmp_path, "--arch", "seg_gru", "--finetune-from-model", checkpoint)
    assert "another --arch" in message
    gru = trained / "checkpoint_last.pt"
    assert refused(data, tmp_path, *start, gru).startswith(f"{gru} is not a Transformer: give")
    state = load_state(checkpoint)
    for part, told in (("decoder.", "an encoder without a decoder"), ("encoder.", "a decoder without attention")):
        left = {name: value for name, value in state["model"].items() if not name.startswith(part) and "attn.k" in name}
        if part == "encoder.":
            left = {name: value for name, value in left.items() if "encoder_attn" not in name}
        torch.save({**state, "model": left}, tmp_path / "half.pt")
        assert f"half.pt is {told}" in refused(data, tmp_path, *start, tmp_path / "half.pt")
    assert "does not exist" in refused(data, tmp_path, *start, tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--alignment-layer", "6"], "--alignment-layer 6 does not exist: the decoder has layers 0 to 5."),
        (["--alignment-heads", "9"], "--alignment-heads 9 does not exist: a layer has 8 heads."),
        (["--encoder-attention-heads", "3"], "--encoder-embed-dim 512 cannot be divided among"),
        (["--encoder-layers", "0"], "--encoder-layers must be 1 or more."),
        (["--share-all-embeddings"], "--share-all-embeddings needs one dictionary for both languages"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_sizes_that_contradict_each_other(data_bin: Path, tmp_path: Path, options: list, told: str):
    assert told in refused(data_bin, tmp_path, "--arch", "seg_transformer", *options)
