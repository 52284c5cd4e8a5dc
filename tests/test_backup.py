"""Backup, restore and merge keep everything, whoever writes meanwhile and whoever is killed."""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairseq_seg.cli.memory import main
from fairseq_seg.errors import SegError
from fairseq_seg.store.backup import back_up, merge, restore
from fairseq_seg.store.index import MemorySearch
from fairseq_seg.store.pair import Codes, TranslationUnit
from fairseq_seg.store.store import BATCH, TranslationMemory
from tests.memories import comparable, create_memory, pairs
from tests.test_store_safety import check_whole

MANY = 3 * BATCH + 7
COMMAND = "from fairseq_seg.cli.memory import main; import sys; main(sys.argv[1:])"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        codes = Codes("tmx", {"<x1/>": "<ph>1</ph>"}, {})
        unit = TranslationUnit("the <x1/>", "le", "o", "u", {"a": "1"}, "2020-01-31T10:00:00Z", codes=codes)
        memory.add_many([unit, *(TranslationUnit(f"the {number}", f"le {number}") for number in range(MANY))])
        yield memory


def contents(memory: TranslationMemory) -> list[tuple]:
    return [comparable(pair._replace(revision=0)) for pair in memory.pairs()]


def change(memory: TranslationMemory) -> None:
    memory.delete(1, 5, 6)
    memory.update(2, source="new", target="neuf")
    memory.add("added", "later")


def test_a_backup_is_a_memory_and_restore_brings_it_back(memory: TranslationMemory, tmp_path: Path):
    before = contents(memory)
    back_up(memory, tmp_path / "backup")
    with TranslationMemory(tmp_path / "backup") as backup:
        assert contents(backup) == before and backup.revision == memory.revision
        assert backup.encode("the", "le")[0].tolist() == memory.encode("the", "le")[0].tolist()
    change(memory)
    search = MemorySearch(memory.path)
    query = memory.encode("new", "")[0]
    assert search.search([query], 1)[0][0].pair.id == 2
    revision = memory.revision
    assert restore(memory.path, tmp_path / "backup") == {"restored": 4, "removed": 1}
    assert contents(memory) == before and memory.revision == revision + 1
    # Whoever follows the changes hears of them, and an id is not given again.
    changes = memory.changes(revision)
    assert [pair.id for pair in changes.pairs] == [1, 2, 5, 6] and changes.deleted == [MANY + 2]
    assert search.search([memory.pair(2).source_symbols], 1)[0][0].pair.source == memory.pair(2).source
    assert restore(memory.path, tmp_path / "backup") == {"restored": 0, "removed": 0}
    assert memory.revision == revision + 1 and memory.add("another", "one") == MANY + 3
    search.close()
    shutil.rmtree(memory.path)
    assert restore(memory.path, tmp_path / "backup") == {"restored": MANY + 1, "removed": 0}
    with TranslationMemory(memory.path) as again:
        assert contents(again) == before


def test_a_backup_shows_one_moment_while_others_write(memory: TranslationMemory, tmp_path: Path):
    code = (
        "import sys; from fairseq_seg.store.store import TranslationMemory, TranslationUnit\n"
        "with TranslationMemory(sys.argv[1]) as memory:\n"
        "    for number in range(10**9):\n"
        "        memory.add_many([TranslationUnit(f'w {number} {i}', 'x') for i in range(50)]); print(flush=True)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, memory.path], stdout=subprocess.PIPE)
    try:
        writer.stdout.readline()
        sizes = set()
        for number in range(4):
            back_up(memory, tmp_path / str(number))
            check_whole(tmp_path / str(number))
            with TranslationMemory(tmp_path / str(number), read_only=True) as backup:
                sizes.add(len(backup))
                assert (len(backup) - MANY - 1) % 50 == 0
        assert len(sizes) > 1 and writer.poll() is None
    finally:
        writer.kill()
        writer.wait()


def kill_during(arguments: list[object], seconds: float) -> bool:
    """Run a command, kill it after some seconds, and tell whether it was still at it."""
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, arguments)], stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


@pytest.mark.parametrize("action", ["restore", "clean", "merge", "backup"])
def test_a_kill_leaves_all_or_nothing(memory: TranslationMemory, tmp_path: Path, action: str):
    """Of a merge, whole batches."""
    back_up(memory, tmp_path / "backup")
    memory.delete_where([])
    memory.add_many(TranslationUnit(f"same {number}", f"same {number}") for number in range(MANY))
    old = contents(memory)
    with TranslationMemory(tmp_path / "backup", read_only=True) as backup:
        kept = contents(backup)
    arguments = {
        "restore": ["restore", memory.path, tmp_path / "backup"],
        "clean": ["clean", memory.path, "--delete", "--check", "identical"],
        "merge": ["merge", memory.path, tmp_path / "backup"],
        "backup": ["backup", memory.path, tmp_path / "other"],
    }[action]
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", COMMAND, "stats", memory.path], check=True, stdout=subprocess.DEVNULL)
    warm = time.monotonic() - start  # a process that does hardly anything
    rng, killed = random.Random(1), 0
    for _ in range(5):
        killed += kill_during(arguments, warm * rng.uniform(0.7, 1.6))
        check_whole(memory.path)
        now = contents(memory)
        if action == "restore":
            assert now in (old, kept)
        elif action == "clean":
            assert now in (old, [])
        elif action == "backup":
            assert now == old
            if (tmp_path / "other").exists():
                with TranslationMemory(tmp_path / "other", read_only=True) as other:
                    assert contents(other) == old
                shutil.rmtree(tmp_path / "other")
        else:
            assert now[:MANY] == old and (len(now[MANY:]) % BATCH == 0 or len(now) == 2 * MANY + 1)
    assert killed
    main([str(argument) for argument in arguments])  # what a kill leaves keeps nobody from doing it again
    assert len(contents(memory)) == {"restore": MANY + 1, "clean": 0, "merge": 2 * MANY + 1, "backup": MANY}[action]


def test_merge_keeps_what_the_other_memory_knows(memory: TranslationMemory, tmp_path: Path):
    (tmp_path / "b").mkdir()
    with create_memory(tmp_path / "b") as other:
        other.add("the 1", "le 1", origin="there already")
        other.add("the 2", "autre", attributes={"a": "b"})
        other.add_many([TranslationUnit("long " * 1500, "le")], max_symbols=2000)
        counts = merge(memory, other.path)
        assert (counts.added, counts.present) == (2, 1)
        assert [pair.attributes for pair in memory.pairs() if pair.target == "autre"] == [{"a": "b"}]
        assert merge(other, memory.path).added == MANY  # all but the pairs that both have
        first = next(pair for pair in other.pairs() if pair.codes.format)
        assert first._replace(id=1)[5:10] == memory.pair(1)[5:10] and first.codes == memory.pair(1).codes


def test_bad_input(memory: TranslationMemory, tmp_path: Path):
    words = tmp_path / "words"
    shutil.copyfile(words / "dict.en.txt", words / "dict.de.txt")
    TranslationMemory.create(tmp_path / "german", "de", "fr", words).close()
    with pytest.raises(SegError, match="is a memory for de-fr, and .* for en-fr"):
        merge(memory, tmp_path / "german")
    with pytest.raises(SegError, match="is the memory itself"):
        merge(memory, memory.path)
    with pytest.raises(SegError, match="is not a backup of .*: merge it instead"):
        restore(memory.path, tmp_path / "german")
    with pytest.raises(SegError, match="exists already"):
        back_up(memory, words)
    with pytest.raises(SegError, match="is not a translation memory"):
        restore(memory.path, words)


def test_commands(memory: TranslationMemory, tmp_path: Path, capsys: pytest.CaptureFixture):
    backup = str(tmp_path / "backup")
    main(["backup", str(memory.path), backup])
    assert capsys.readouterr().out == f"{backup}: {MANY + 1:,} pairs\n"
    change(memory)
    main(["restore", str(memory.path), backup])
    assert capsys.readouterr().out == "4 pairs restored, 1 pairs removed\n"
    memory.delete(1)
    main(["merge", str(memory.path), backup])
    assert f"{backup}: 1 added, 0 updated, {MANY:,} already there" in capsys.readouterr().out
    assert len(pairs(memory)) == MANY + 1
