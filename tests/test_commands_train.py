"""fairseq-train, fairseq-hydra-train and fairseq-validate with the plugin, end to end on the generated corpus."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fairseq_seg.checkpoints import load_state
from tests.corpus import Corpus, binarize, write_text
from tests.stock import DECODING, PLUGIN, ROOT, TRAINING, run_process, run_stock, train_two_processes


def train(data_bin: Path, save_dir: Path, *arguments: object) -> str:
    return run_stock("train", data_bin, *PLUGIN, *TRAINING, "--save-dir", save_dir, *arguments)


def last(folder: Path) -> dict:
    return load_state(folder / "checkpoint_last.pt")


def updates(state: dict) -> int:
    return state["optimizer_history"][-1]["num_updates"]


def figures(output: str, name: str, split: str = "valid") -> list[float]:
    """Return every figure `name` that the log gives for a split, in order."""
    lines = [line for line in output.splitlines() if f"| {split} | " in line or f"'{split}' subset | " in line]
    return [float(re.search(rf"\| {name} ([-\d.]+)", line)[1]) for line in lines if f"| {name} " in line]


def assert_same_parameters(left: dict, right: dict, tolerance: float) -> None:
    assert left["model"].keys() == right["model"].keys()
    for name, value in left["model"].items():
        torch.testing.assert_close(value, right["model"][name], rtol=0, atol=tolerance, msg=name)


@pytest.fixture(scope="module")
def small(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory):
    """Return a function that gives a data-bin of the first N pairs of every split."""
    folder = tmp_path_factory.mktemp("small")

    def make(size: int) -> Path:
        data_bin = folder / str(size) / "data-bin"
        if not data_bin.exists():
            cut = {name: pairs[:size] for name, pairs in corpus.splits()}
            write_text(replace(corpus, **cut), data_bin.with_name("text"))
            binarize(data_bin.with_name("text"), data_bin)
        return data_bin

    return make


def test_training_learns(trained: Path):
    losses = figures((trained / "train.log").read_text(), "loss")
    assert len(losses) == 20
    assert losses[-1] < losses[0] / 4


def test_resumed_training_equals_uninterrupted_training(data_bin: Path, tmp_path: Path):
    # An epoch has 13 updates, so the first run stops in the middle of one and the second goes on into the next.
    train(data_bin, tmp_path / "whole", "--max-update", 20)
    train(data_bin, tmp_path / "halves", "--max-update", 10)
    assert updates(last(tmp_path / "halves")) == 10
    output = train(data_bin, tmp_path / "halves", "--max-update", 20)
    assert "@ 10 updates" in output
    assert updates(last(tmp_path / "halves")) == updates(last(tmp_path / "whole")) == 20
    assert_same_parameters(last(tmp_path / "halves"), last(tmp_path / "whole"), tolerance=0)


def test_best_checkpoint_is_chosen_by_bleu(data_bin: Path, trained: Path, tmp_path: Path):
    # From a good model, a wild learning rate makes BLEU fall: the first epoch is the best, though not the last.
    decoding = ["--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_a": 0, "max_len_b": 20}']
    best = ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"]
    start = ["--finetune-from-model", trained / "checkpoint_last.pt", "--lr", "0.0001,1.0"]
    output = train(data_bin, tmp_path, *decoding, *best, *start, "--max-epoch", 3)
    scores = figures(output, "bleu")
    assert len(scores) == 3 and scores[0] > 30 > max(scores[1:])
    state = load_state(tmp_path / "checkpoint_best.pt")
    assert state["extra_state"]["train_iterator"]["epoch"] == 2  # the epoch to come
    assert state["extra_state"]["best"] == pytest.approx(scores[0], abs=0.01)


def test_early_stop(data_bin: Path, tmp_path: Path):
    output = train(data_bin, tmp_path, "--lr", 0, "--patience", 2, "--max-epoch", 9)
    assert "early stop since valid performance" in output
    assert len(figures(output, "loss")) == 3


def test_max_tokens_bounds_the_batches(data_bin: Path, corpus: Corpus, tmp_path: Path):
    limit = 100
    output = train(data_bin, tmp_path, "--batch-size", 1000, "--max-tokens", limit, "--max-epoch", 1)
    symbols = sum(len(pair.target.split()) + 1 for pair in corpus.train)
    assert symbols / limit <= updates(last(tmp_path)) < 2 * symbols / limit
    assert figures(output, "bsz", "train")[0] * updates(last(tmp_path)) == pytest.approx(len(corpus.train), rel=0.01)


@pytest.mark.parametrize("size", [1, 7, 8, 21])
def test_no_sentence_is_lost_in_training_and_validation(small, size: int, tmp_path: Path):
    # One update takes the whole epoch, and one validation the whole subset: `bsz` is then the number of sentences.
    data_bin = small(size)
    sizes = ["--batch-size", 8, "--update-freq", 100]
    output = train(data_bin, tmp_path, *sizes, "--max-epoch", 1)
    assert figures(output, "bsz", "train") == [size]
    options = [*PLUGIN, "--path", tmp_path / "checkpoint_last.pt", "--cpu", "--batch-size", 8]
    validation = run_stock("validate", data_bin, *options, "--valid-subset", "valid,test")
    assert figures(validation, "bsz", "valid") == figures(validation, "bsz", "test") == [size]
    assert figures(validation, "loss", "valid") == pytest.approx(figures(output, "loss", "valid"), abs=0.002)


@pytest.mark.parametrize("size", [1, 7, 21])
def test_bleu_of_validation_is_that_of_all_sentences(small, size: int, trained: Path, tmp_path: Path):
    data_bin = small(size)
    start = ["--finetune-from-model", trained / "checkpoint_last.pt", "--lr", 0, "--max-epoch", 1]
    decoding = ["--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_a": 0, "max_len_b": 20}']
    validation = train(data_bin, tmp_path, *start, *decoding)
    options = [*PLUGIN, "--path", trained / "checkpoint_last.pt", "--cpu", "--gen-subset", "valid", "--beam", 2]
    generation = run_stock("generate", data_bin, *options, *DECODING, "--scoring", "sacrebleu")
    expected = float(re.search(r"BLEU\S* = ([\d.]+)", generation)[1])
    assert figures(validation, "bleu")[0] == pytest.approx(expected, abs=0.02)


def test_two_processes_equal_one_with_twice_the_batches(data_bin: Path, tmp_path: Path):
    options = ["--batch-size", 8, "--dropout", 0, "--max-update", 8, "--disable-validation"]
    train(data_bin, tmp_path / "one", *options, "--update-freq", 2)
    train_two_processes(data_bin, *PLUGIN, *TRAINING, *options, "--save-dir", tmp_path / "two")
    assert updates(last(tmp_path / "two")) == updates(last(tmp_path / "one")) == 8
    assert_same_parameters(last(tmp_path / "two"), last(tmp_path / "one"), tolerance=1e-4)


def test_validate_as_a_process(data_bin: Path, trained: Path, corpus: Corpus):
    output = run_process(
        "validate", data_bin, *PLUGIN, "--path", trained / "checkpoint_last.pt", "--cpu", "--batch-size", 16
    )
    expected = figures((trained / "train.log").read_text(), "loss")[-1]
    assert figures(output, "loss") == [pytest.approx(expected, abs=0.002)]
    assert figures(output, "bsz") == [len(corpus.valid)]


def test_hydra_train_in_bf16(data_bin: Path, tmp_path: Path):
    # Hydra composes the configuration before fairseq imports the user-dir: our parts are named by `_name`, in a file.
    (tmp_path / "seg.yaml").write_text(f"""
common: {{user_dir: {ROOT / "fairseq_seg"}, cpu: true, bf16: true}}
task: {{_name: seg_translation, data: {data_bin}, memory_k: 0}}
model: {{_name: seg_gru_small, hidden_size: 96, embed_dim: 64}}
criterion: {{_name: seg_cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.007], max_epoch: 2, clip_norm: 1.0}}
dataset: {{batch_size: 16}}
checkpoint: {{save_dir: {tmp_path}}}
hydra: {{run: {{dir: {tmp_path}}}}}
""")
    output = run_process("hydra-train", "--config-dir", tmp_path, "--config-name", "seg")
    losses = figures(output, "loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    for name, value in last(tmp_path)["model"].items():  # fairseq saves single precision, whatever the model's
        assert torch.equal(value, value.bfloat16().float()), name


def test_patience_counts_on_after_a_resume(data_bin: Path, tmp_path: Path):
    """With a learning rate of 0 no validation is better than the first: three worse ones end the fourth epoch."""
    options = [*PLUGIN, *TRAINING, "--lr", 0, "--patience", 3, "--save-dir", tmp_path]
    run_stock("train", data_bin, *options, "--max-epoch", 2)
    output = run_stock("train", data_bin, *options, "--max-epoch", 9)
    assert "early stop since valid performance hasn't improved for last 3 runs" in output
    assert load_state(tmp_path / "checkpoint_last.pt")["extra_state"]["train_iterator"]["epoch"] == 5  # the next one
    start = ["--finetune-from-model", tmp_path / "checkpoint_last.pt", "--save-dir", tmp_path / "new"]
    assert "early stop" not in run_stock("train", data_bin, *options, *start, "--max-epoch", 2)


@pytest.mark.parametrize(("given", "expected"), [(None, 1), ("2", 2)])
def test_one_thread_unless_the_user_asks_for_more(data_bin: Path, tmp_path: Path, monkeypatch, given, expected):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    try:
        torch.set_num_threads(2)  # as torch would start on a machine with two cores, or with OMP_NUM_THREADS=2
        train(data_bin, tmp_path, "--max-update", 1, "--no-save")
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)
