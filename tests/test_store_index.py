"""Search in a memory: exact whatever is indexed, newer than the index, changed or deleted, and whoever is killed."""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from fairseq_seg.store import index
from fairseq_seg.store.index import MemorySearch, index_folders, make_index
from fairseq_seg.store.store import TranslationMemory, TranslationUnit
from tests.corpus import Pair, make_corpus
from tests.memories import create_memory, unprivileged

CORPUS = make_corpus(seed=5, groups=60, held_out=20)
COUNT = 20


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        add(memory, CORPUS.train[:100])
        yield memory


def add(memory: TranslationMemory, pairs: list[Pair]) -> None:
    memory.add_many(TranslationUnit(pair.source, pair.target) for pair in pairs)


def open_search(memory: TranslationMemory) -> MemorySearch:
    return MemorySearch(memory.path)


def queries(memory: TranslationMemory) -> list[np.ndarray]:
    return [memory.encode(pair.source, "")[0] for pair in CORPUS.test]


def found(search: MemorySearch, memory: TranslationMemory) -> list[list[tuple[int, float]]]:
    """Search, and leave out what has nothing in common with the query: an index does not find it."""
    rows = search.search(queries(memory), COUNT)
    return [[(entry.id, pytest.approx(score)) for entry, score in row if score > 0] for row in rows]


def brute_force(memory: TranslationMemory) -> list[list[tuple[int, float]]]:
    rows = []
    for query in queries(memory):
        scored = []
        for entry in memory.pairs():
            distance = Levenshtein.distance(query.tolist(), entry.source_symbols.tolist())
            score = 1 - distance / max(len(query), len(entry.source_symbols))
            if score > 0:
                scored.append((-score, entry.id))
        rows.append([(id, -score) for score, id in sorted(scored)[:COUNT]])
    return rows


def change(memory: TranslationMemory, rng: random.Random) -> None:
    """Delete some entries, indexed or not, and give some others the source of a test sentence."""
    ids = [entry.id for entry in memory.pairs()]
    chosen = rng.sample(ids, 12)
    memory.delete(*chosen[:6])
    for id, pair in zip(chosen[6:], CORPUS.test, strict=False):
        memory.update(id, source=pair.source)


def test_search_equals_brute_force_before_and_after_every_change(memory: TranslationMemory):
    rng = random.Random(1)
    search = open_search(memory)
    assert found(search, memory) == brute_force(memory)  # nothing indexed
    make_index(memory, wait=True)
    late = open_search(memory)
    assert index_folders(memory.path) and not late._fresh
    for reader in (search, late):
        assert found(reader, memory) == brute_force(memory)  # all indexed
    for stage in range(3):
        add(memory, CORPUS.train[100 + 20 * stage : 120 + 20 * stage])
        change(memory, rng)
        expected = brute_force(memory)
        for reader in (search, late, open_search(memory)):
            assert found(reader, memory) == expected


def test_what_changes_between_scoring_and_reading_waits_for_the_next_search(memory: TranslationMemory):
    search = open_search(memory)
    query = memory.pair(1).source_symbols
    assert search.search([query], 1)[0][0].pair.id == 1
    refresh = search._refresh
    search._refresh = lambda: (refresh(), memory.update(1, source=CORPUS.test[0].source))
    assert all(found.pair.id != 1 for found in search.search([query], 200)[0])
    search._refresh = refresh
    assert search.search([memory.pair(1).source_symbols], 1)[0][0].score == 1


def test_large_memories_index_themselves(memory: TranslationMemory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "UNINDEXED", 30)
    search = open_search(memory)
    assert [folder.name for folder in index_folders(memory.path)] == ["index.1"] and not search._fresh
    add(memory, CORPUS.train[100:130])
    assert found(search, memory) == brute_force(memory) and len(search._fresh) == 30
    idle = open_search(memory)
    add(memory, CORPUS.train[130:140])
    # The search goes on with the old index while a process of its own makes a new one.
    assert found(search, memory) == brute_force(memory) and len(search._fresh) == 40
    assert search._builder.wait(60) == 0
    assert found(search, memory) == brute_force(memory) and not search._fresh
    # The other reader takes the index that is there now, and makes none.
    assert [folder.name for folder in index_folders(memory.path)] == ["index.1", "index.2"]
    add(memory, CORPUS.train[140:141])
    assert found(idle, memory) == brute_force(memory) and len(idle._fresh) == 1
    assert [folder.name for folder in index_folders(memory.path)] == ["index.1", "index.2"]


def test_an_index_is_removed_when_no_reader_has_it_open(memory: TranslationMemory):
    make_index(memory, wait=True)
    search = open_search(memory)
    for _ in range(2):
        make_index(memory, wait=True)
    assert [folder.name for folder in index_folders(memory.path)] == ["index.1", "index.3"]
    assert found(search, memory) == brute_force(memory)
    search.close()
    make_index(memory, wait=True)
    assert [folder.name for folder in index_folders(memory.path)] == ["index.4"]


@pytest.mark.parametrize("change", ['"format": 0', '"symbols": "other"', '"revision": 99'])
def test_an_index_that_does_not_fit_is_as_good_as_none(memory: TranslationMemory, change: str):
    """Of an older version of the program, of other symbols, or of a memory that an older copy was put in place of."""
    file = make_index(memory, wait=True) / "lucene" / "identity.json"
    name = change.split(":")[0]
    file.write_text(re.sub(rf'{name}: ("[^"]*"|\d+)', change, file.read_text()))
    assert change in file.read_text()
    search = open_search(memory)
    assert len(search._fresh) == 100 and found(search, memory) == brute_force(memory)


def test_without_write_permission_all_entries_are_compared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "UNINDEXED", 30)
    # Not in the tests' own folder, which is closed to others.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        with create_memory(folder) as memory:
            add(memory, CORPUS.train[:100])
            expected = brute_force(memory)
        memory.path.chmod(0o555)

        def search() -> str:
            with TranslationMemory(memory.path, read_only=True) as reader:
                return repr([[id for id, _ in row] for row in found(open_search(reader), reader)])

        assert unprivileged(search) == repr([[id for id, _ in row] for row in expected])
        assert not [path for path in memory.path.glob("index*") if path.is_dir()]
    finally:
        memory.path.chmod(0o755)
        shutil.rmtree(folder)


REBUILD_FOREVER = """
import sys
from fairseq_seg.store.index import make_index
from fairseq_seg.store.store import TranslationMemory
memory = TranslationMemory(sys.argv[1])
while True:
    print(make_index(memory, wait=True).name, flush=True)
"""


@pytest.fixture
def rebuilding(memory: TranslationMemory) -> Iterator[subprocess.Popen]:
    """Return a process that rebuilds the index of the memory again and again."""
    process = start_rebuilding(memory)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def start_rebuilding(memory: TranslationMemory) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", REBUILD_FOREVER, memory.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline().startswith("index.")
    return process


def test_readers_during_rebuilds_find_the_same(memory: TranslationMemory, rebuilding: subprocess.Popen):
    expected = brute_force(memory)
    search = open_search(memory)
    used = set()
    deadline = time.monotonic() + 60
    while len(used) < 5 and time.monotonic() < deadline:
        assert found(search, memory) == expected
        new = open_search(memory)
        assert found(new, memory) == expected
        used.add(new._index.folder)
        new.close()
    assert len(used) == 5
    assert search._index.folder.exists()  # not removed under the reader that has it open
    assert rebuilding.poll() is None


def test_a_killed_rebuild_leaves_what_was_there(memory: TranslationMemory):
    rng = random.Random(2)
    for kill in range(6):
        process = start_rebuilding(memory)
        add(memory, CORPUS.train[100 + kill : 101 + kill])
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.wait()
        search = open_search(memory)
        assert found(search, memory) == brute_force(memory)
        search.close()
    newest = make_index(memory, wait=True)
    assert {path.name for path in memory.path.glob("index*")} == {newest.name, "index.lock"}


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    program = [sys.executable, "-m", "fairseq_seg.cli.memory", *map(str, arguments)]
    return subprocess.run(program, env=os.environ | environment, capture_output=True, text=True, timeout=120)


def test_commands_search_and_rebuild(memory: TranslationMemory):
    first = memory.pair(1)
    memory.add(f"{first.source} xyzzy", "un\tdeux", origin="a.tmx")
    for indexed in (False, True):
        done = command("search", memory.path, first.source, "-n", 2)
        assert done.stdout.splitlines() == [
            f"1.0000\t1\t{first.source}\t{first.target}\t",
            f"{1 - 1 / len(first.source.split() + ['xyzzy']):.4f}\t101\t{first.source} xyzzy\tun\\tdeux\ta.tmx",
        ]
        if not indexed:
            done = command("rebuild", memory.path)
            assert done.stdout == f"{memory.path / 'index.1'}: 101 pairs\n", done.stderr


def test_a_small_memory_needs_no_java_and_a_large_one_says_so(memory: TranslationMemory, tmp_path: Path):
    nowhere = {"JAVA_HOME": str(tmp_path)}
    assert command("search", memory.path, "the", **nowhere).returncode == 0
    done = command("rebuild", memory.path, **nowhere)
    assert done.returncode == 1
    assert done.stderr == f"JAVA_HOME is {tmp_path}, but no Java runtime is there: correct it or unset it.\n"
    assert not [path for path in memory.path.glob("index*") if path.is_dir()]


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "flip", "missing"])
def test_a_damaged_index_is_noticed_and_nothing_is_lost(memory: TranslationMemory, damage: str, caplog):
    """Whichever file of the derived index is damaged, a search finds what it would find without an index."""
    expected = brute_force(memory)
    folder, said = make_index(memory, wait=True), set()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        caplog.clear()
        if damage == "missing":
            path.unlink()
        else:
            middle, late = len(content) // 2, len(content) * 7 // 8
            flipped = bytes(byte ^ (place == late) for place, byte in enumerate(content))
            changed = {"cut": content[:middle], "empty": b"", "noise": bytes(reversed(content)), "flip": flipped}
            path.write_bytes(changed[damage])
        search = open_search(memory)
        assert found(search, memory) == expected, path.name
        search.close()
        path.write_bytes(content)
        if "is damaged and is not used; the pairs themselves are whole" in caplog.text:
            said.add(path.suffix)
    assert {".doc", ".tim", ".npz"} <= said  # also where so small a memory's searches would find the same


def test_rebuild_mends_an_index_without_ids(memory: TranslationMemory):
    (make_index(memory, wait=True) / "ids.npy").unlink()
    newer = make_index(memory, wait=True)
    assert index_folders(memory.path) == [newer]


def test_a_full_disk_means_comparing_all(memory: TranslationMemory, monkeypatch: pytest.MonkeyPatch, caplog):
    def full(*arguments) -> None:
        raise index.UnwritableIndexError("Lucene could not write its index: No space left on device.")

    monkeypatch.setattr(index, "build_index", full)
    monkeypatch.setattr(index, "UNINDEXED", 10)
    assert found(open_search(memory), memory) == brute_force(memory)
    assert caplog.text.count("No space left on device") == 1
