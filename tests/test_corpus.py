"""The generated corpus has the properties that the other tests rely on."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from rapidfuzz.distance import Levenshtein

from tests.corpus import SOURCE, TARGET, Pair, binarize, make_corpus, vocabulary, write_text


def similarity(left: str, right: str) -> float:
    """Return the fuzzy score of Eq. 3 on words."""
    return Levenshtein.normalized_similarity(left.split(), right.split())


def nearest(pair: Pair, memory: list[Pair]) -> Pair:
    return max(memory, key=lambda other: similarity(pair.source, other.source))


def test_a_seed_fixes_the_corpus_and_seeds_differ():
    assert make_corpus(seed=3) == make_corpus(seed=3)
    third, fourth = ({pair.source for pair in make_corpus(seed=seed).train} for seed in (3, 4))
    assert third.isdisjoint(fourth)


def test_every_word_is_in_the_dictionary_and_dictionaries_have_no_duplicates():
    source_words, target_words = vocabulary()
    assert len(set(source_words)) == len(source_words) and len(set(target_words)) == len(target_words)
    assert 100 < len(source_words) < 500 and 100 < len(target_words) < 500
    for _, pairs in make_corpus().splits():
        assert {word for pair in pairs for word in pair.source.split()} <= set(source_words)
        assert {word for pair in pairs for word in pair.target.split()} <= set(target_words)


def test_pairs_of_a_group_differ_in_exactly_one_source_word():
    corpus = make_corpus()
    groups = defaultdict(list)
    for _, pairs in corpus.splits():
        for pair in pairs:
            groups[pair.group].append(pair)
    assert {len(pairs) for pairs in groups.values()} == {4}
    for pairs in groups.values():
        assert {pair.secret for pair in pairs} == {pairs[0].secret}
        for other in pairs[1:]:
            assert Levenshtein.distance(pairs[0].source.split(), other.source.split()) == 1


@pytest.mark.parametrize(("group_size", "least", "most"), [(1, 0.0, 0.6), (4, 0.85, 0.95)])
def test_group_size_controls_how_close_the_best_match_is(group_size: int, least: float, most: float):
    corpus = make_corpus(group_size=group_size)
    best = [similarity(pair.source, nearest(pair, corpus.train).source) for pair in corpus.test]
    assert least <= sum(best) / len(best) <= most


def test_only_a_retrieved_pair_tells_the_secret():
    corpus = make_corpus(groups=600, held_out=200)
    seen = defaultdict(Counter)
    for pair in corpus.train:
        for word in pair.source.split():
            seen[word][pair.secret] += 1
    guessed = retrieved = 0
    for pair in corpus.test:
        assert pair.secret in pair.target.split()
        name = next(word for word in pair.source.split() if word.startswith("Name"))
        guessed += seen[name].most_common(1)[0][0] == pair.secret
        retrieved += nearest(pair, corpus.train).secret == pair.secret
    assert guessed / len(corpus.test) < 0.15
    assert retrieved / len(corpus.test) > 0.95


def test_binarized_corpus_reads_back_as_written(tmp_path: Path):
    from fairseq.data import Dictionary, data_utils

    corpus = make_corpus(groups=6, held_out=2)
    write_text(corpus, tmp_path / "text")
    binarize(tmp_path / "text", tmp_path / "data-bin")
    for language, side in ((SOURCE, "source"), (TARGET, "target")):
        dictionary = Dictionary.load(str(tmp_path / "data-bin" / f"dict.{language}.txt"))
        for split, pairs in corpus.splits():
            prefix = tmp_path / "data-bin" / f"{split}.{SOURCE}-{TARGET}.{language}"
            dataset = data_utils.load_indexed_dataset(str(prefix))
            assert [dictionary.string(line) for line in dataset] == [getattr(pair, side) for pair in pairs]
