"""Conditions choose the pairs that they say, for listing, exporting and deleting."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_seg.cli.memory import main
from fairseq_seg.errors import SegError
from fairseq_seg.store.conditions import parse_condition
from fairseq_seg.store.pair import TranslationUnit
from fairseq_seg.store.store import TranslationMemory
from tests.memories import create_memory, pairs

UNITS = [
    TranslationUnit("Été 1", "the", "a[1].tmx", "u1", {"client": "ACME"}, "2026-01-31T10:00:00Z"),
    TranslationUnit("b", "SUMMER", "a2.tmx", "u2", {"client": "acme", "a b": "x"}, "2026-02-01T10:00:00Z"),
    TranslationUnit("été", "d", "b.po", "u3", {"origin": "O"}, "2026-02-01T11:00:00Z", "2026-03-01T00:00:00Z"),
    TranslationUnit("d", "e", "", "", {}, "2025-12-31T23:59:59Z"),
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        assert memory.add_many(UNITS).added == len(UNITS)
        yield memory


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        ([], [1, 2, 3, 4]),
        (["origin=*.tmx"], [1, 2]),
        (["origin=a[1].tmx"], [1]),
        (["origin=a?.tmx"], [2]),
        (["origin!=*.tmx"], [3, 4]),
        (["client=ACME"], [1]),
        (["client!=ACME"], [2, 3, 4]),
        (["a b=x"], [2]),
        (["attribute.origin=O"], [3]),
        (["source~ÉTÉ"], [1, 3]),
        (["text~summer"], [2]),
        (["text!=e"], [1, 2, 3]),
        (["created>=2026-02-01"], [2, 3]),
        (["created<=2026-01-31"], [1, 4]),
        (["created=2026-02"], [2, 3]),
        (["changed>2026-02-01"], [3]),
        (["created>2026-02-01T10:00:00Z"], [3]),
        (["id>=2", "id<4", "unit=u*"], [2, 3]),
        (["id!=3", "client>A"], [1, 2]),
    ],
)
def test_conditions_choose(memory: TranslationMemory, conditions: list[str], ids: list[int]):
    parsed = [parse_condition(condition) for condition in conditions]
    assert [pair.id for pair in memory.pairs(parsed)] == ids and memory.count(parsed) == len(ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("origin", "'origin' is not a condition: write NAME=PATTERN"),
        ("created>yesterday", "'created>yesterday' needs a date: write created>2026-01-31"),
        ("id=a", "'id=a' needs a number"),
        ('a"b=c', "has no quotes"),
    ],
)
def test_what_is_no_condition(text: str, message: str):
    with pytest.raises(SegError, match=message):
        parse_condition(text)


def test_commands(memory: TranslationMemory, tmp_path: Path, capsys: pytest.CaptureFixture):
    path = str(memory.path)
    main(["list", path, "--where", "client=ACME"])
    line = '1\tÉté 1\tthe\ta[1].tmx\tu1\t2026-01-31T10:00:00Z\t{"client": "ACME"}\n'
    assert capsys.readouterr().out == line
    main(["list", path, "-n", "2"])
    assert len(capsys.readouterr().out.splitlines()) == 2
    main(["export", path, str(tmp_path / "out.tsv"), "--where", "origin=*.tmx"])
    assert (tmp_path / "out.tsv").read_text() == "Été 1\tthe\nb\tSUMMER\n"
    assert capsys.readouterr().out.endswith("out.tsv: 2 pairs\n")
    main(["delete", path, "--where", "origin=*.tmx", "--dry-run"])
    assert capsys.readouterr().out == "2 pairs would be deleted\n" and len(memory) == 4
    revision = memory.revision
    main(["delete", path, "--where", "origin=*.tmx", "--where", "client=ACME"])
    assert capsys.readouterr().out == "1 pairs deleted\n"
    assert pairs(memory) == [unit[:2] for unit in UNITS[1:]] and memory.changes(revision) == (revision + 1, [], [1])
    for arguments in (["delete", path], ["delete", path, "2", "--where", "id=2"]):
        with pytest.raises(SystemExit, match="Give the ids of the pairs to delete, or --where"):
            main(arguments)
