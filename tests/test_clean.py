"""Cleaning finds the pairs that should go, and deletes nothing else."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_seg.cli.memory import main
from fairseq_seg.store.clean import CHECKS, Fault, delete_faults, find_faults
from fairseq_seg.store.pair import TranslationUnit
from fairseq_seg.store.store import TranslationMemory
from tests.memories import create_memory

GOOD = [
    ("Press <g1>F1</g1><x2/>.", "<x2/>Tapez <g1>F1</g1>."),
    ("a <br> b", "c <br> d"),
    ("42", "42"),
    ("...", "..."),
    ("<b>x</b>", "<b>y</b>"),
    ("<b>half", "<b>moitié"),
    ("a < b", "c < d"),
]
BAD = [
    ("duplicates", "a  <br> b", "c <br> d "),
    ("duplicates", "a <br>\u00a0b", "c <br> d"),
    ("empty", "Text", "..."),
    ("identical", "Untranslated text", "Untranslated  text"),
    ("tags", "<g1>a</g1>", "b"),
    ("tags", "<g1>a</g1>", "</g1>b<g1>"),
    ("tags", "a <x1/> <x2/>", "<x1/> b <x1/>"),
    ("tags", "<b>a</b>", "<b>c<b>"),
    ("tags", "see <i>this</i>", "voir <em>ceci</em>"),
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        yield memory


def fill(memory: TranslationMemory, texts: list[tuple[str, str]]) -> None:
    for source, target in texts:  # one by one, in order
        memory.add_many([TranslationUnit(source, target)])


def found(memory: TranslationMemory, *checks: str) -> list[tuple[str, str, str]]:
    return [(fault.check, fault.pair.source, fault.pair.target) for fault in find_faults(memory, checks or CHECKS)]


def test_each_check(memory: TranslationMemory):
    fill(memory, GOOD + [(source, target) for _, source, target in BAD])
    assert found(memory) == BAD
    for check in CHECKS:
        assert found(memory, check) == [fault for fault in BAD if fault[0] == check]


def test_languages_are_learned_from_the_memory(memory: TranslationMemory):
    rng = random.Random(1)
    english = "the house of council shall with which whereas regulation member states this that following".split()
    french = "le maison du conseil doit avec lequel considérant règlement états membres cette que suivante".split()

    def sentence(words: list[str]) -> str:
        return " ".join(rng.choices(words, k=8))

    pairs = [(sentence(english), sentence(french)) for _ in range(300)]
    swapped = [(sentence(french), sentence(english)), (sentence(english), sentence(english))]
    other_script = [(sentence(english), "где находится этот дом сегодня утром")]
    short = [("le maison", "the house")]
    fill(memory, pairs[:100])
    assert found(memory, "language") == []  # too few to learn from
    memory.add_many(TranslationUnit(*pair) for pair in pairs[100:])
    fill(memory, swapped + other_script + short)
    assert [fault[1:] for fault in found(memory, "language")] == swapped + other_script


def test_what_has_changed_meanwhile_stays(memory: TranslationMemory):
    fill(memory, [("same", "same"), ("equal", "equal")])
    faults = list(find_faults(memory))
    memory.update(1, target="mended")
    assert delete_faults(memory, faults) == 1
    assert [pair.id for pair in memory.pairs()] == [1] and delete_faults(memory, []) == 0


def test_nothing_is_deleted_unless_asked(memory: TranslationMemory, capsys: pytest.CaptureFixture):
    fill(memory, [*GOOD, ("same text", "same text"), ("<b>a</b>", "b")])
    assert all(isinstance(fault, Fault) for fault in find_faults(memory))
    path = str(memory.path)
    main(["clean", path])
    printed = capsys.readouterr()
    assert printed.out == "identical\t8\tsame text\tsame text\t\ntags\t9\t<b>a</b>\tb\t\n"
    assert "identical 1, tags 1: nothing is deleted, run again with --delete to delete them" in printed.err
    assert len(memory) == 9
    main(["clean", path, "--check", "tags", "--delete"])
    assert "tags 1: 1 of 1 pairs deleted" in capsys.readouterr().err and len(memory) == 8
    main(["clean", path, "--check", "tags,empty"])
    assert "no faults: nothing is deleted\n" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="'spelling' is not a check: choose from duplicates, empty"):
        main(["clean", path, "--check", "spelling"])
