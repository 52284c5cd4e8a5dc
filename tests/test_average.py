"""seg-average: the mean is exact, the file loads as a checkpoint, and errors are sentences."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_seg.checkpoints import load_state
from fairseq_seg.cli.average import main


def save(path: Path, value: float, dtype: torch.dtype = torch.float32, **parameters: torch.Tensor) -> Path:
    """Write a checkpoint with the fields of fairseq's that matter here."""
    model = {"weight": torch.full((2, 3), value, dtype=dtype), "steps": torch.tensor(int(value)), **parameters}
    state = {"args": Namespace(seed=1), "model": model, "optimizer_history": [], "last_optimizer_state": {"state": {}}}
    torch.save(state, path)
    return path


def test_mean_of_floats_and_last_of_the_rest(tmp_path: Path):
    paths = [save(tmp_path / f"{value}.pt", value) for value in (1, 2, 6)]
    main(["--inputs", *map(str, paths), "--output", str(tmp_path / "new" / "mean.pt")])
    state = load_state(tmp_path / "new" / "mean.pt")
    assert torch.equal(state["model"]["weight"], torch.full((2, 3), 3.0))
    assert state["model"]["steps"] == 6
    assert state["last_optimizer_state"] is None and state["args"].seed == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mean.pt"]


def test_half_precision_is_summed_in_double_and_kept(tmp_path: Path):
    # The sum of these is over the largest half precision number, 65,504; their mean is not.
    paths = [save(tmp_path / f"{i}.pt", 40000, torch.half) for i in range(3)]
    main(["--inputs", *map(str, paths), "--output", str(tmp_path / "mean.pt")])
    assert torch.equal(load_state(tmp_path / "mean.pt")["model"]["weight"], torch.full((2, 3), 40000).half())


@pytest.mark.parametrize(("option", "mean"), [("--num-epoch-checkpoints", 9.5), ("--num-update-checkpoints", 150.0)])
def test_last_checkpoints_of_a_folder_by_number_not_by_spelling(tmp_path: Path, option: str, mean: float):
    for epoch in (2, 9, 10):
        save(tmp_path / f"checkpoint{epoch}.pt", epoch)
    for epoch, updates in ((1, 50), (2, 100), (10, 200)):
        save(tmp_path / f"checkpoint_{epoch}_{updates}.pt", updates)
    save(tmp_path / "checkpoint_best.pt", 1000)
    main(["--inputs", str(tmp_path), option, "2", "--output", str(tmp_path / "mean.pt")])
    assert load_state(tmp_path / "mean.pt")["model"]["weight"][0, 0] == mean


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("{0}/none.pt", "none.pt cannot be read or written: No such file or directory."),
        ("{0}/text.pt", "text.pt is not a fairseq checkpoint, or it was cut short."),
        ("{0}/cut.pt", "cut.pt is not a fairseq checkpoint, or it was cut short."),
        ("{0}/code.pt", "code.pt is not a fairseq checkpoint, or it was cut short."),
        ("{0}/checkpoint1.pt {0}/other.pt", "other.pt has other parameters than "),
        ("{0} --num-epoch-checkpoints 2", "holds 1 such checkpoints, so the last 2 cannot be averaged."),
        ("{0} --num-epoch-checkpoints 0", "holds 1 such checkpoints, so the last 0 cannot be averaged."),
        ("{0}/none --num-update-checkpoints 2", "none cannot be read or written: No such file or directory."),
        ("{0} {0} --num-update-checkpoints 2", "need exactly one folder as --inputs."),
        ("{0}/empty", "holds no numbered checkpoints"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing_behind(tmp_path: Path, inputs: str, message: str):
    good = save(tmp_path / "checkpoint1.pt", 1)
    save(tmp_path / "other.pt", 1, bias=torch.ones(2))
    (tmp_path / "text.pt").write_text("no checkpoint")
    (tmp_path / "cut.pt").write_bytes(good.read_bytes()[:500])
    torch.save({"model": {}, "hook": exec}, tmp_path / "code.pt")
    (tmp_path / "empty").mkdir()
    before = set(tmp_path.iterdir())
    with pytest.raises(SystemExit) as stop:
        main(["--inputs", *inputs.format(tmp_path).split(), "--output", str(tmp_path / "mean.pt")])
    assert message in str(stop.value)
    assert "\n" not in str(stop.value)
    assert set(tmp_path.iterdir()) == before


def test_a_folder_alone_means_all_its_numbered_checkpoints(tmp_path: Path):
    for number in (1, 2, 10):
        torch.save(
            {"model": {"w": torch.tensor([float(number)])}, "last_optimizer_state": 1},
            tmp_path / f"checkpoint{number}.pt",
        )
    (tmp_path / "checkpoint_best.pt").write_text("not one of them")
    main(["--inputs", str(tmp_path), "--output", str(tmp_path / "mean.pt")])
    assert torch.load(tmp_path / "mean.pt")["model"]["w"].item() == pytest.approx(13 / 3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="holds no numbered checkpoints"):
        main(["--inputs", str(tmp_path / "empty"), "--output", str(tmp_path / "mean.pt")])


@pytest.mark.parametrize("form", [[], ["--inputs"]])
def test_a_folder_can_be_named_with_and_without_the_option(tmp_path: Path, form: list[str]):
    for epoch, updates in ((1, 100), (1, 200), (2, 300)):
        save(tmp_path / f"checkpoint_{epoch}_{updates}.pt", updates)
    main([*form, str(tmp_path), "--output", str(tmp_path / "mean.pt")])
    assert load_state(tmp_path / "mean.pt")["model"]["weight"][0, 0] == 200


def test_nothing_to_average_is_a_sentence(tmp_path: Path):
    with pytest.raises(SystemExit, match="Nothing to average: name checkpoints or one folder."):
        main(["--output", str(tmp_path / "mean.pt")])
