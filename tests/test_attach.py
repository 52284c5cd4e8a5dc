"""seg-attach from a data-bin to attached files, and what it does with bad input."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.corpus.attached import AttachedPairs
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.settings import ENGINES, SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval import attach as attaching
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import index_folder, open_retriever
from preprocess import attach
from tests.corpus import SOURCE, SPLITS, TARGET, binarize

SCRIPT = Path(attach.__file__)


@pytest.fixture
def fresh(data_bin, tmp_path):
    """Return a data-bin of its own for a test."""
    return shutil.copytree(data_bin, tmp_path / "data-bin", ignore=shutil.ignore_patterns("*.memory", "index.*"))


@pytest.fixture(scope="module")
def attached(data_bin, tmp_path_factory):
    """Return a data-bin after seg-attach with its default options."""
    ignored = shutil.ignore_patterns("*.memory", "index.*")
    folder = shutil.copytree(data_bin, tmp_path_factory.mktemp("attached") / "data-bin", ignore=ignored)
    attach.main([str(folder), "-s", SOURCE, "-t", TARGET])
    return folder


def load(folder, split="train", name=f"{SOURCE}-{TARGET}.memory"):
    return AttachedPairs.load(folder / f"{split}.{name}")


def make_data_bin(folder, lines, impl="mmap"):
    """Binarize (source, target) lines as train, with their first two as valid and no line at all as test."""
    text = folder / "text"
    text.mkdir(parents=True)
    for side, language in enumerate((SOURCE, TARGET)):
        for split, part in (("train", lines), ("valid", lines[:2]), ("test", [])):
            (text / f"{split}.{language}").write_text("".join(f"{line[side]}\n" for line in part), encoding="utf-8")
        symbols = dict.fromkeys(symbol for line in lines for symbol in line[side].split() if symbol != "unknown")
        dictionary = "".join(f"{symbol} 1\n" for symbol in symbols)
        (text / f"dict.{language}.txt").write_text(dictionary, encoding="utf-8")
    binarize(text, folder / "data-bin", impl)
    return folder / "data-bin"


def test_every_example_gets_its_row(attached, corpus):
    data = DataBin(attached)
    for split, pairs in corpus.splits():
        stored = load(attached, split)
        assert len(stored) == len(pairs)
        stored.check(data.fingerprint(split), data.fingerprint("train"))
        for pair, (ids, scores, _) in zip(pairs, stored.select(Selection(16)), strict=True):
            assert len(ids) == 16
            assert all(corpus.train[i] != pair for i in ids)
            # One word of eight or so differs within a group; every pair has such a neighbour.
            assert corpus.train[ids[0]].source != pair.source or split == "train"
            assert scores[0] > 0.7
    # The signature says how the file was made, and the file says nothing of this machine.
    assert stored.signature.startswith("engine:lucene-") and "|candidates:100|keep:16|" in stored.signature
    assert os.fsencode(attached.parent) not in (attached / f"train.{SOURCE}-{TARGET}.memory").read_bytes()
    assert not list(attached.glob("*.part"))


def test_best_pairs_are_those_of_the_same_group(attached, corpus):
    stored = load(attached, "test")
    best = stored.select(Selection(1))
    hits = [corpus.train[ids[0]].group == pair.group for pair, (ids, _, _) in zip(corpus.test, best, strict=True)]
    assert np.mean(hits) > 0.9


def test_adaptive_pairs_are_stored_beyond_the_kept(fresh):
    attach.main([str(fresh), "--keep", "1"])
    stored = load(fresh, "valid")
    assert max(len(ids) for ids, _, _ in stored.ranked) > 1
    assert all(marks[1:].all() for _, _, marks in stored.ranked)
    assert stored.select(Selection(1)).counts[0] == 1


def test_options_change_the_signature_and_the_rows(fresh, capsys):
    attach.main([str(fresh), "--splits", "valid"])
    assert not (fresh / f"train.{SOURCE}-{TARGET}.memory").exists()
    before = load(fresh, "valid")
    attach.main([str(fresh), "--splits", "valid", "--min-score", "0.8", "--k1", "0.9", "--query-unit", "word"])
    after = load(fresh, "valid")
    assert "k1:0.9" in after.signature and "unit:word/symbol" in after.signature and "min:0.8" in after.signature
    assert min(scores.min(initial=1) for _, scores, _ in after.ranked) >= np.float32(0.8)
    assert min(scores.min(initial=1) for _, scores, _ in before.ranked) < 0.8
    assert "valid: 40 sentences" in capsys.readouterr().out


def test_the_other_direction_of_the_same_data(fresh):
    attach.main([str(fresh), "-s", TARGET, "-t", SOURCE, "--splits", "test"])
    stored = load(fresh, "test", f"{SOURCE}-{TARGET}.reversed.memory")
    data = DataBin(fresh, TARGET, SOURCE)
    stored.check(data.fingerprint("test"), data.fingerprint("train"))


def test_a_stopped_run_goes_on_and_gives_the_same_bytes(fresh, attached, monkeypatch, capsys):
    monkeypatch.setattr(attaching, "CHUNK", 50)
    whole_search = Retriever.search
    searched = []

    def stopped_search(self, queries, exclude=None):
        if len(searched) == 3:
            raise KeyboardInterrupt
        searched.append(len(queries))
        return whole_search(self, queries, exclude)

    monkeypatch.setattr(Retriever, "search", stopped_search)
    with pytest.raises(SystemExit, match="Rerun the command to resume"):
        attach.main([str(fresh), "--processes", "1"])
    assert not list(fresh.glob("*.memory"))

    def counted_search(self, queries, exclude=None):
        searched.append(len(queries))
        return whole_search(self, queries, exclude)

    monkeypatch.setattr(Retriever, "search", counted_search)
    attach.main([str(fresh), "--processes", "1"])
    splits = {split: len(load(fresh, split)) for split in SPLITS}
    assert sum(searched) == sum(splits.values())  # no sentence was searched twice
    for split in SPLITS:
        name = f"{split}.{SOURCE}-{TARGET}.memory"
        assert (fresh / name).read_bytes() == (attached / name).read_bytes()
    # A third run finds everything done.
    attach.main([str(fresh)])
    assert sum(searched) == sum(splits.values())


def test_several_processes_give_the_same_bytes(fresh, attached, monkeypatch):
    monkeypatch.setattr(attaching, "CHUNK", 50)
    monkeypatch.setattr(attaching, "SMALL", 1)
    attach.main([str(fresh), "--processes", "2"])
    for split in SPLITS:
        name = f"{split}.{SOURCE}-{TARGET}.memory"
        assert (fresh / name).read_bytes() == (attached / name).read_bytes()


def test_chunks_of_other_settings_are_not_taken_over(fresh, monkeypatch):
    monkeypatch.setattr(attaching, "CHUNK", 10)
    whole_search = Retriever.search
    searched = []

    def stopped_search(self, queries, exclude=None):
        if searched:
            raise KeyboardInterrupt
        searched.append(len(queries))
        return whole_search(self, queries, exclude)

    with monkeypatch.context() as patch:
        patch.setattr(Retriever, "search", stopped_search)
        with pytest.raises(SystemExit):
            attach.main([str(fresh), "--splits", "valid"])
    attach.main([str(fresh), "--splits", "valid", "--min-score", "0.99"])
    assert all((scores >= np.float32(0.99)).all() for _, scores, _ in load(fresh, "valid").ranked)


def test_copies_are_excluded_in_training_only(tmp_path, capsys):
    lines = [("a b c", "x"), ("a b c", "x"), ("a b c", "y"), ("a b d", "z")]
    folder = make_data_bin(tmp_path, lines)
    attach.main([str(folder)])
    train, valid = load(folder), load(folder, "valid")
    assert [ids.tolist() for ids, _, _ in train.ranked] == [[2, 3], [2, 3], [0, 3], [0, 2]]
    assert [ids.tolist() for ids, _, _ in valid.ranked] == [[0, 2, 3], [0, 2, 3]]
    assert "the same pair excluded for 4 sentences; 1 of them repeat another" in capsys.readouterr().out
    attach.main([str(folder), "--exclude", "source"])
    assert [ids.tolist() for ids, _, _ in load(folder).ranked] == [[3], [3], [3], [0, 2]]


def test_another_memory(fresh, tmp_path, corpus):
    other = shutil.copytree(fresh, tmp_path / "others" / "memory")
    for side in (SOURCE, TARGET):
        for ending in ("idx", "bin"):
            shutil.copy(
                fresh / f"test.{SOURCE}-{TARGET}.{side}.{ending}", other / f"train.{SOURCE}-{TARGET}.{side}.{ending}"
            )
    attach.main([str(fresh), "--splits", "test,train", "--memory-data", str(other)])
    stored = load(fresh, "test")
    assert stored.memory_data == os.path.join("..", "others", "memory")
    assert stored.select(Selection(1)).ids.tolist() == list(range(len(corpus.test)))
    assert stored.memory_fingerprint == DataBin(fresh).fingerprint("test")
    (other / f"dict.{TARGET}.txt").write_text("other 1\n")
    with pytest.raises(SystemExit, match=f"has another dictionary for {TARGET}"):
        attach.main([str(fresh), "--memory-data", str(other)])


def test_odd_sentences_get_a_row_each(tmp_path, capsys):
    odd = [
        "",
        "unknown unknown",
        " ".join(f"w{n}" for n in range(5000)),
        '+-&& || ! ( ) { } [ ] ^ " ~ * ? : \\ /',
        "😀 \0 😀",
    ]
    folder = make_data_bin(tmp_path, [(line, "x") for line in odd])
    attach.main([str(folder)])
    assert len(load(folder)) == 5 and len(load(folder, "valid")) == 2 and len(load(folder, "test")) == 0
    assert load(folder, "valid").ranked.counts.tolist() == [0, 0]
    output = capsys.readouterr().out
    assert "train: 5 sentences" in output and "test: 0 sentences" in output
    assert "2 sentences without any pair, 1 empty sentences" in output


def test_a_training_set_of_one_pair(tmp_path):
    folder = make_data_bin(tmp_path, [("a b", "x")])
    attach.main([str(folder)])
    assert load(folder).ranked[0][0].tolist() == []
    assert load(folder, "valid").ranked[0][0].tolist() == [0]


def test_raw_text_and_shards(tmp_path):
    """Raw text is the same data; a second shard train1 joins the memory as in fairseq."""
    lines = [("a b c", "x"), ("a b d", "y")]
    raw, binary = make_data_bin(tmp_path / "raw", lines, "raw"), make_data_bin(tmp_path / "mmap", lines)
    for folder in (raw, binary):
        attach.main([str(folder)])
    assert (raw / f"train.{SOURCE}-{TARGET}.memory").read_bytes() == (
        binary / f"train.{SOURCE}-{TARGET}.memory"
    ).read_bytes()
    for path in list(binary.glob(f"train.{SOURCE}-{TARGET}.*.*")):
        shutil.copy(path, binary / path.name.replace("train.", "train1."))
    assert len(DataBin(binary).pair("train")[0]) == 4
    assert DataBin(binary).splits() == ["train", "valid", "test"]
    attach.main([str(binary)])
    assert len(load(binary)) == 4


def test_a_changed_data_bin_is_attached_anew(tmp_path):
    folder = make_data_bin(tmp_path / "one", [("a b c", "x"), ("a b d", "y")])
    attach.main([str(folder)])
    stale = load(folder).memory_fingerprint
    other = make_data_bin(tmp_path / "two", [("a b d", "y"), ("a b c", "x"), ("c", "x")])
    for path in other.iterdir():
        shutil.copy(path, folder)
    attach.main([str(folder)])
    assert load(folder).memory_fingerprint != stale
    assert len(load(folder)) == 3


@pytest.mark.parametrize("damage", ["cut", "missing"])
@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_damaged_index_is_rebuilt(tmp_path, shards: int | None, damage: str, engine: str, caplog):
    """Every file but the one that says that the index is whole, and those that nobody reads."""
    home = DataBin(make_data_bin(tmp_path / "one", [("a b c", "x"), ("a b d", "y")]))
    settings = SearchSettings(engine=engine)
    expected = open_retriever(home, settings, shards=shards).search([home.pair("train")[0][0]])
    folder = index_folder(home, engine)
    for name in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.stat().st_size):
        path = folder / name
        if path.is_dir() or path.name == "identity.json" or not path.exists():  # rebuilt with other names
            continue
        path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        caplog.clear()
        with pytest.raises(SegError, match="is damaged .*: run seg-attach to rebuild it"):
            open_retriever(home, settings, may_build=False)
        found = open_retriever(home, settings).search([home.pair("train")[0][0]])
        assert found.ids.tolist() == expected.ids.tolist(), name
        assert "is damaged" in caplog.text and (folder / "shard1").exists() == (shards == 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/nothing"], "is not a folder: give the --destdir of fairseq-preprocess"),
        (["{}:{}"], "names several data-bins: run the command on each"),
        (["{}/.."], "has no binarized split: run fairseq-preprocess"),
        (["{}", "-s", "de"], "holds en-fr, not de-fr: correct -s and -t"),
        (["{}", "--splits", "dev"], "has none of the splits dev, only train, valid, test"),
    ],
)
def test_wrong_folders_are_said_in_a_sentence(fresh, arguments, message):
    with pytest.raises(SystemExit, match=message):
        attach.main([argument.replace("{}", str(fresh)) for argument in arguments])


def test_cut_off_data_is_said_in_a_sentence(fresh):
    path = fresh / f"train.{SOURCE}-{TARGET}.{TARGET}.bin"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(SystemExit, match="is truncated: run fairseq-preprocess again"):
        attach.main([str(fresh)])
    assert not list(fresh.glob("*.memory")) and not list(fresh.glob("index.*"))


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(fresh):
    """A file where the index has to go: unlike missing rights, this stops root too."""
    (fresh / f"index.{SOURCE}-{TARGET}.{SOURCE}.lucene.part").touch()
    with pytest.raises(SystemExit, match=r"seg-attach: .*lucene.part cannot be read or written: File exists\."):
        attach.main([str(fresh), "--processes", "1"])
    assert not list(fresh.glob("*.memory"))


def test_the_script_runs_from_the_clone(fresh):
    command = [sys.executable, str(SCRIPT), str(fresh), "--splits", "test"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=fresh)
    assert process.returncode == 0, process.stderr
    assert "test: 40 sentences" in process.stdout
    assert "sentences/s" in process.stderr  # the progress bar
    help_text = subprocess.run(
        [sys.executable, "-X", "importtime", str(SCRIPT), "--help"], capture_output=True, text=True
    )
    for heavy in ("torch", "fairseq.", "jnius", "pandas"):
        assert heavy not in help_text.stderr
