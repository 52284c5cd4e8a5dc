"""Subwords: symbols become words and text again, and text becomes symbols."""

from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.corpus.subwords import Spelling, SymbolEncoder, detect_subword, has_subwords, join_subwords
from fairseq_seg.errors import SegError

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SENTENCES = [
    (["▁the", "▁reg", "ulation", "."], "sentencepiece", "the regulation."),
    (["the", "reg@@", "ulation", "@@"], "@@", "the regulation"),
    (["the", "regulation", "."], "none", "the regulation ."),
]


@pytest.mark.parametrize(("pieces", "kind", "text"), SENTENCES)
def test_subwords_are_undone(pieces: list[str], kind: str, text: str):
    assert detect_subword(pieces) == kind
    assert join_subwords(" ".join(pieces), kind) == text
    spelling = Spelling([*SPECIAL, *pieces])
    assert spelling.kind == kind and spelling.text([*range(4, 4 + len(pieces)), 2]) == text
    assert has_subwords([" ".join(pieces)], kind) == (kind != "none")


@pytest.mark.parametrize(
    ("kind", "pieces", "begins", "continued"),
    [
        ("sentencepiece", ["▁a", "b", "▁"], [1, 0, 1], [1, 1, 1]),
        ("@@", ["a@@", "b", "@@"], [1, 1, 1], [1, 0, 1]),
        ("none", ["a", "b"], [1, 1], [0, 0]),
    ],
)
def test_boundaries(kind: str, pieces: list[str], begins: list[int], continued: list[int]):
    """The next symbol of sentencepiece decides; in words of @@, the one before does."""
    found = Spelling([*SPECIAL, *pieces], kind).boundaries()
    assert found[0].tolist() == [True] * 4 + [bool(mark) for mark in begins]
    if kind == "sentencepiece":
        assert not found[1].any()
    else:
        assert found[1].tolist() == [False] * 4 + [bool(mark) for mark in continued]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pieces", [["▁a", "b", "▁c", "d"], ["a@@", "b", "c@@", "d"], ["a", "b", "c"]], ids=str)
def test_boundaries_cut_words_where_their_spelling_does(pieces: list[str], seed: int):
    spelling = Spelling([*SPECIAL, *pieces])
    begins, continued = spelling.boundaries()
    ids = np.random.default_rng(seed).integers(4, 4 + len(pieces), 30)
    starts = [0, *(i for i in range(1, 30) if begins[ids[i]] and not continued[ids[i - 1]])]
    assert [positions[0] for _, positions in spelling.words(spelling.read(ids))] == starts


def test_words_and_their_positions():
    spelling = Spelling([*SPECIAL, "▁a", "b", "▁"])
    assert spelling.words(["▁a", "b", "▁", "▁a"]) == [("ab", [0, 1]), ("a", [3])]
    assert Spelling([*SPECIAL, "a@@", "b"]).words(["a@@", "b", "b", "a@@"]) == [("ab", [0, 1]), ("b", [2]), ("a", [3])]


def test_symbols_of_a_text():
    encoder = SymbolEncoder([*SPECIAL, "a", "b"], None)
    assert encoder.encode("b  a\txyzzy </s>").tolist() == [5, 4, 3, 3]
    assert encoder.encode("").dtype == np.int32 and encoder.known_share() == 1.0


def test_what_is_not_a_model_is_refused(tmp_path: Path):
    from fairseq_seg.corpus.subwords import SubwordModel

    (tmp_path / "text").write_text("no model")
    for name in ("none", "text"):
        with pytest.raises(SegError, match=f"{name} is missing or is not a sentencepiece model"):
            SubwordModel(tmp_path / name)
