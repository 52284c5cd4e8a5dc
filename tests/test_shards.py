"""An index in shards finds what one index finds, with the same scores; and so does seg-attach --shards."""

import random
import shutil

import numpy as np
import pytest

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval import grams, lucene, shards
from fairseq_seg.retrieval.search import open_retriever
from fairseq_seg.retrieval.statistics import Statistics, band_of
from preprocess import attach
from tests.corpus import SOURCE, SPLITS, TARGET

IDENTITY = {"memory": "0123"}
SHARDS = 3
LUCENE = SearchSettings(engine="lucene")
COUNT = 20


def make_texts(count: int = 900, seed: int = 1) -> list[str]:
    """Texts of which every third is long and of other words, so that no two shards have alike statistics."""
    rng = random.Random(seed)
    texts = []
    for number in range(count):
        words, length = [(60, (1, 8)), (15, (4, 12)), (200, (10, 38))][number % SHARDS]
        # Squared: a few words are in most of the texts, as in a language.
        texts.append(" ".join(f"w{int(words * rng.random() ** 2)}" for _ in range(rng.randint(*length))))
    return ["", *texts[1:]]  # a text without symbols, too


@pytest.fixture(scope="module")
def texts():
    return make_texts()


@pytest.fixture(
    scope="module",
    params=[("lucene", 2.0, 1.0), ("lucene", 1.2, 0.75), ("grams", 2.0, 1.0), ("grams", 1.2, 0.75)],
    ids=lambda p: f"{p[0]},k1={p[1]},b={p[2]}",
)
def indexes(request, texts, tmp_path_factory):
    """One index of the texts, and the same in shards."""
    folder = tmp_path_factory.mktemp("indexes")
    engine, k1, b = request.param
    settings = SearchSettings(engine=engine, k1=k1, b=b)
    shards.ENGINES[engine].build_index(folder / "one", texts, IDENTITY)
    shards.build_shards(folder / "shards", lambda part: texts[part], IDENTITY, SHARDS, engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams, "POSTINGS", 150)  # fewer than most queries have
        yield (
            shards.open_engine(folder / "one", IDENTITY, settings),
            [shards.Shard(folder / "shards", IDENTITY, number, SHARDS, settings) for number in range(SHARDS)],
            shards.open_engine(folder / "shards", IDENTITY, settings),
        )


def test_every_text_has_the_score_that_it_has_in_one_index(indexes, texts):
    one, parts, _ = indexes
    queries = make_texts(60, seed=2)[1:]
    for searches in zip(one.hits(queries, 1000), *(shard.hits(queries, 1000) for shard in parts), strict=True):
        for whole, *apart in zip(*searches, strict=True):
            expected = dict(zip(whole.numbers.tolist(), whole.scores.tolist(), strict=True))
            found = {
                number: score
                for hits in apart
                for number, score in zip(hits.numbers.tolist(), hits.scores.tolist(), strict=True)
            }
            assert found == pytest.approx(expected, rel=1e-5)
            for hits in (whole, *apart):
                assert hits.lengths.tolist() == [len(texts[number].split()) for number in hits.numbers]


def test_candidates_of_all_shards_are_those_of_one_index(indexes):
    one, parts, together = indexes
    queries = make_texts(120, seed=3)
    expected = [numbers.tolist() for numbers in one.search_all(queries, COUNT)]
    assert [numbers.tolist() for numbers in together.search_all(queries, COUNT)] == expected
    # A shard does not know what the others find; what it gives is enough all the same.
    found = zip(*(shard.hits(queries, COUNT) for shard in parts), strict=True)
    assert [shards.join(apart, COUNT).tolist() for apart in found] == expected
    assert expected[0] == [] and max(map(len, expected)) == COUNT


def test_the_statistics_of_a_shard_alone_would_not_do(tmp_path, texts):
    """The shards are uneven enough for the tests above to fail."""
    for name, part in (("one", slice(None)), ("shard", slice(1, None, SHARDS))):
        lucene.build_index(tmp_path / name, texts[part], IDENTITY)
    one, shard = (lucene.LuceneIndex(tmp_path / name, IDENTITY, 2.0, 1.0) for name in ("one", "shard"))
    whole, hits = (index.hits([texts[4]], 1000)[0][0] for index in (one, shard))
    scores = dict(zip(whole.numbers.tolist(), whole.scores.tolist(), strict=True))
    expected = np.array([scores.get(number * SHARDS + 1, 0.0) for number in hits.numbers.tolist()])
    assert len(hits.scores) > 20 and (np.abs(hits.scores / expected - 1) > 0.1).mean() > 0.9


def test_scores_are_bm25_with_the_statistics_of_all_texts(indexes, texts):
    """The formula written out, on texts short enough for Lucene to keep their exact length."""
    one, parts, _ = indexes
    if isinstance(one, grams.Index):
        pytest.skip("tests/test_grams.py has the formula of grams")
    k1, b = parts[0]._index._k1, parts[0]._index._b
    split = [text.split() for text in texts]
    filled = [words for words in split if words]
    average = np.mean([len(words) for words in filled])
    query = ["w0", "w3", "w3", "w14"]
    everywhere = parts[1].hits([" ".join(query)], 1000)[0][-1]
    assert len(everywhere.numbers)
    for number, score in zip(everywhere.numbers.tolist(), everywhere.scores.tolist(), strict=True):
        literal = 0.0
        for word in query:
            texts_with = sum(word in words for words in filled)
            idf = np.log(1 + (len(filled) - texts_with + 0.5) / (texts_with + 0.5))
            tf = split[number].count(word)
            if tf:
                literal += idf * tf / (tf + k1 * (1 - b + b * len(split[number]) / average))
        assert score == pytest.approx(literal, rel=1e-5)


def test_statistics_of_parts_add_up(texts):
    lengths = np.array([len(text.split()) for text in texts])
    parts = [Statistics.of_texts(texts[n::7], lengths[n::7]) for n in range(7)]
    whole, total = Statistics.of_texts(texts, lengths), Statistics.total(parts)
    assert (whole.texts, list(whole.rows), whole.shares()) == (total.texts, list(total.rows), total.shares())
    for name in ("filled", "symbols", "found_in"):
        assert np.array_equal(getattr(whole, name), getattr(total, name))
    assert band_of([0, 8, 9, 12, 13, 10**9]).tolist() == [0, 0, 1, 1, 2, 15]


def test_an_index_in_another_number_of_shards_is_refused(tmp_path, texts):
    shards.build_shards(tmp_path / "four", lambda part: texts[part], IDENTITY, 4, "lucene")
    with pytest.raises(SegError, match="four has 4 shards, but the index of this run has 2: copy"):
        shards.Shard(tmp_path / "four", IDENTITY, 0, 2, LUCENE)


@pytest.mark.parametrize("engine", shards.ENGINES)
def test_more_shards_than_texts(tmp_path, engine):
    shards.build_shards(tmp_path / "shards", lambda part: ["a b", "a c"][part], IDENTITY, 5, engine)
    index = shards.open_engine(tmp_path / "shards", IDENTITY, SearchSettings(engine=engine))
    assert [numbers.tolist() for numbers in index.search_all(["a", "c", "d", ""], 9)] == [[0, 1], [1], [], []]


def test_a_stopped_build_keeps_its_finished_shards(tmp_path, texts, monkeypatch):
    built = []

    def build(folder, *arguments):
        if len(built) == 2:
            built.append("stopped")
            raise KeyboardInterrupt
        built.append(folder.name)
        make(folder, *arguments)

    make = lucene.build_index
    monkeypatch.setattr(lucene, "build_index", build)
    with pytest.raises(KeyboardInterrupt):
        shards.build_shards(tmp_path / "shards", lambda part: texts[part], IDENTITY, 3, "lucene")
    assert not (tmp_path / "shards").exists()
    shards.build_shards(tmp_path / "shards", lambda part: texts[part], IDENTITY, 3, "lucene")
    assert built == ["shard0", "shard1", "stopped", "shard2"]
    assert shards.shard_count(tmp_path / "shards", IDENTITY) == 3
    # Those of another number of shards are of no use.
    built[:] = ["other", "data"]
    with pytest.raises(KeyboardInterrupt):
        shards.build_shards(tmp_path / "shards", lambda part: texts[part], IDENTITY, 2, "lucene")
    shards.build_shards(tmp_path / "shards", lambda part: texts[part], IDENTITY, 4, "lucene")
    assert shards.shard_count(tmp_path / "shards", IDENTITY) == 4
    with pytest.raises(SegError, match="is not an index of this training set: run seg-attach"):
        shards.open_engine(tmp_path / "shards", {"memory": "other"}, LUCENE)


@pytest.fixture(scope="module")
def folders(data_bin, tmp_path_factory):
    """Return the same data-bin after seg-attach without and with shards."""
    found = []
    for name, options in (("one", ()), ("shards", ("--shards", "3"))):
        ignored = shutil.ignore_patterns("*.memory", "index.*")
        folder = shutil.copytree(data_bin, tmp_path_factory.mktemp(name) / "data-bin", ignore=ignored)
        attach.main([str(folder), *options])
        found.append(folder)
    return found


def test_seg_attach_writes_the_same_bytes(folders):
    one, several = folders
    for split in SPLITS:
        name = f"{split}.{SOURCE}-{TARGET}.memory"
        assert (several / name).read_bytes() == (one / name).read_bytes()
    assert len(list(several.glob("index.*/shard*"))) == 3
    assert not list(one.glob("index.*/shard*"))


def test_shards_serve_whoever_does_not_ask_for_a_number(folders):
    """Live retrieval and seg-attach without --shards take the index as it is; another number makes it anew."""
    _, several = folders
    index = next(several.glob("index.*"))
    before = (index / "identity.json").stat().st_mtime_ns
    queries = list(DataBin(several).pair("test")[0])[:20]
    searches = [open_retriever(DataBin(folder), SearchSettings()).search(queries) for folder in folders]
    for row, (found, expected) in enumerate(zip(*searches, strict=True)):
        assert all(map(np.array_equal, found, expected)), row
    assert (index / "identity.json").stat().st_mtime_ns == before
    attach.main([str(several), "--shards", "2", "--splits", "test"])
    assert len(list(index.glob("shard*"))) == 2
