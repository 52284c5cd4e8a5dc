"""--preset: what it sets, what overrides it, and that a checkpoint keeps what it was trained with."""

from pathlib import Path

import pytest
import torch

from fairseq_seg.checkpoints import load_state
from tests.stock import DECODING, PLUGIN, TRAINING, hypotheses, run_stock, run_stock_until_it_stops

PAPER = {
    "memory_keys": "context",
    "memory_match": "diagonal",
    "memory_overlap": False,
    "coverage_penalty": 0.0,
    "generator_weight": 0.0,
    "copy_weight": 0.0,
}
RECOMMENDED = {
    "memory_keys": "context-state",
    "memory_match": "full",
    "memory_overlap": True,
    "coverage_penalty": 8.0,
    "generator_weight": 0.5,
    "copy_weight": 0.5,
}


def train(data_bin: Path, save_dir: Path, *arguments: object) -> str:
    options = ["--max-update", 1, "--disable-validation", "--save-dir", save_dir]
    return run_stock("train", data_bin, *PLUGIN, *TRAINING, *options, *arguments)


def saved(folder: Path) -> tuple[dict, dict]:
    """Return the values of the preset's options and the model's parameters in a checkpoint."""
    state = load_state(folder / "checkpoint_last.pt")
    values = {**state["cfg"]["model"], **state["cfg"]["criterion"]}
    return {name: values[name] for name in PAPER}, state["model"]


@pytest.fixture(scope="module")
def recommended(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of the recommended model; its log is `train.log`."""
    folder = tmp_path_factory.mktemp("recommended")
    (folder / "train.log").write_text(train(data_bin, folder, "--preset", "recommended"))
    return folder


def test_the_paper_is_the_default(trained: Path):
    values, parameters = saved(trained)
    assert values == PAPER
    assert parameters["decoder.memory.coverage_penalty"] == 0  # untrained without a memory
    assert parameters["decoder.memory.keys.metric"].dim() == 1


def test_recommended(recommended: Path):
    values, parameters = saved(recommended)
    assert values == RECOMMENDED
    assert parameters["decoder.memory.coverage_penalty"] == 8
    assert parameters["decoder.memory.keys.metric"].dim() == 2
    log = (recommended / "train.log").read_text()
    model = "--memory-keys context-state --memory-match full --memory-overlap True --coverage-penalty 8.0"
    assert f"seg_gru_small: {model}\n" in log
    assert "seg_cross_entropy: --generator-weight 0.5 --copy-weight 0.5\n" in log


def test_an_option_overrides_the_preset(data_bin: Path, tmp_path: Path):
    own = ["--coverage-penalty", 0, "--copy-weight", 0, "--memory-match", "diagonal"]
    train(data_bin, tmp_path, *own, "--preset", "recommended")
    values, parameters = saved(tmp_path)
    assert values == RECOMMENDED | {"coverage_penalty": 0.0, "copy_weight": 0.0, "memory_match": "diagonal"}
    assert parameters["decoder.memory.keys.metric"].dim() == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--memory-overlap"], True),
        (["--memory-overlap", "True"], True),
        (["--memory-overlap", "False", "--preset", "recommended"], False),
        (["--memory-keys", "target", "--preset", "recommended"], False),  # which have no overlap
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_overlap_can_be_switched_on_and_off(data_bin: Path, tmp_path: Path, options: list[str], expected: bool):
    train(data_bin, tmp_path, *options)
    values, parameters = saved(tmp_path)
    assert values["memory_overlap"] is expected
    assert ("decoder.memory.overlap.weight" in parameters) is expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory-overlap", "--memory-keys", "target"], "--memory-overlap needs keys that look at the retrieved"),
        (["--memory-overlap", "yes"], "--memory-overlap yes is neither True nor False: give one of the two."),
    ],
    ids=["target", "yes"],
)
def test_refused_overlap(data_bin: Path, tmp_path: Path, options: list[str], message: str):
    arguments = [data_bin, *PLUGIN, *TRAINING, "--save-dir", tmp_path, "--preset", "recommended", *options]
    assert message in run_stock_until_it_stops("train", *arguments)


def test_fine_tuning_uses_the_preset_of_the_command_line(data_bin: Path, trained: Path, tmp_path: Path):
    start = ["--finetune-from-model", trained / "checkpoint_last.pt", "--lr", 0]
    train(data_bin, tmp_path, *start, "--preset", "recommended")
    values, parameters = saved(tmp_path)
    assert values == RECOMMENDED
    assert parameters["decoder.memory.coverage_penalty"] == 8
    assert torch.equal(parameters["encoder.embed.weight"], saved(trained)[1]["encoder.embed.weight"])


@pytest.mark.parametrize("preset", [[], ["--preset", "paper"], ["--preset", "recommended"]], ids=" ".join)
def test_a_checkpoint_keeps_what_it_was_trained_with(
    data_bin: Path, recommended: Path, tmp_path: Path, preset: list[str]
):
    state = load_state(recommended / "checkpoint_last.pt")
    state["model"]["decoder.memory.trained"].fill_(1)  # or its memory would start fresh, whatever the options
    if not preset:  # a checkpoint from before there were presets
        del state["cfg"]["task"]["preset"]
    checkpoint = tmp_path / "checkpoint.pt"
    torch.save(state, checkpoint)
    options = [*PLUGIN, "--path", checkpoint, "--cpu", *preset]
    output = run_stock("generate", data_bin, *options, *DECODING)
    assert "--memory-keys context-state --memory-match full" in output and "start fresh" not in output
    expected = run_stock("generate", data_bin, *PLUGIN, "--path", recommended / "checkpoint_last.pt", *DECODING)
    assert hypotheses(output) == hypotheses(expected)
    validation = run_stock("validate", data_bin, *options, "--batch-size", 8)
    assert "--generator-weight 0.5 --copy-weight 0.5" in validation


def test_unknown_preset(data_bin: Path, tmp_path: Path):
    arguments = [data_bin, *PLUGIN, *TRAINING, "--save-dir", tmp_path, "--preset", "best"]
    assert "argument --preset: invalid choice: 'best'" in run_stock_until_it_stops("train", *arguments)
