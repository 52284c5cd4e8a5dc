"""Checkpoints as systems: translated once, kept, and refused with other dictionaries."""

import json
import shutil
from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate import systems
from fairseq_seg.evaluate.decode import kept_path, run_kept
from fairseq_seg.evaluate.outputs import read_output
from fairseq_seg.evaluate.split import Split
from tests.corpus import TARGET
from tests.evaluate.running import run, write
from tests.stock import DECODING, PLUGIN, hypotheses, run_stock


def test_checkpoints_are_decoded_once(attached: Path, trained: Path, split: Split, tmp_path: Path, monkeypatch):
    checkpoint, options = trained / "checkpoint_last.pt", [*DECODING, "--cpu"]
    monkeypatch.setattr(systems, "SWEEP", {"1": ["--memory-k", "1"]})
    given = " ".join(map(str, [checkpoint, *options]))
    arguments = ["--system", "NMT", f"{given} --memory-k 0", "--sweep", given, "--json", tmp_path / "report.json"]
    run(attached, *arguments)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "report.outputs").iterdir()}
    assert sorted(path.suffix for path in kept) == [".gen", ".gen", ".log", ".log"]
    expected = hypotheses(run_stock("generate", attached, *PLUGIN, *options, "--beam", 5, "--path", checkpoint))
    [path] = (path for path in kept if "memory-k-0" in path.name and path.suffix == ".gen")
    assert read_output(path, split).lines == [expected[index][0] for index in range(len(split))]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["systems"][1]["pairs"] == 0 and report["sweep"][0]["pairs"] == 1
    assert report["systems"][1]["speed"] > 0
    run(attached, *arguments)
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "report.outputs").iterdir()}


def test_a_translation_is_kept_for_one_memory_only(split: Split, tmp_path: Path):
    checkpoint = write(tmp_path / "seg.pt", [])
    other = Split(**(vars(split) | {"attached": "other"}))
    kept, again = (kept_path(tmp_path, checkpoint, [], part, ".gen") for part in (split, other))
    assert kept != again
    write(kept, ["old"])
    run_kept("this", [], kept, b"\n", 1, "SEG")
    assert kept.read_text() == "old\n"
    run_kept("this", ["--memory", "client.mem"], kept, b"\n", 1, "SEG")  # which may have grown
    assert kept.read_text() != "old\n"


def test_the_reason_of_a_failure_is_not_a_progress_bar(tmp_path: Path, monkeypatch):
    code = r"""import sys; sys.stderr.write("x:  0%|     | 0/2\rThe disk is full.\nx:  0%|     | 0/2\n"); sys.exit(1)"""
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SegError, match=r"^SEG could not be translated: The disk is full\.$"):
        run_kept("failing", [], tmp_path / "seg.gen", b"\n", 1, "SEG")


def test_a_checkpoint_in_a_folder_with_a_blank(tmp_path: Path):
    checkpoint = tmp_path / "my results" / "seg.pt"
    checkpoint.parent.mkdir()
    write(checkpoint, [])
    assert systems.parse_checkpoint(str(checkpoint)) == (checkpoint, [])
    assert systems.parse_checkpoint(f"'{checkpoint}' --memory-k 2") == (checkpoint, ["--memory-k", "2"])


@pytest.mark.parametrize("same_size", [False, True])
def test_checkpoint_of_another_dictionary(attached: Path, trained: Path, tmp_path: Path, same_size: bool):
    folder = shutil.copytree(attached, tmp_path / "data-bin")
    dictionary = folder / f"dict.{TARGET}.txt"
    lines = dictionary.read_text(encoding="utf-8").splitlines()
    lines = [lines[1], lines[0], *lines[2:]] if same_size else [*lines, "another 1"]
    write(dictionary, lines)
    shutil.copy(attached.with_name("test.fr"), tmp_path)
    checkpoint = f"{trained / 'checkpoint_last.pt'} --memory-k 0 --cpu"
    with pytest.raises(SystemExit) as stop:
        run(folder, "--system", "NMT", checkpoint, "--json", tmp_path / "r.json")
    message = str(stop.value)
    assert message.startswith("NMT could not be translated: ") and "dictionar" in message and "\n" not in message
    assert not list((tmp_path / "r.outputs").glob("*.gen*"))
