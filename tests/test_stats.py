"""seg-stats on a generated corpus with known repetition."""

import shutil

import numpy as np
import pytest

from fairseq_seg.evaluate.best_pair import score_bins
from fairseq_seg.evaluate.split_stats import covered
from preprocess import attach, stats
from tests.corpus import SOURCE, TARGET


@pytest.fixture(scope="module")
def attached(data_bin, tmp_path_factory):
    ignored = shutil.ignore_patterns("*.memory", "*.lucene")
    folder = shutil.copytree(data_bin, tmp_path_factory.mktemp("stats") / "data-bin", ignore=ignored)
    with pytest.raises(SystemExit, match="has no attached pairs: run seg-attach first"):
        stats.main([str(folder)])
    attach.main([str(folder)])
    return folder


def test_report_and_picture(attached, tmp_path, capsys, corpus):
    stats.main([str(attached), "-s", SOURCE, "-t", TARGET, "--png", str(tmp_path / "scores.png")])
    report = capsys.readouterr().out
    assert f"train: {len(corpus.train):,} sentences" in report
    assert f"test: {len(corpus.test):,} sentences" in report
    assert report.count("BLEU|nrefs:1") == 2  # valid and test, not train
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_leakage_is_counted(attached, tmp_path, capsys, corpus):
    """Test sentences that are training sentences: all are exact, and copying them is perfect."""
    folder = shutil.copytree(attached, tmp_path / "data-bin")
    for path in list(folder.glob(f"valid.{SOURCE}-{TARGET}.*.*")):
        shutil.copy(path, folder / path.name.replace("valid", "train"))
    attach.main([str(folder)])
    capsys.readouterr()
    stats.main([str(folder), "--copies", str(tmp_path / "tm")])
    copies = (tmp_path / "tm" / f"valid.{TARGET}").read_text(encoding="utf-8").splitlines()
    assert copies == [pair.target for pair in corpus.valid]
    valid = capsys.readouterr().out.split("valid:")[1].split("test:")[0]
    assert "exact matches in the memory: 40 pairs, 40 sources" in valid
    assert "covered by the memory: best pair 100.0%" in valid
    assert "      1.0  100.0%    100.0 ####" in valid
    assert "      all  100.0%    100.0 " in valid


def test_score_bins():
    scores = np.array([-1, 0, 0.1, 0.3, 0.69999, 0.7, 0.9, 0.9999, 1.0], dtype=np.float32)
    assert score_bins(scores).tolist() == [-1, 0, 1, 3, 6, 7, 9, 9, 10]


def test_coverage_counts_repeats():
    assert covered(np.array([4, 4, 5, 6]), [np.array([4]), np.array([9, 6])]) == 0.75
    assert covered(np.array([4]), []) == 0.0
