"""Terms at translation time: short pairs beside K, and constraints."""

import json

import numpy as np
import pytest

from fairseq_seg import Translator
from fairseq_seg.cli import explain
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.terms import Term, Terms, is_respected
from fairseq_seg.errors import SegError
from fairseq_seg.source.pair_source import Attached, Wanted, open_for_split
from fairseq_seg.source.terms import TermCutter
from tests.evaluate.running import write
from tests.guessing import LINES
from tests.stock import PLUGIN, hypotheses, run_stock, run_stock_until_it_stops

LINES_OF_TERMS = ["# terms", "file\tfichier", "Open\touvrir\tmaintenant", "the file\tle fichier", "now\tneu"]


@pytest.fixture(scope="module")
def terms(tmp_path_factory):
    return write(tmp_path_factory.mktemp("terms") / "terms.tsv", LINES_OF_TERMS)


def test_terms_stand_behind_the_pairs_of_a_split(guessing, terms):
    data = DataBin(guessing[0], "en", "fr")
    selection = Selection(1, "topk", 0.9)  # which terms need not reach
    plain = Attached(data, "test", selection)
    source = open_for_split(data, "test", Wanted(selection, terms=str(terms)), may_search=True)
    sentences, _ = data.sides("test")
    found, before = source.retrieve(sentences), plain.retrieve(sentences)
    assert "terms:4" in source.signature
    origins = []
    for row, ((ids, scores, _), (own, _, _)) in enumerate(zip(found, before, strict=True)):
        table = found.table
        for new, old in zip(ids, own, strict=False):
            np.testing.assert_array_equal(table.target[new], before.table.target[old])
            assert table.origin(new) == before.table.origin(old) and table.text(new) == before.table.text(old)
        assert len(own) == 1 and (scores[1:] == 1).all()
        origins.append([(table.origin(pair), *table.text(pair)) for pair in ids[1:]])
        assert sentences[row] is not None
    # The longest term alone, and none whose target the dictionary lacks (neu).
    assert origins == [[("terms:3", "Open", "ouvrir")], [], [("terms:4", "the file", "le fichier")], []]


def test_generate_interactive_translator_and_explain_use_them(guessing, terms, tmp_path, capsys):
    data, options = guessing
    strict = [*options, "--terms", str(terms), "--terms-strict"]
    known = Terms.read(terms)
    output = hypotheses(run_stock("generate", data, *PLUGIN, *strict))
    typed = hypotheses(run_stock("interactive", data, *PLUGIN, *strict, stdin=f"{LINES[2][0]}\n"))
    assert "le fichier" in output[2][0] and "le fichier" in typed[0][0]
    assert all(is_respected(term, output[2][0]) for term in known.find(LINES[2][0]))
    with Translator(data, checkpoint=options[1], arguments=strict[2:]) as translator:
        [saved, opened] = translator.translate([LINES[2][0], "OPEN %s now"])
    assert [pair.origin for pair in saved.pairs][1:] == ["terms:4"] and "le fichier" in saved.text
    assert not saved.flags and opened.flags  # "now" is a term whose target cannot be written
    sentences = write(tmp_path / "in", [LINES[2][0]])
    explain.main([str(data), *strict, "--input", str(sentences), "--json"])
    explained = json.loads(capsys.readouterr().out)
    assert explained["pairs"][-1]["origin"] == "terms:4" and "le fichier" in explained["translation"]


def test_without_strict_they_are_offered_only(guessing, terms):
    data, options = guessing
    with Translator(data, checkpoint=options[1], arguments=options[2:], terms=str(terms)) as translator:
        [saved] = translator.translate([LINES[2][0]])
    assert [pair.origin for pair in saved.pairs][1:] == ["terms:4"] and not saved.flags


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--terms", "none.tsv"], "none.tsv"),
        (["--terms-strict"], "--terms-strict and --terms-subwords need --terms FILE"),
        (["--memory-k", 0, "--terms", "TERMS"], "use --memory-k 1 or more"),
        (["--terms", "TERMS", "--terms-subwords", "TERMS"], "is not a sentencepiece model"),
    ],
)
def test_bad_options(guessing, terms, options, message):
    data, given = guessing
    options = [terms if option == "TERMS" else option for option in options]
    assert message in run_stock_until_it_stops("generate", data, *PLUGIN, *given, *options)


def test_subwords_need_their_models(bpe_data_bin, terms):
    with pytest.raises(SegError, match="--terms needs the subword models"):
        TermCutter(DataBin(bpe_data_bin, "en", "fr"), "")
    cutter = TermCutter(DataBin(bpe_data_bin, "en", "fr"), str(bpe_data_bin.with_name("joint.model")))
    match = cutter.match(Term("Name1", "Secret1", (), 7))
    assert match is not None and len(match.source) > 1 and match.origin == "terms:7"


def test_training_refuses_terms(guessing, terms):
    with pytest.raises(SegError, match="--terms is for translation"):
        open_for_split(DataBin(guessing[0], "en", "fr"), "train", Wanted(terms=str(terms)), may_search=False)
