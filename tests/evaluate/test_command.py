"""seg-evaluate's command line: figures that are known beforehand, bad input, and what it imports."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from fairseq_seg.cli import evaluate
from fairseq_seg.evaluate.split import Split
from tests.corpus import Corpus
from tests.evaluate.running import run, write


def test_table_of_known_systems(attached: Path, corpus: Corpus, guesses: list[str], tmp_path: Path, capsys):
    targets = [pair.target for pair in corpus.test]
    nmt, seg = write(tmp_path / "nmt.txt", guesses), write(tmp_path / "seg.txt", targets)
    run(attached, "--system", "NMT", nmt, "--system", "SEG K=1", seg, "--json", tmp_path / "report.json")
    text, report = capsys.readouterr().out, json.loads((tmp_path / "report.json").read_text())
    memory, plain, guided = report["systems"]
    assert [memory["name"], plain["name"], guided["name"]] == ["TM", "NMT", "SEG K=1"]
    assert guided["bleu"] == guided["moses_bleu"] == [pytest.approx(100)] and guided["chrf"] == [pytest.approx(100)]
    assert plain["bleu"] == [pytest.approx(sacrebleu.corpus_bleu(guesses, [targets]).score)]
    assert plain["chrf"] == [pytest.approx(sacrebleu.corpus_chrf(guesses, [targets]).score)]
    assert guided["p_value"] < 0.01 and plain["p_value"] is None
    assert report["baseline"] == "NMT" and report["sentences"] == guided["sentences"] == len(targets)
    assert sum(bin["sentences"] for bin in report["bins"]) == len(targets)
    assert memory["pairs"] == 1 and guided["pairs"] is None
    gain = 100 - plain["bleu"][0]
    assert re.search(rf"SEG K=1 +100\.0 +0\.0 +\+{gain:.1f} +≤ 0\.001 ", text)
    assert f"all {len(targets)} sentences of every system checked against test.fr" in text
    assert "tok:13a" in text and "tok:none" in text and "retrieval: engine:lucene" in text


def test_empty_bins_are_said(attached: Path, split: Split, capsys):
    run(attached)
    text = capsys.readouterr().out
    empty = text.split("Bins without sentences: ")[1].split(".\n")[0]
    assert {"no pair", "0.0–0.1"} <= set(empty.split(", "))
    counted = re.findall(r"^(\d\.\d–\d\.\d|1\.0) +(\d+) ", text, re.MULTILINE)
    assert sum(int(count) for _, count in counted) == len(split)
    assert not {name for name, _ in counted} & set(empty.split(", "))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "NMT"], "--system NMT names no file"),
        (["--system", "NMT", "a", "--system", "NMT", "b"], "Two systems are called NMT"),
        (["--system", "TM", "a"], "Two systems are called TM"),
        (["--baseline", "NMT"], "--baseline NMT is not one of the systems: choose from TM."),
        (["--system", "NMT", "none.pt --memory-k 0"], "The checkpoint none.pt cannot be read: No such file"),
        (["--sweep", "two=a.gen"], "--sweep two=a.gen is neither K=OUTPUT"),
        (["--split", "test2"], "has no split 'test2'"),
        (["--html", "no/where.html"], "where.html cannot be written: create its folder first"),
        (["--log", "NMT", evaluate.__file__], "no figures of a training run"),
        (["--examples", "a.jsonl"], "--examples compares a system with the baseline"),
    ],
)
def test_bad_command_lines(attached: Path, arguments: list[str], message: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        run(attached, *arguments)
    assert message in str(stop.value) and "\n" not in str(stop.value)


def test_data_without_memory_is_refused(data_bin: Path, tmp_path: Path):
    folder = shutil.copytree(data_bin, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*.memory"))
    with pytest.raises(SystemExit, match="test.en-fr.memory does not exist: run seg-attach"):
        evaluate.main([str(folder)])


def test_nothing_heavy_is_imported_before_it_is_needed():
    names = ["cli.evaluate", "evaluate.examples", "evaluate.figures", "evaluate.html", "evaluate.report"]
    code = "import sys; " + "; ".join(f"import fairseq_seg.{name}" for name in names)
    code += "; print({'torch', 'fairseq', 'matplotlib', 'sacrebleu', 'sacremoses', 'pyserini'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
