"""Wrong copies of systems, by the attention of a trained model."""

import json
from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.copies import MODEL, check_judge
from fairseq_seg.evaluate.split import Split
from tests.evaluate.running import run, write


def test_a_judge_counts_copies_once(attached: Path, trained: Path, split: Split, tmp_path: Path, capsys):
    seg = write(tmp_path / "seg", split.references)
    judge = f"{trained / 'checkpoint_last.pt'} --memory-k 2 --cpu"
    run(attached, "--system", "SEG", seg, "--judge", judge, "--json", tmp_path / "r.json")
    assert "wrong copies  copied mass" in capsys.readouterr().out
    tm, system = json.loads((tmp_path / "r.json").read_text())["quality"]
    assert system["wrong_copies"] == 0  # no word of the reference is one
    assert 0 < system["copied_mass"] < 1 and 0 < tm["copied_mass"] < 1 and tm["wrong_copies"] >= 0
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "r.outputs").glob("*.copies.jsonl")}
    assert len(kept) == 2
    run(attached, "--system", "SEG", seg, "--judge", judge, "--json", tmp_path / "r.json")
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "r.outputs").glob("*.copies.jsonl")}


def test_the_judge_needs_a_subword_model_for_subwords(split: Split, tmp_path: Path):
    checkpoint = write(tmp_path / "seg.pt", [])
    cut = Split(**vars(split) | {"subword": "sentencepiece"})
    assert check_judge(f"{checkpoint} {MODEL}=a.model", cut)[1] == [f"{MODEL}=a.model"]
    with pytest.raises(SegError, match="add --target-sentencepiece-model FILE"):
        check_judge(str(checkpoint), cut)
