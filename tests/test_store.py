"""The store: what goes in comes out, once, with its symbols, and what changed since a revision is known."""

import multiprocessing
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.corpus.dictionary import dictionary_fingerprint, read_dictionary
from fairseq_seg.errors import SegError
from fairseq_seg.store.store import Skipped, TranslationMemory, TranslationUnit
from preprocess import subword
from tests.corpus import SOURCE, TARGET, make_corpus, vocabulary, write_text
from tests.memories import comparable, create_memory, pairs, unprivileged


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[TranslationMemory]:
    with create_memory(tmp_path) as memory:
        yield memory


def error(function: Callable, *arguments, **options) -> str:
    """Call what must fail, and return its one sentence."""
    with pytest.raises(SegError) as stop:
        function(*arguments, **options)
    assert "\n" not in str(stop.value)
    return str(stop.value)


def test_added_pair_comes_back_with_all_it_has(memory: TranslationMemory):
    id = memory.add("the Name1", "le  Secret2 ", origin="a.tmx", unit="u7", attributes={"client": "ACME"})
    entry = memory.pair(id)
    assert entry[1:3] == ("the Name1", "le  Secret2 ")
    assert entry[5:7] == ("a.tmx", "u7") and entry.attributes == {"client": "ACME"}
    assert entry.created == entry.changed and entry.created.endswith("Z") and len(entry.created) == 20
    words = [["<s>", "<pad>", "</s>", "<unk>", *side] for side in vocabulary()]
    assert entry.source_symbols.tolist() == [words[0].index("the"), words[0].index("Name1")]
    assert entry.target_symbols.tolist() == [words[1].index("le"), words[1].index("Secret2")]
    assert entry.source_symbols.dtype == np.int32
    with TranslationMemory(memory.path, read_only=True) as reader:
        assert comparable(reader.pair(id)) == comparable(entry) and len(reader) == 1


def test_unknown_words_are_unk_but_keep_their_spelling(memory: TranslationMemory):
    entry = memory.pair(memory.add("the xyzzy </s>", "le <pad>"))
    # Not 2 and 1: a text cannot end the sentence or pad it.
    assert entry.source_symbols.tolist()[1:] == [3, 3] and entry.target_symbols.tolist()[1:] == [3]
    assert entry.source == "the xyzzy </s>"


def test_subword_symbols_are_those_of_fairseq(tmp_path: Path):
    from fairseq.data import Dictionary

    write_text(make_corpus(groups=20, held_out=2), tmp_path)
    lines = (tmp_path / "train.en").read_text().splitlines()[:20] + ["☃ snow\u00a0man \u2028 x", " the  </s> Name1"]
    for lang in (SOURCE, TARGET):
        prefix = tmp_path / f"spm.{lang}"
        subword.main(
            ["train", "--input", str(tmp_path / f"train.{lang}"), "--model", str(prefix), "--vocab-size", "120"]
        )
        shutil.copy(f"{prefix}.dict.txt", tmp_path / f"dict.{lang}.txt")
    models = [tmp_path / f"spm.{lang}.model" for lang in (SOURCE, TARGET)]
    (tmp_path / "lines").write_text("".join(f"{' '.join(line.split())}\n" for line in lines))
    subword.main(
        ["encode", "--model", str(models[0]), "--input", str(tmp_path / "lines"), "--output", str(tmp_path / "encoded")]
    )
    dictionary = Dictionary.load(str(tmp_path / "dict.en.txt"))
    with TranslationMemory.create(tmp_path / "memory", SOURCE, TARGET, tmp_path, *models) as memory:
        encoded = (tmp_path / "encoded").read_text().split("\n")
        for line, expected in zip(lines, encoded, strict=False):
            ids = dictionary.encode_line(expected, add_if_not_exist=False, append_eos=False)
            assert memory.encode(line, "")[0].tolist() == ids.tolist()
        assert 3 in memory.encode(lines[-2], "")[0]
        units = [TranslationUnit(line, text) for line, text in zip(lines, reversed(lines), strict=True)]
        for unit, sides in zip(units, memory.encode_all(units), strict=True):
            for fast, slow in zip(sides, memory.encode(unit.source, unit.target), strict=True):
                assert fast.tolist() == slow.tolist() and fast.dtype == np.int32
        memory.check_symbols(dictionary_fingerprint(dictionary.symbols), memory.dictionary_fingerprints[1])
    message = error(TranslationMemory.create, tmp_path / "other", SOURCE, TARGET, create_words(tmp_path), *models)
    assert "knows only" in message and "name the subword model that the data-bin was made with" in message
    assert not (tmp_path / "other").exists() and not (tmp_path / "other.part").exists()


def create_words(folder: Path) -> Path:
    """Return a data-bin's dictionaries of whole words."""
    write_text(make_corpus(groups=6, held_out=2), folder / "words")
    return folder / "words"


@pytest.mark.parametrize(
    ("conflict", "texts", "outcome"),
    [
        ("keep", ["old", "older", "new"], "added"),
        ("overwrite", ["new"], "updated"),
        ("skip", ["old", "older"], "skipped"),
    ],
)
def test_conflict_policies(memory: TranslationMemory, conflict: str, texts: list[str], outcome: str):
    first, second = memory.add("a", "old"), memory.add("a", "older")
    id = memory.add("a", "new", conflict=conflict)
    assert pairs(memory) == [("a", text) for text in texts]
    assert id == (first if outcome != "added" else second + 1)
    assert memory.changes(2).deleted == ([second] if outcome == "updated" else [])
    # Once more: the same pair is there, or skipped again.
    revision = memory.revision
    counts = memory.add_many([TranslationUnit("a", "new")], conflict)
    assert (counts.present, counts.skipped.total()) == ((0, 1) if outcome == "skipped" else (1, 0))
    assert memory.revision == revision and pairs(memory) == [("a", text) for text in texts]


def test_overwriting_with_one_of_several_targets_leaves_that_one(memory: TranslationMemory):
    ids = [memory.add("a", target) for target in ("x", "y", "z")]
    assert memory.add("a", "y", conflict="overwrite") == ids[1]
    assert pairs(memory) == [("a", "y")] and memory.changes(3).deleted == [ids[0], ids[2]]


def test_many_are_counted_with_reasons(memory: TranslationMemory):
    memory.add("there", "already")
    units = [
        TranslationUnit("the xyzzy", "le"),
        TranslationUnit("there", "already", origin="elsewhere"),
        TranslationUnit("twice", "within"),
        TranslationUnit("twice", "within"),
        TranslationUnit("", "empty"),
        TranslationUnit("empty", " \u00a0\n"),
        TranslationUnit("form\x0cfeed", "a"),
        TranslationUnit("lone \ud800", "a"),
        TranslationUnit("a", "a", attributes={"bell": "\x07"}),
        TranslationUnit("a", "a", created="yesterday"),
        TranslationUnit("long", "word " * 10_000),
        Skipped("a fuzzy message"),
    ]
    counts = memory.add_many(units)
    assert (counts.added, counts.updated, counts.present) == (2, 0, 2)
    assert counts.skipped == {
        "an empty side": 2,
        "a control character": 3,
        "a date that is not like 2026-01-31T12:59:00Z": 1,
        "a side of more than 1,000 symbols": 1,
        "a fuzzy message": 1,
    }
    # Of the pairs cut into symbols: "the xyzzy" and "le", and twice "twice" and "within".
    assert (counts.symbols, counts.unknown_symbols) == (7, 5)
    assert memory.add_many(units, max_symbols=10_000).added == 1


@pytest.mark.parametrize("conflict", ["keep", "overwrite", "skip"])
def test_many_pairs_end_as_one_after_the_other(memory: TranslationMemory, tmp_path: Path, conflict: str):
    rng = random.Random(1)
    (tmp_path / "other").mkdir()
    with create_memory(tmp_path / "other") as single:
        for _ in range(6):
            units = [TranslationUnit(rng.choice("abcdefgh"), rng.choice("xyz"), "o") for _ in range(30)]
            counts = memory.add_many(units, conflict)
            before = len(single)
            for unit in units:
                single.add(*unit[:2], origin="o", conflict=conflict)
            assert [pair[:3] for pair in memory.pairs()] == [pair[:3] for pair in single.pairs()]
            if conflict != "overwrite":
                assert counts.added == len(single) - before and counts.updated == 0
            assert counts.added + counts.updated + counts.present + counts.skipped.total() == 30


def test_a_change_while_many_are_encoded_counts(memory: TranslationMemory, monkeypatch: pytest.MonkeyPatch):
    """What another process adds or deletes between the encoding and the transaction is neither doubled nor lost."""
    memory.add("deleted", "a")
    encode_all = TranslationMemory.encode_all

    def meanwhile(self: TranslationMemory, units: list[TranslationUnit]) -> list:
        with TranslationMemory(memory.path) as other:
            other.add("added", "a")
            other.delete(1)
        return encode_all(self, units)

    monkeypatch.setattr(TranslationMemory, "encode_all", meanwhile)
    counts = memory.add_many([TranslationUnit(source, "a") for source in ("added", "deleted", "new")])
    assert (counts.added, counts.present) == (2, 1)
    assert pairs(memory) == [("added", "a"), ("deleted", "a"), ("new", "a")]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "a", "an empty side"),
        ("a", "\x00", "a control character"),
        ("\udce9", "a", "a control character"),
        ("a", "b " * 1001, "more than 1,000 symbols"),
    ],
)
def test_what_cannot_be_an_entry_is_refused(memory: TranslationMemory, source: str, target: str, reason: str):
    assert reason in error(memory.add, source, target)
    id = memory.add("a", "b")
    assert reason in error(memory.update, id, source=source, target=target)
    assert pairs(memory) == [("a", "b")] and memory.revision == 1


def test_update(memory: TranslationMemory):
    id, other = memory.add("the", "le", origin="o", attributes={"a": "1"}), memory.add("the", "un")
    memory.update(id, target="Secret1")
    entry = memory.pair(id)
    assert entry[1:3] == ("the", "Secret1") and entry.attributes == {"a": "1"} and entry.origin == "o"
    assert entry.target_symbols.tolist() == memory.encode("", "Secret1")[1].tolist()
    memory.update(id, source="Name1", attributes={})
    assert memory.pair(id)[1:3] == ("Name1", "Secret1") and memory.pair(id).attributes == {}
    # Found under its new source.
    assert memory.add("Name1", "Secret1") == id
    assert f"delete pair {other} instead" in error(memory.update, other, "Name1", "Secret1")
    assert "no pair 99" in error(memory.update, 99, "a", "b")


def test_long_entry_may_be_updated_but_not_grow(memory: TranslationMemory):
    memory.add_many([TranslationUnit("the " * 1500, "le")], max_symbols=2000)
    memory.update(1, target="un", attributes={"a": "1"})
    assert memory.pair(1).target == "un"
    assert "more than 1,500 symbols" in error(memory.update, 1, source="the " * 1501)


def test_delete_is_all_or_none_and_ids_are_never_given_again(memory: TranslationMemory):
    ids = [memory.add("the", target) for target in ("le", "un", "de")]
    assert "no pair 99" in error(memory.delete, ids[0], 99)
    assert len(memory) == 3
    memory.delete(ids[1], ids[2])
    assert "no pair 3" in error(memory.pair, ids[2])
    assert memory.add("the", "de") == 4


def test_a_replica_that_follows_the_changes_is_equal(memory: TranslationMemory):
    rng = random.Random(1)
    words, replica, seen = vocabulary()[0][:5], {}, 0
    with TranslationMemory(memory.path, read_only=True) as reader:
        for _ in range(300):
            ids = [entry.id for entry in memory.pairs()]
            action = rng.choice(["add", "add", "many", "update", "delete", "follow"])
            source, target = rng.choice(words), f"{rng.choice(words)} {rng.choice(words)}"
            before = memory.revision
            if action == "add":
                memory.add(source, target, conflict=rng.choice(["keep", "overwrite", "skip"]))
            elif action == "many":
                memory.add_many([TranslationUnit(word, target) for word in words[:3]])
            elif action == "delete" and ids:
                memory.delete(rng.choice(ids))
            elif action == "update" and ids and (source, target) not in pairs(memory):
                memory.update(rng.choice(ids), source, target)
            elif action == "follow":
                changes = reader.changes(seen)
                for id in changes.deleted:
                    replica.pop(id, None)
                replica |= {entry.id: comparable(entry) for entry in changes.pairs}
                seen = changes.revision
                assert replica == {entry.id: comparable(entry) for entry in reader.pairs()}
            assert memory.revision - before in (0, 1)
    assert len(replica) > 5


def test_an_entry_that_came_and_went_is_only_a_deleted_id(memory: TranslationMemory):
    memory.delete(memory.add("a", "b"))
    assert memory.changes(0) == (2, [], [1]) and memory.changes(2) == (2, [], [])


def test_snapshot_shows_one_state(memory: TranslationMemory):
    memory.add("a", "b")
    with TranslationMemory(memory.path, read_only=True) as reader:
        with reader.snapshot():
            assert len(reader) == 1
            memory.add("c", "d")
            assert pairs(reader) == [("a", "b")] and reader.revision == 1
        assert pairs(reader) == [("a", "b"), ("c", "d")] and reader.revision == 2


def test_other_dictionaries_are_refused(memory: TranslationMemory, tmp_path: Path):
    own = [
        dictionary_fingerprint(read_dictionary(tmp_path / "words" / f"dict.{lang}.txt")) for lang in (SOURCE, TARGET)
    ]
    memory.check_symbols(*own)
    with open(tmp_path / "words" / "dict.fr.txt", "a") as file:
        file.write("nouveau 1\n")
    other = dictionary_fingerprint(read_dictionary(tmp_path / "words" / "dict.fr.txt"))
    message = error(memory.check_symbols, own[0], other)
    assert "does not use the model's fr dictionary" in message and str(memory.path) in message
    with TranslationMemory.create(tmp_path / "other", SOURCE, TARGET, tmp_path / "words") as changed:
        assert changed.symbols_fingerprint != memory.symbols_fingerprint
    # Counts may differ: they do not change an id.
    text = (tmp_path / "words" / "dict.en.txt").read_text().replace(" 1\n", " 7\n")
    (tmp_path / "words" / "dict.en.txt").write_text(text)
    assert dictionary_fingerprint(read_dictionary(tmp_path / "words" / "dict.en.txt")) == own[0]


def test_dictionary_changed_within_the_memory_is_refused(memory: TranslationMemory):
    (memory.path / "dict.en.txt").write_text("the 1\n")
    assert "dict.en.txt has changed since the memory was created" in error(memory.add, "the", "le")


def test_what_is_no_memory_is_refused(memory: TranslationMemory, tmp_path: Path):
    assert "is not a translation memory" in error(TranslationMemory, tmp_path / "none")
    assert "exists already" in error(TranslationMemory.create, memory.path, SOURCE, TARGET, tmp_path / "words")
    assert "dict.de.txt" in error(TranslationMemory.create, tmp_path / "new", "de", TARGET, tmp_path / "words")
    assert "cannot be made" in error(TranslationMemory.create, tmp_path / "words/dict.en.txt/m", "en", "fr", tmp_path)
    memory.close()
    shutil.copytree(memory.path, tmp_path / "newer")
    with sqlite3.connect(tmp_path / "newer" / "memory.sqlite") as database:
        database.execute("UPDATE meta SET value = '3' WHERE name = 'format'")
    database.close()
    assert "is of format 3, not 2" in error(TranslationMemory, tmp_path / "newer")
    (memory.path / "memory.sqlite").write_bytes(b"not a database at all" * 100)
    assert "cannot be used" in error(TranslationMemory, memory.path)


def make_old(memory: TranslationMemory) -> None:
    """Turn a memory into one of format 1."""
    memory.close()
    with sqlite3.connect(memory.path / "memory.sqlite") as database:
        database.execute("ALTER TABLE entries DROP COLUMN codes")
        database.execute("UPDATE meta SET value = '1' WHERE name = 'format'")
    database.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_memory_of_format_1_is_converted(memory: TranslationMemory, read_only: bool):
    memory.add("the", "le")
    expected = comparable(memory.pair(1))
    make_old(memory)
    with TranslationMemory(memory.path, read_only) as converted:
        assert comparable(converted.pair(1)) == expected and converted.revision in (1, 2)
    with TranslationMemory(memory.path) as converted:
        assert converted.add("an", "un") == 2


def test_a_memory_of_format_1_that_nobody_may_write_says_so(public_folder: Path):
    memory = create_memory(public_folder)
    make_old(memory)
    memory.path.chmod(0o555)
    message = unprivileged(lambda: error(TranslationMemory, memory.path, read_only=True))
    assert "is of format 1: have its owner run seg-memory stats, which converts it." in message


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Return a folder that other users may read, unlike the ones of pytest."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in (folder, folder / "memory"):
        path.chmod(0o755)
    shutil.rmtree(folder)


def test_memory_without_write_permission_is_read_but_not_written(public_folder: Path):
    with create_memory(public_folder) as memory:
        memory.add("the", "le")
    memory.path.chmod(0o555)
    for file in memory.path.iterdir():
        file.chmod(0o444)
    message = unprivileged(lambda: error(TranslationMemory, memory.path))
    assert "is read-only: get write permission" in message
    assert unprivileged(lambda: str(pairs(TranslationMemory(memory.path, read_only=True)))) == "[('the', 'le')]"
    public_folder.chmod(0o555)
    arguments = (public_folder / "new", SOURCE, TARGET, public_folder / "words")
    assert "cannot be made (Permission denied)" in unprivileged(lambda: error(TranslationMemory.create, *arguments))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("open_at_first", [True, False])
def test_reader_without_write_permission_sees_what_the_owner_adds(public_folder: Path, open_at_first: bool):
    owner = create_memory(public_folder)
    if not open_at_first:
        owner.close()
    reading = multiprocessing.get_context("fork").Event()

    def read() -> str:
        with TranslationMemory(owner.path, read_only=True) as reader:
            lengths, end = [len(reader)], time.monotonic() + 30
            reading.set()
            while lengths[-1] < 50 and time.monotonic() < end:
                with reader.snapshot():
                    lengths.append(len(reader))
                    assert len(pairs(reader)) == lengths[-1]
            assert lengths == sorted(lengths)
            return f"from {lengths[0]} to {lengths[-1]}"

    def write() -> None:
        reading.wait(30)
        for number in range(50):
            with TranslationMemory(owner.path) as writer:
                writer.add("the", str(number))

    assert unprivileged(read, meanwhile=write) == "from 0 to 50"
    owner.close()


def test_reader_cannot_write(memory: TranslationMemory):
    with TranslationMemory(memory.path, read_only=True) as reader:
        assert "readonly" in error(reader.add, "the", "le")


def test_adding_imports_nothing_heavy(memory: TranslationMemory):
    code = (
        "import sys; from fairseq_seg.store.store import TranslationMemory\n"
        f"TranslationMemory({str(memory.path)!r}).add('the', 'le')\n"
        "heavy = {'torch', 'fairseq', 'pandas', 'jnius', 'lxml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(memory) == 1
