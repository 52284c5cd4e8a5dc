"""Training curves from fairseq's logs."""

from pathlib import Path

from fairseq_seg.evaluate.curves import read_curve
from tests.evaluate.running import write
from tests.stock import PLUGIN, TRAINING, run_stock


def test_curves_in_both_formats(data_bin: Path, tmp_path: Path):
    curves = {}
    for form in ("simple", "json"):
        options = ["--max-epoch", 2, "--log-interval", 4, "--no-save", "--log-format", form]
        log = write(tmp_path / form, [run_stock("train", data_bin, *PLUGIN, *TRAINING, *options)])
        curves[form] = read_curve("NMT", [log])
    simple, logged = curves["simple"], curves["json"]
    assert len(simple.train["nll_loss"]) > 2 and len(simple.valid["nll_loss"]) == 2
    assert simple.valid == logged.valid and simple.train == logged.train


def test_restarted_training(tmp_path: Path):
    lines = [
        "epoch 001:     10 / 99 loss=6, nll_loss=5, gate=0.2, lambda=0.1, num_updates=10, lr=0.001",
        "epoch 001:     20 / 99 loss=6, nll_loss=4, gate=0.3, lambda=0.2, num_updates=20, lr=0.001",
        "epoch 001:     20 / 99 loss=6, nll_loss=3, gate=0.4, lambda=0.2, num_updates=20, lr=0.001",
        "epoch 001 | valid on 'valid' subset | loss 6 | nll_loss 3.5 | bleu 12.25 | num_updates 20 | best_loss 3.5",
        "epoch 001 | valid on 'valid1' subset | nll_loss 9 | num_updates 20",
        "epoch 001:     30 / 99 lo",
    ]
    curve = read_curve("SEG", [write(tmp_path / "log", lines)])
    assert curve.train == {"nll_loss": {10: 5, 20: 3}, "gate": {10: 0.2, 20: 0.4}, "lambda": {10: 0.1, 20: 0.2}}
    assert curve.valid == {"nll_loss": {20: 3.5}, "bleu": {20: 12.25}}
