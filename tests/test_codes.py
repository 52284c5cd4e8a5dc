"""Inline codes become tokens that source and target share, and come back as they were."""

import random
from html import escape

import pytest

from fairseq_seg.corpus.codes import Code, are_balanced, number_codes, restore_codes, tokens_of, without_codes


def opened(key: str, original: str = "<b>") -> Code:
    return Code("open", key, original)


def closed(key: str, original: str = "</b>") -> Code:
    return Code("close", key, original)


def alone(key: str, original: str = "<br/>") -> Code:
    return Code("alone", key, original)


def test_the_same_code_has_the_same_number_in_source_and_target():
    source, target = number_codes(
        [alone("a"), "Press ", opened("1"), "F1", closed("1"), alone("b"), alone("a", "<hr/>")],
        ["Appuyez ", alone("a"), alone("c"), alone("b"), opened("1", "<strong>"), "F1", closed("1", "</strong>")],
    )
    assert source.text == "<x1/>Press <g2>F1</g2><x3/><x4/>" and target.text == "Appuyez <x1/><x5/><x3/><g2>F1</g2>"
    assert source.codes == {"<x1/>": "<br/>", "<g2>": "<b>", "</g2>": "</b>", "<x3/>": "<br/>", "<x4/>": "<hr/>"}
    assert target.codes["<g2>"] == "<strong>"


def test_half_a_pair_stands_alone():
    [text] = number_codes([closed("1"), "a", opened("1"), "b", opened("1"), "c", closed("1"), opened("2")])
    assert text.text == "<x1/>a<g2>b<x3/>c</g2><x4/>" and len(text.codes) == 5


def test_pairs_with_the_same_key_nest():
    [text] = number_codes([opened("b"), "a", opened("b"), "b", closed("b"), closed("b"), opened("b"), closed("b")])
    assert text.text == "<g1>a<g2>b</g2></g1><g3></g3>" and are_balanced(tokens_of(text.text))


def test_a_text_that_looks_like_a_token_stays_text():
    coded, other = number_codes(["a <x1/> is ", alone("a"), " & <x2>"], ["<g2> ", alone("a"), opened("g"), closed("g")])
    assert coded.text == "a <x1/> is <x3/> & <x2>" and other.text == "<g2> <x3/><g4></g4>"
    assert restore_codes(*coded, escape) == "a &lt;x1/&gt; is <br/> &amp; &lt;x2&gt;"
    assert number_codes(["<x1/>"]) == [("<x1/>", {})]


def test_what_is_numbered_is_restored():
    rng = random.Random(1)
    for _ in range(300):
        sides = []
        for _ in range(2):
            pieces = ["a", " ", "<", "<x1/>", "</g2>", *(kind(key, f"[{key}]") for kind in KINDS for key in "12")]
            sides.append(rng.choices(pieces, k=rng.randint(0, 8)))
        for side, coded in zip(sides, number_codes(*sides), strict=True):
            wanted = "".join(piece if isinstance(piece, str) else piece.original for piece in side)
            assert restore_codes(*coded) == wanted


KINDS = (opened, closed, alone)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("This is<x1/>a para", "This is a para"),
        ("un<g1>believ</g1>able", "unbelievable"),
        ("a <x1/> b", "a  b"),
        ("end<x1/>.", "end."),
        ("<x1/>a<x0/> <x/> <g>", "a<x0/> <x/> <g>"),
        ("a < b", "a < b"),
    ],
)
def test_without_codes_words_are_not_glued(text: str, plain: str):
    assert without_codes(text) == plain


def test_balance():
    for text in ("", "<x1/>", "<g1><g2></g2></g1><g3></g3>"):
        assert are_balanced(tokens_of(text))
    for text in ("<g1>", "</g1>", "<g1><g2></g1></g2>", "<g1></g2>"):
        assert not are_balanced(tokens_of(text))
