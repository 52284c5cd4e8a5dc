"""seg-stats on a generated corpus with known repetition."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.evaluate.best_pair import score_bins
from fairseq_seg.evaluate.split_stats import MEASURED, SplitStats, covered, expected_gain, verdict
from preprocess import attach, stats
from tests.corpus import SOURCE, TARGET


@pytest.fixture(scope="module")
def attached(data_bin, tmp_path_factory):
    ignored = shutil.ignore_patterns("*.memory", "index.*")
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
    assert report.count("  verdict: a memory ") == 2
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


def stats_of(counts: list[int]) -> SplitStats:
    """Return the statistics of a split with so many sentences without a pair and in each bin, 1.0 last."""
    bins = np.repeat(np.arange(-1, len(counts) - 1), counts)
    return SplitStats("test", bins, 0.0, 0.0, {}, 0, 0, 0, 0, {}, None, [])


@pytest.mark.parametrize(
    ("example", "corpus", "gain"),
    [("any_corpus", "EU law", 15.9), ("libreoffice_help", "LibreOffice's help", 3.9)],
)
def test_the_verdict_is_based_on_the_published_tables(example, corpus, gain):
    """The gains are those of the example's first table by score, and add up to about its gain over all sentences."""
    page = Path(__file__).parent.parent.joinpath("examples", example, "README.md").read_text(encoding="utf-8")
    table = page.split("BLEU by the fuzzy score of the best pair:\n")[1].split("```")[0].splitlines()
    names = re.split(r"  +", table[0])
    rows = [line.split() for line in table[1:]]
    gains = [float(row[names.index("SEG state adaptive")]) - float(row[names.index("NMT")]) for row in rows]
    assert MEASURED[corpus][1:] == pytest.approx(gains[1:10], abs=0.01)
    sentences = [int(row[1]) for row in rows]
    estimate = expected_gain(stats_of([0, *sentences, 0]))[corpus == "EU law"]
    assert estimate == pytest.approx(gain, abs=1)


@pytest.mark.parametrize(
    ("counts", "answer"),
    [
        ([0] * 9 + [10, 10, 10], "is likely to help, by roughly 11 to 28 BLEU"),
        ([0, 0, 0, 0, 10, 10, 0, 0, 0, 0, 0, 0], "may help a little, by roughly 2 to 6 BLEU"),
        ([10, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0], "will hardly help, by roughly 0 to 0 BLEU"),
    ],
)
def test_the_verdict_follows_the_scores(counts, answer):
    assert f"verdict: a memory {answer} over a plain translator.\n" in verdict(stats_of(counts))
    assert "EU law and LibreOffice's help" in verdict(stats_of(counts))
