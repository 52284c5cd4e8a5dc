"""A frozen translator stays as it is while its memory learns, and its passes are computed once."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fairseq_seg import Translator
from fairseq_seg.cache.passes import PassCache
from fairseq_seg.checkpoints import load_state
from fairseq_seg.cli import guide
from fairseq_seg.errors import SegError
from fairseq_seg.models.seg_gru import SegGRUModel
from tests.attached_corpus import PLUGIN as GUIDED
from tests.attached_corpus import prepare
from tests.corpus import make_corpus
from tests.stock import PLUGIN, TRAINING, run_stock, run_stock_until_it_stops
from tests.tiny import (
    PAIRS,
    ROWS,
    SENTENCES,
    every_translator,
    make_criterion,
    make_dataset,
    make_model,
    make_pairs,
)

CORPUS = make_corpus(seed=1, groups=40, held_out=10)
RECOMMENDED = {"memory_keys": "context-state", "memory_match": "full", "memory_overlap": True}


def make_batch(rows: list[list[int]]) -> dict:
    """A batch whose pairs have addresses."""
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, rows, cached=True))
    return dataset.collater([dataset[index] for index in range(len(SENTENCES))])


def with_passes(cache: PassCache, batch: dict) -> dict:
    more = {"kept": cache.read_sentences(batch)}
    if "pairs" in batch["net_input"]:
        more["of_pairs"] = cache.read(batch["net_input"]["pairs"]).passed
    return {**batch, "net_input": {**batch["net_input"], **more}}


@pytest.mark.parametrize("keys", [RECOMMENDED, {}, {"memory_keys": "target"}], ids=str)
@every_translator
def test_kept_passes_give_the_same_loss_and_gradients(translator: str, keys: dict, tmp_path: Path):
    model = make_model(translator=translator, freeze_translator=True, **keys).train()
    criterion = make_criterion(generator_weight=0.5, copy_weight=0.5)
    cache = PassCache(model, tmp_path / "passes", "fp32", 2**24)
    for rows in (ROWS, [[4], [0], [2, 1], []], [[], [], [], []]):
        batch = make_batch(rows)
        for _ in range(2):  # computed, and read
            found = []
            for each in (batch, with_passes(cache, batch)):
                model.zero_grad()
                loss, _, _ = criterion(model, each)
                loss.backward()
                found.append([loss.detach(), *(p.grad for p in model.decoder.memory.parameters())])
            for a, b in zip(*found, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert all(p.grad is None for p in model.guided.translator.parameters())
    for other in (make_model(seed=2, translator=translator), make_model(translator=translator, memory_match="full")):
        if other.get_parameter("decoder.memory.keys.metric").dim() == 1:
            with pytest.raises(SegError, match="of another checkpoint"):
                PassCache(other, tmp_path / "passes", "fp32", 2**24)
    with torch.no_grad():  # the memory's own parameters learn, and the passes stay
        for parameter in model.decoder.memory.parameters():
            parameter.add_(1.0)
    assert len(PassCache(model, tmp_path / "passes", "auto", 2**24).pairs) == len(cache.pairs) > 0


@every_translator
def test_only_the_memory_is_in_training_mode(translator: str):
    model = make_model(translator=translator, freeze_translator=True, dropout=0.5)
    for part in (model.train(), model.train(True)):
        memory = set(part.decoder.memory.modules())
        assert all(m.training for m in memory)
        assert not any(m.training for side in (part.encoder, part.decoder) for m in side.modules()
                       if m not in memory and m not in (part.encoder, part.decoder))  # fmt: skip
    first, again = (model(**make_batch(ROWS)["net_input"])[0] for _ in range(2))
    assert torch.equal(first, again)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> tuple[Path, Path]:
    """An attached data-bin and a plain checkpoint."""
    folder = tmp_path_factory.mktemp("plain")
    data = prepare(CORPUS, folder)
    run_stock("train", data, *PLUGIN, *TRAINING, "--max-epoch", 2, "--disable-validation", "--save-dir", folder)
    return data, folder / "checkpoint_last.pt"


@pytest.mark.parametrize("kept", [False, True], ids=["computed", "kept"])
def test_a_frozen_training_changes_the_memory_alone(plain: tuple[Path, Path], kept: bool, tmp_path: Path):
    data, checkpoint = plain
    options = [*TRAINING, "--freeze-translator", "--finetune-from-model", checkpoint, "--save-dir", tmp_path / "out"]
    options += ["--memory-cache", tmp_path / "passes"] if kept else []
    output = run_stock("train", data, *GUIDED, *options, "--preset", "recommended", "--max-epoch", 1, "--memory-k", 2)
    before, after = (load_state(path)["model"] for path in (checkpoint, tmp_path / "out/checkpoint_last.pt"))
    memory = {name for name in after if name.startswith("decoder.memory.")}
    assert all(torch.equal(after[name], before[name]) for name in after if name not in memory)
    assert not torch.equal(after["decoder.memory.gate.score.weight"], before["decoder.memory.gate.score.weight"])
    assert ("memory cache: " in output) == kept
    # It resumes, and reads what was kept.
    run_stock("train", data, *GUIDED, *options, "--preset", "recommended", "--max-epoch", 2, "--memory-k", 2)
    assert load_state(tmp_path / "out/checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] > 1


def test_mistakes(plain: tuple[Path, Path], tmp_path: Path):
    data, checkpoint = plain
    options = [data, *GUIDED, *TRAINING, "--freeze-translator", "--save-dir", tmp_path, "--max-update", 1]
    start = ["--finetune-from-model", checkpoint]
    told = run_stock_until_it_stops("train", *options, "--memory-k", 2)
    assert told == "--freeze-translator needs a trained translator: name its --finetune-from-model CHECKPOINT."
    told = run_stock_until_it_stops("train", *options, *start, "--memory-k", 0)
    assert told == "--freeze-translator leaves nothing to learn with --memory-k 0: give another."
    cached = [*start, "--memory-k", 2, "--memory-cache", tmp_path / "passes"]
    for more in (["--fusion", "both"], ["--label-smoothing", 0.1]):
        assert "keeps too little of a frozen" in run_stock_until_it_stops("train", *options, *cached, *more)


def stop_in_training(arguments: list[str], log: Path) -> None:
    """Run seg-guide and `kill` it during the training, which must stop with it."""
    program = Path(sys.executable).with_name("seg-guide")
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, start_new_session=True)
    give_up = time.monotonic() + 200
    while not (log.exists() and log.stat().st_size) and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_seg_guide(plain: tuple[Path, Path], tmp_path: Path, capsys, monkeypatch):
    data, checkpoint = plain
    copied = tmp_path / "data-bin"
    shutil.copytree(data, copied)
    for name in list(copied.glob("*.memory")) + list(copied.glob("index.*")):
        shutil.rmtree(name) if name.is_dir() else name.unlink()
    command = [str(checkpoint), str(copied), "-o", str(tmp_path / "model"), "--batch-size", "32", "--cpu"]
    stop_in_training(command, tmp_path / "model.training" / "train.log")
    guide.main([*command, "--updates", "60"])
    said = capsys.readouterr().out
    without, with_it = map(
        float, re.search(r"per symbol: ([\d.]+) without the memory, ([\d.]+) with it", said).groups()
    )
    assert with_it < without - 0.3
    before, after = (load_state(path)["model"] for path in (checkpoint, tmp_path / "model" / "checkpoint.pt"))
    assert all(torch.equal(after[name], before[name]) for name in before if "decoder.memory." not in name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data-bin", "model"]
    with Translator(tmp_path / "model", cpu=True) as translator:
        translated = translator.translate([CORPUS.test[0].source])[0]
    assert translated.pairs
    # The checkpoint remembers the cache of its training, which the hub must not open.
    hub = SegGRUModel.from_pretrained(str(tmp_path / "model"), cpu=True)
    assert hub.translate([CORPUS.test[0].source]) == [translated.text]
    assert not (tmp_path / "model.training").exists()
    with pytest.raises(SystemExit, match="text.pt is not a fairseq checkpoint"):
        (tmp_path / "text.pt").write_text("?")
        guide.main([str(tmp_path / "text.pt"), *command[1:]])
    with pytest.raises(SystemExit, match="exists and is not a model folder: name another with --output."):
        guide.main([*command, "-o", str(copied)])
    with pytest.raises(SystemExit, match="unrecognized arguments: --no-such-option|--no-such-option"):
        guide.main([*command, "--no-such-option"])
