"""Units of search and scoring: the words that symbols spell, and what queries leave behind."""

import random

import numpy as np
import pytest

from fairseq_seg.corpus.selection import greedy_coverage
from fairseq_seg.corpus.sequences import ROW_BLOCK, Sequences
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.retrieval import unit as unit_module
from fairseq_seg.retrieval.fuzzy import as_characters, fuzzy_scores
from fairseq_seg.retrieval.unit import SymbolUnit, WordUnit, make_unit

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = Spelling([*SPECIAL, "▁a", "b", "▁c"])


def test_words_are_put_together():
    pieces = WordUnit(PIECES)
    assert pieces.text(np.array([4, 5, 5, 6, 3, 4])) == "4_5_5 6 4"
    one, two, three = (pieces.characters(np.array(row)) for row in ([4, 5, 6], [6, 4, 5], [4, 6]))
    assert (len(one), len(two), len(three)) == (2, 2, 2)
    assert one == two[::-1] and one[1] == three[1] and one[0] != three[0]
    continued = WordUnit(Spelling([*SPECIAL, "a@@", "b"]))
    assert continued.text(np.array([4, 4, 5, 5, 4])) == "4_4_5 5 4"
    assert WordUnit(Spelling([*SPECIAL, "a", "b"])).text(np.array([4, 5, 5])) == "4 5 5"
    assert pieces.text(np.array([], dtype=int)) == pieces.characters(np.array([], dtype=int)) == ""


def test_blocks_of_rows_give_what_each_row_gives():
    generator = np.random.default_rng(1)
    rows = [generator.integers(4, 9, generator.integers(0, 4)).tolist() for _ in range(2 * ROW_BLOCK + 3)]
    assert SymbolUnit().characters_of_all(Sequences.from_rows(rows)) == [as_characters(row) for row in rows]


def test_a_word_has_one_code_however_often_it_comes():
    unit = WordUnit(PIECES)
    word, other = np.array([4, 5]), np.array([6])
    first = unit.characters(word)
    assert all(unit.characters(word) == first for _ in range(100))
    assert {ord(unit.characters(word)), ord(unit.characters(other))} == {0, 1}


def test_queries_do_not_make_the_unit_grow():
    unit = WordUnit(PIECES)
    unit.characters_of_all(Sequences.from_rows([[4, 5, 6]]))
    known = dict(unit._codes)
    for length in range(1, 200):
        assert len(unit.query_characters(np.array([4] + [5] * length + [6]))) == 2
    assert unit._codes == known
    assert unit.query_characters(np.array([4, 5, 6])) == unit.characters(np.array([4, 5, 6]))


@pytest.mark.parametrize("seed", range(20))
def test_a_query_scores_and_covers_as_if_all_of_its_words_were_remembered(seed):
    rng = random.Random(seed)

    def sentence(words):
        return np.array([symbol for _ in range(rng.randint(0, 8)) for symbol in (4, *[5] * rng.randrange(words))])

    queries, sources = [sentence(9) for _ in range(5)], [sentence(5) for _ in range(10)]
    fresh, remembering = WordUnit(PIECES), WordUnit(PIECES)
    everything = [remembering.characters(symbols.astype(int)) for symbols in (*queries, *sources)]
    known = [fresh.characters(symbols.astype(int)) for symbols in sources]
    for query, expected in zip(queries, everything, strict=False):
        characters = fresh.query_characters(query.astype(int))
        assert fuzzy_scores(characters, known).tolist() == fuzzy_scores(expected, everything[5:]).tolist()
        assert greedy_coverage(characters, known).tolist() == greedy_coverage(expected, everything[5:]).tolist()


def test_more_words_than_codes_are_refused(monkeypatch):
    monkeypatch.setattr(unit_module, "NOWHERE", 2)
    unit = WordUnit(PIECES)
    unit.characters(np.array([4, 6]))
    with pytest.raises(OverflowError, match="more than 2 words cannot be told apart"):
        unit.characters(np.array([4, 5]))


def test_units_by_name():
    assert [make_unit(name, PIECES).name for name in ("symbol", "word")] == ["symbol", "word"]
