"""A memory keeps every acknowledged change when its writers are killed, and serves several processes at once."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.store.store import BATCH, TranslationMemory, TranslationUnit
from tests.memories import create_memory, pairs

# Changes a memory at random for ever, and says what it did after each change: [action, id, source, target].
CHANGER = """
import json, random, sys
from fairseq_seg.store.store import TranslationMemory
rng = random.Random(int(sys.argv[2]))
with TranslationMemory(sys.argv[1]) as memory:
    ids = [entry.id for entry in memory.pairs()]
    for number in range(10 ** 9):
        action = rng.choice(["add", "add", "update", "delete"]) if ids else "add"
        texts = f"{sys.argv[2]} {number}", f"the {rng.random()}"
        if action == "add":
            ids.append(memory.add(*texts))
            id = ids[-1]
        elif action == "update":
            id = rng.choice(ids)
            memory.update(id, *texts)
        else:
            id = ids.pop(rng.randrange(len(ids)))
            memory.delete(id)
        print(json.dumps([action, id, *texts]), flush=True)
"""
# Adds batches of pairs, each in one transaction, some of them known to the other writer too.
ADDER = """
import sys
from fairseq_seg.store.store import TranslationMemory, TranslationUnit
with TranslationMemory(sys.argv[1]) as memory:
    for batch in range(int(sys.argv[3])):
        own = [TranslationUnit(f"{sys.argv[2]} {batch} {number}", "le") for number in range(40)]
        both = [TranslationUnit(f"both {batch} {number}", "le") for number in range(5)]
        memory.add_many(own + both)
        memory.delete(memory.add("passing", sys.argv[2]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return an empty memory."""
    create_memory(tmp_path).close()
    return tmp_path / "memory"


def start(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen) -> str:
    """Kill a process without warning (-9), and return what it had printed."""
    process.kill()
    return process.communicate(timeout=60)[0]


def check_whole(path: Path) -> None:
    """Have SQLite check its file, and the rows' own redundancy."""
    database = sqlite3.connect(path / "memory.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    with TranslationMemory(path, read_only=True) as memory:
        changes = memory.changes(0)
        assert not {entry.id for entry in changes.pairs} & set(changes.deleted)
        for entry in changes.pairs:
            source, target = memory.encode(entry.source, entry.target)
            assert entry.source_symbols.tolist() == source.tolist() and entry.target_symbols.tolist() == target.tolist()
            assert entry.revision <= changes.revision
        assert len({(entry.source, entry.target) for entry in changes.pairs}) == len(changes.pairs)


def test_every_acknowledged_change_survives_a_kill(path: Path):
    rng = random.Random(1)
    known: dict[int, tuple[str, str]] = {}
    acknowledged = 0
    for round in range(6):
        process = start(CHANGER, path, round)
        lines = [process.stdout.readline() for _ in range(rng.randint(1, 60))]
        time.sleep(rng.random() / 50)
        text = "".join(lines) + kill(process)
        # The last line may be cut off: its change was not acknowledged.
        changes = [json.loads(line) for line in text.split("\n")[:-1]]
        acknowledged += len(changes)
        for action, id, *texts in changes:
            if action == "delete":
                del known[id]
            else:
                known[id] = tuple(texts)
        check_whole(path)
        with TranslationMemory(path, read_only=True) as memory:
            found = {entry.id: (entry.source, entry.target) for entry in memory.pairs()}
        # One change may have been stored and not yet been acknowledged.
        differing = {id for id in known.keys() | found.keys() if known.get(id) != found.get(id)}
        assert len(differing) <= 1
        known = found
    assert acknowledged > 100


def test_killed_import_keeps_whole_batches_and_goes_on(path: Path, tmp_path: Path):
    total = 12 * BATCH + 7
    (tmp_path / "a.tsv").write_text("".join(f"the {number}\tle {number}\n" for number in range(total)))
    expected = [(f"the {number}", f"le {number}") for number in range(total)]
    command = "from fairseq_seg.cli.memory import main; import sys; main(['import', *sys.argv[1:]])"
    rng = random.Random(1)
    held = 0
    for _ in range(3):
        process = start(command, path, tmp_path / "a.tsv")
        with TranslationMemory(path, read_only=True) as memory:
            revision = memory.revision
            while memory.revision == revision and process.poll() is None:
                time.sleep(0.005)
        time.sleep(rng.random() / 20)
        if process.poll() is not None:
            break
        kill(process)
        check_whole(path)
        with TranslationMemory(path, read_only=True) as memory:
            assert len(memory) > held and (len(memory) % BATCH == 0 or len(memory) == total)
            assert pairs(memory) == expected[: len(memory)]
            held = len(memory)
    assert held
    output, _ = start(command, path, tmp_path / "a.tsv").communicate(timeout=300)
    assert output.startswith(f"{tmp_path}/a.tsv: {total - held:,} added, 0 updated, {held:,} already there, 0 skipped")
    with TranslationMemory(path, read_only=True) as memory:
        assert pairs(memory) == expected


def test_writers_lose_nothing_and_readers_see_old_or_new(path: Path):
    batches = 12
    writers = [start(ADDER, path, name, batches) for name in ("one", "two")]
    states, revision = set(), 0
    with TranslationMemory(path, read_only=True) as reader:
        while any(writer.poll() is None for writer in writers):
            with reader.snapshot():
                assert reader.revision >= revision
                revision = reader.revision
                sources = [entry.source for entry in reader.pairs()]
            states.add(len(sources))
            # Every batch of a writer is there wholly or not at all.
            for name in ("one", "two"):
                assert sum(source.startswith(name) for source in sources) % 40 == 0
            assert sum(source.startswith("both") for source in sources) % 5 == 0
    assert [writer.communicate()[0] for writer in writers] == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(states) > 2  # the reader did see the memory grow
    check_whole(path)
    with TranslationMemory(path) as memory:
        expected = {
            f"{name} {batch} {number}" for name in ("one", "two") for batch in range(batches) for number in range(40)
        }
        expected |= {f"both {batch} {number}" for batch in range(batches) for number in range(5)}
        assert sorted(source for source, _ in pairs(memory)) == sorted(expected)
        # Nothing was changed without raising the revision: one for each batch, each addition and each deletion.
        assert memory.revision == 3 * 2 * batches
        assert memory.add_many([TranslationUnit(source, "le") for source in expected]).present == len(expected)


def test_a_single_addition_gets_its_turn_during_an_import(path: Path):
    writer = start(ADDER.replace("range(40)", "range(2000)"), path, "bulk", 10**6)
    with TranslationMemory(path) as memory:
        while not len(memory):
            time.sleep(0.01)
        times = []
        for number in range(10):
            begin = time.monotonic()
            memory.add(f"single {number}", "le")
            times.append(time.monotonic() - begin)
        assert writer.poll() is None
        kill(writer)
    assert sorted(times)[5] < 2


def test_full_disk_is_said_in_a_sentence_and_loses_nothing(path: Path, tmp_path: Path):
    with TranslationMemory(path) as memory:
        memory.add("the", "le")
    (tmp_path / "a.tsv").write_text("".join(f"the {number}\tle {number}\n" for number in range(BATCH)))
    # No file may grow beyond this, which to a writer is the same as a full disk.
    code = (
        "import resource, sys; from fairseq_seg.cli.memory import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "main(['import', *sys.argv[1:]])"
    )
    command = [sys.executable, "-c", code, path, tmp_path / "a.tsv"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert f"{path / 'memory.sqlite'} cannot be used: " in result.stderr
    check_whole(path)
    with TranslationMemory(path) as memory:
        assert pairs(memory) == [("the", "le")] and memory.add("an", "un") == 2


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER steal AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW stolen AS SELECT * FROM entries",
    ],
)
def test_a_memory_with_code_of_others_is_not_opened(tmp_path: Path, statement: str):
    create_memory(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "memory" / "memory.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()
    for read_only in (True, False):
        with pytest.raises(SegError, match="holds triggers or views"):
            TranslationMemory(tmp_path / "memory", read_only=read_only)


@pytest.mark.parametrize(
    "damage",
    [
        "source = x'00ff'",
        "attributes = '{'",
        "attributes = '[]'",
        "attributes = '{\"a\": 1}'",
        "created = x'00'",
        "source_symbols = x'01'",
        "source_symbols = x'ffffffff'",
        "target_symbols = 'text'",
    ],
)
def test_a_broken_row_is_said_in_a_sentence(tmp_path: Path, damage: str):
    with create_memory(tmp_path) as memory:
        memory.add("the Name1", "le Secret1")
    connection = sqlite3.connect(tmp_path / "memory" / "memory.sqlite")
    connection.execute(f"UPDATE entries SET {damage}")
    connection.commit()
    connection.close()
    with (
        TranslationMemory(tmp_path / "memory") as memory,
        pytest.raises(SegError, match="Pair 1 of the memory is damaged"),
    ):
        list(memory.pairs())
    if "source_symbols" in damage:
        with (
            TranslationMemory(tmp_path / "memory") as memory,
            pytest.raises(SegError, match="Pair 1 of the memory is damaged"),
        ):
            memory.sources_of([1])


def test_an_id_that_no_database_can_hold(tmp_path: Path):
    with create_memory(tmp_path) as memory, pytest.raises(SegError, match="cannot be used"):
        memory.pair(2**70)
