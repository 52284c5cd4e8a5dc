"""The engine in numpy: what it finds is what the formula written out ranks first, whatever is left out to be quick."""

import random
from collections import Counter

import numpy as np
import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.retrieval import grams

IDENTITY = {"memory": "0123"}
K1, B = 2.0, 0.75


def make_index(folder, texts):
    grams.build_index(folder / "index", texts, IDENTITY)
    return grams.Index(folder / "index", IDENTITY, K1, B)


def make_texts(count, seed):
    """Texts of few symbols, so that their few hundred grams all have a list of their own."""
    rng = random.Random(seed)
    return [" ".join(f"w{int(12 * rng.random() ** 2)}" for _ in range(rng.randint(0, 15))) for _ in range(count)]


def literal_grams(text):
    """Count symbols and pairs of neighbours; an occurrence counts as a gram of its own."""
    symbols = text.split()
    found = Counter([*symbols, *zip(symbols, symbols[1:], strict=False)])
    return {(gram, number) for gram, count in found.items() for number in range(count)}


def literal_ranking(query, texts):
    """Rank the texts of a plausible length by the formula; the score counts units of 1/256, as in the index."""
    sets = [literal_grams(text) for text in texts]
    lengths = [len(text.split()) for text in texts]
    average = np.mean([length for length in lengths if length])
    frequency = Counter(gram for text in sets for gram in text)
    filled, size = sum(length > 0 for length in lengths), len(query.split())
    scores = {}
    for number, (held, length) in enumerate(zip(sets, lengths, strict=True)):
        shared = held & literal_grams(query)
        if shared and size <= 2 * length and length <= 2 * size:
            idf = sum(round(256 * np.log((filled + 1) / (frequency[gram] + 0.5))) for gram in shared)
            scores[number] = int(idf / (1 + K1 * (1 - B + B * length / average)))
    return sorted(scores, key=lambda number: (-scores[number], lengths[number], number)), scores


def test_hits_and_scores_are_those_of_the_formula(tmp_path, monkeypatch):
    monkeypatch.setattr(grams, "BLOCK", 70)  # the index is made in several blocks
    texts = make_texts(400, seed=1)
    index = make_index(tmp_path, texts)
    queries = [*make_texts(60, seed=2), *texts[:20]]
    for query, searches in zip(queries, index.hits(queries, 25), strict=True):
        expected, scores = literal_ranking(query, texts)
        hits = searches[0]
        assert hits.numbers.tolist() == expected[:25]
        # A sum can end a hair below a whole number.
        np.testing.assert_allclose(hits.scores, [scores[number] for number in expected[:25]], atol=1)
        assert hits.lengths.tolist() == [len(texts[number].split()) for number in expected[:25]]


def test_every_occurrence_has_its_gram():
    lists, rows, lengths = grams.grams(["a b a b", "", "b a"])
    first, second = ({*lists[rows == row].tolist()} for row in (0, 2))
    # Of "a b a b": a, b, ab, ba, the second a, the second b, the second ab. Of "b a": a, b, ba.
    assert len(first) == 7 and second < first and len(second) == 3
    assert lengths.tolist() == [4, 0, 2]


def test_rare_grams_are_searched_first_and_all_where_these_are_not_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(grams, "POSTINGS", 4)
    monkeypatch.setattr(grams, "FEWEST_GRAMS", 2)
    index = make_index(tmp_path, [*("the a" for _ in range(50)), "the r", "the r q"])
    quick, *wider = index.hits(["the r q"], 2)[0]
    assert quick.numbers.tolist() == [51, 50] and not wider
    found = index.search_all(["the r q"], 30)[0].tolist()
    assert found[:2] == [51, 50] and len(set(found)) == 30


def test_texts_of_a_plausible_length_come_first(tmp_path):
    query = [f"q{n}" for n in range(40)]
    texts = [" ".join(text) for text in (query[:10], query[:10], query[:10] + ["x"] * 200, query[:10] + ["x"] * 30)]
    index = make_index(tmp_path, texts)
    assert index.search_all([" ".join(query)], 1)[0].tolist() == [3]
    assert index.search_all([" ".join(query)], 9)[0].tolist()[:3] == [3, 0, 1]


def test_many_texts_at_once_find_what_each_finds_alone(tmp_path):
    texts = make_texts(300, seed=3)
    index = make_index(tmp_path, texts)
    queries = [*make_texts(40, seed=4), "", "nowhere", " ".join(f"w{n}" for n in range(5000))]
    together = index.search_all(queries, 40)
    for query, found in zip(queries, together, strict=True):
        assert index.search_all([query], 40)[0].tolist() == found.tolist()
    assert [len(found) for found in together[-3:]] == [0, 0, 40]


def test_other_or_damaged_files_are_refused(tmp_path):
    make_index(tmp_path, ["a b", "b"])
    with pytest.raises(SegError, match="not an index of this training set: run seg-attach"):
        grams.Index(tmp_path / "index", {"memory": "4567"}, K1, B)
    np.save(tmp_path / "index" / "postings.npy", np.zeros(2, dtype=np.int32))
    with pytest.raises(ValueError, match="postings.npy is not of these statistics"):  # `open_training_set` rebuilds it
        grams.Index(tmp_path / "index", IDENTITY, K1, B)


def test_an_index_of_nothing(tmp_path):
    assert make_index(tmp_path, []).search_all(["a b", ""], 9)[0].tolist() == []
