"""What users notice of a translation, on sentences whose figures are known."""

import json
from math import comb

import numpy as np
import pytest
from sacrebleu.metrics import TER

from fairseq_seg.corpus.terms import Terms
from fairseq_seg.evaluate.outputs import Output, System
from fairseq_seg.evaluate.quality import Share, measure_quality, sign_test
from fairseq_seg.evaluate.split import Split
from fairseq_seg.explain.copies import Copies
from tests.evaluate.running import Page, run, write

SOURCES = ["Page 1,234 of %s", "<b>Type</b> 5", "the second file", "Options", "5 links"]
REFERENCES = ["Page 1 234 de %s", "<b>Type</b> 5", "le 2e fichier", "Options", "cinq liens"]


def measure(split: Split, runs: list[list[str]], baseline: list[str], **more):
    split = Split(**vars(split) | {"sources": SOURCES, "references": REFERENCES})
    systems = [System("NMT", [Output(baseline)]), System("SEG", [Output(lines) for lines in runs])]
    return measure_quality(split, systems, "NMT", **more)


def test_shares_count_where_the_reference_has_the_tokens_of_the_source(split: Split):
    right = ["Page 1 234 sur %s", "<b>Type</b> 5", "le fichier 7", "", "7 liens"]
    wrong = ["Page 1,234 sur %s", "<b>Type 5", "le fichier", "Options", "liens"]
    nmt, seg = measure(split, [right, wrong], right)
    assert nmt.numbers == Share(100, 2) and nmt.markup == Share(100, 2)
    assert seg.numbers == Share(75, 2, 1.0) and seg.markup == Share(75, 2, 1.0)  # 1,234 is below two in French
    assert nmt.terms is None and nmt.wrong_copies is None


def test_edit_effort(split: Split):
    [_, perfect] = measure(split, [REFERENCES], REFERENCES)
    assert perfect.ter == perfect.edits == 0
    lines = [line.replace("e", "") for line in REFERENCES]
    [worse, _] = measure(split, [REFERENCES], lines)
    letters = sum(map(len, REFERENCES))
    assert worse.edits == pytest.approx(100 * (letters - sum(map(len, lines))) / letters)
    assert worse.ter == pytest.approx(TER().corpus_score(lines, [REFERENCES]).score)


def test_terms(split: Split, tmp_path):
    terms = Terms.read(write(tmp_path / "terms.tsv", ["page\tpage\tfeuille", "file\tfichier", "link\tlien"]))
    bad = ["Page, la feuille", "", "le dossier", "", ""]
    nmt, seg = measure(split, [REFERENCES], bad, terms=terms)
    assert nmt.terms == Share(0, 2) and seg.terms == Share(100, 2, 0.5)


def test_copies_are_per_hundred_words_and_the_mass_per_symbol(split: Split):
    run = [Copies(4, 2, 10, 3.0, [("message", "message")]), Copies(6, 0, 10, 1.0, [])]
    [nmt, seg] = measure(split, [REFERENCES, REFERENCES], REFERENCES, copies={"NMT": [run], "SEG": [run, run[1:]]})
    assert (nmt.wrong_copies, nmt.copied_mass) == (10, 0.2)
    assert (seg.wrong_copies, seg.copied_mass) == (pytest.approx(5), pytest.approx(0.15))


def test_the_sign_test_is_exact():
    ours, theirs = np.ones(20, dtype=bool), np.array([1] * 10 + [0] * 10, dtype=bool)
    assert sign_test(ours, theirs) == sign_test(theirs, ours) == 2 / 2**10
    assert sign_test(ours, ours) == 1
    mixed = np.array([0] * 2 + [1] * 18, dtype=bool)  # 2 worse, 10 better
    assert sign_test(mixed, theirs) == pytest.approx(2 * sum(comb(12, k) for k in range(3)) / 2**12)


def test_the_table_and_the_page(attached, split: Split, tmp_path, capsys):
    """The words of the generated corpus have digits, and all are in the reference."""
    reference = write(tmp_path / "seg", split.references)
    word, translation = split.sources[0].split()[0], split.references[0].split()[0]
    terms = write(tmp_path / "terms.tsv", ["# a comment", f"{word}\t{translation}"])
    written = ["--html", tmp_path / "r.html", "--json", tmp_path / "r.json"]
    run(attached, "--system", "SEG", reference, *written)
    text = capsys.readouterr().out
    assert "What users notice:\nsystem " in text and "TER  char. edits" in text and "terms" not in text
    run(attached, "--system", "SEG", reference, "--terms", terms, *written)
    assert "terms % of " in capsys.readouterr().out
    tm, seg = json.loads((tmp_path / "r.json").read_text())["quality"]
    assert seg["ter"] == seg["edits"] == 0 < tm["edits"] and seg["terms"]["percent"] > 0 and seg["markup"] is None
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "What users notice" in page.texts["h2"] and "char. edits" in page.texts["th"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--judge", "none.txt", "--judge none.txt is not a checkpoint"), ("--terms", "none.tsv", "none.tsv")],
)
def test_bad_options(attached, option, value, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message):
        run(attached, option, value)
