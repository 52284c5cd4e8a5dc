"""A concordance finds the pairs with the words, whatever has changed since, with an index or without."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_seg.cli.memory import main
from fairseq_seg.errors import SegError
from fairseq_seg.store import concordance
from fairseq_seg.store.concordance import find_words, parse_query, scan
from fairseq_seg.store.pair import TranslationUnit
from fairseq_seg.store.store import TranslationMemory
from tests.memories import create_memory

TEXTS = [
    ("The Council of Ministers", "Le Conseil des ministres"),
    ("The ministers' council", "Le conseil ministériel"),
    ("An <g1>un</g1>believable day", "Un jour incroyable"),
    ("L’été", "the summer_time"),
    ("閣僚理事会の規則", "regulation"),
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        memory.add_many(TranslationUnit(*texts) for texts in TEXTS)
        yield memory


def ids(memory: TranslationMemory, query: str, side: str = "both") -> list[int]:
    found = sorted(pair.id for pair in find_words(memory, query, side))
    assert found == [pair.id for pair in scan(memory, query, parse_query(query), side, 100)]
    return found


@pytest.mark.parametrize(
    ("query", "side", "expected"),
    [
        ("council", "both", [1, 2]),
        ("COUNCIL of", "both", [1]),
        ('"council of ministers"', "both", [1]),
        ('"ministers of council"', "both", []),
        ("council conseil", "both", []),  # all words on one side
        ("minist*", "target", [1, 2]),
        ("minist", "both", []),
        ('"council of min"*', "source", [1]),
        ("the", "target", [4]),
        ("the", "both", [1, 2, 4]),
        ("ete", "both", [4]),
        ("ÉTÉ", "both", [4]),
        ("unbelievable", "both", [3]),  # a code within a word
        ("summer", "both", [4]),
        ("理事会", "both", [5]),
        ('council" OR "un', "both", []),  # nothing of SQLite's own language
        ("source: NEAR(council", "both", []),
    ],
)
def test_queries(memory: TranslationMemory, query: str, side: str, expected: list[int]):
    assert ids(memory, query, side) == expected


def test_the_index_follows_the_memory(memory: TranslationMemory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(concordance, "BATCH", 3)
    assert ids(memory, "council") == [1, 2]
    rng = random.Random(1)
    words = ["council", "day", "state", "member"]
    for _ in range(60):
        action = rng.choice(["add", "add", "update", "delete"])
        present = [pair.id for pair in memory.pairs()]
        text = " ".join(rng.choices(words, k=3))
        if action == "add":
            memory.add_many(TranslationUnit(text, f"x {rng.random()} {number}") for number in range(rng.randint(1, 5)))
        elif action == "update":
            memory.update(rng.choice(present), source=text, target=f"{rng.random()}")
        elif len(present) > 3:
            memory.delete(rng.choice(present))
        if rng.random() < 0.3:
            for query in ("council", "day state", '"member council"'):
                ids(memory, query)
    (memory.path / "concordance.sqlite").unlink()
    assert len(ids(memory, "council")) > 5


def test_an_older_copy_of_the_memory_has_an_index_of_its_own(memory: TranslationMemory):
    memory.add("new council", "x")
    assert ids(memory, "new") == [6]
    memory.database.execute("DELETE FROM entries WHERE id = 6")
    memory.database.execute("UPDATE state SET revision = 1")
    assert ids(memory, "council") == [1, 2] and ids(memory, "new") == []
    memory.add("new day", "y")
    assert ids(memory, "new") == [7]


def test_bad_index_and_bad_query(memory: TranslationMemory):
    with pytest.raises(SegError, match=r"'\?!' has no word: give words to look for"):
        find_words(memory, "?!")
    (memory.path / "concordance.sqlite").write_bytes(b"no database " * 1000)
    with pytest.raises(SegError, match="delete it, it will be made again"):
        find_words(memory, "council")


def test_command(memory: TranslationMemory, capsys: pytest.CaptureFixture):
    main(["concordance", str(memory.path), "ministers", "council"])
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"{id}\t{source}\t{target}\t" for id, (source, target) in enumerate(TEXTS[:2], start=1)
    ]
    main(["concordance", str(memory.path), "council", "-n", "1"])
    assert len(capsys.readouterr().out.splitlines()) == 1
