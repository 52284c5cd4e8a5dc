"""seg-attach on a Spark cluster: a standalone master and two workers on loopback, which these tests start and stop."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from examples.benchmark.standalone import LOOPBACK, kill, loopback_settings, standalone_cluster, wait_for
from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.settings import SearchSettings
from fairseq_seg.errors import SegError
from fairseq_seg.retrieval import attach as attaching
from fairseq_seg.retrieval.spark import ANSWER_SECONDS, Cluster, SharedFolder
from fairseq_seg.retrieval.spark_search import search_partition
from preprocess import attach
from tests.corpus import SOURCE, SPLITS, TARGET
from tests.test_attach import make_data_bin

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def quiet_spark(tmp_path_factory):
    """Spark's settings for a small machine, with nothing that listens beyond it."""
    with pytest.MonkeyPatch.context() as patch:
        settings = loopback_settings(tmp_path_factory.mktemp("conf"))
        for name, value in settings.items():
            patch.setenv(name, value)
        yield settings


@pytest.fixture(scope="module")
def cluster(quiet_spark, tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("spark"), quiet_spark) as started:
        yield started


@pytest.fixture(scope="module")
def local(data_bin, tmp_path_factory):
    """Return a data-bin after seg-attach without Spark."""
    folder = copy_data(data_bin, tmp_path_factory.mktemp("local"), "index.*")
    attach.main([str(folder)])
    return folder


@pytest.fixture
def fresh(local, tmp_path, monkeypatch):
    """Return the same data-bin and index without the attached files, and chunks small enough to be handed out."""
    monkeypatch.setattr(attaching, "CHUNK", 20)
    return copy_data(local, tmp_path)


def copy_data(data: Path, folder: Path, *ignored: str) -> Path:
    return shutil.copytree(data, folder / "data-bin", ignore=shutil.ignore_patterns("*.memory", *ignored))


def assert_same_bytes(folder: Path, local: Path, splits: Sequence[str] = SPLITS) -> None:
    for split in splits:
        name = f"{split}.{SOURCE}-{TARGET}.memory"
        assert (folder / name).read_bytes() == (local / name).read_bytes()


def test_a_cluster_writes_the_same_bytes(cluster, fresh, local, capfd):
    attach.main([str(fresh), "--spark", cluster.master, "--spark-partitions", "4"])
    assert_same_bytes(fresh, local)
    output = capfd.readouterr()
    assert "400/400" in output.err  # the progress bar
    assert "WARN" not in output.err and "log level" not in output.err


def test_a_killed_worker_loses_nothing(cluster, fresh, local, monkeypatch):
    """A power cut while tasks run, here tasks of an index in shards on a shared path: the other worker repeats them."""
    monkeypatch.setattr(attaching, "CHUNK", 10)
    counts = []

    def kill_worker():
        kill(cluster.workers[0])
        counts.append(len(list(fresh.glob("train.*.part/*.npz"))))

    watcher = act_when_some_are_done(fresh, kill_worker)
    sharded = ["--shards", "2", "--spark-index", str(fresh), "--spark-partitions", "40"]
    attach.main([str(fresh), "--spark", cluster.master, "--splits", "train", *sharded])
    watcher.join()
    assert 3 <= counts[0] < 35  # of 40: it was in the middle of the work
    assert cluster.workers[0].returncode == -signal.SIGKILL
    assert_same_bytes(fresh, local, ["train"])


def test_shards_on_a_cluster_write_the_same_bytes_in_parts(cluster, fresh, local, tmp_path, monkeypatch):
    """Executors score, merge, rank and write; the process that asked holds no source and receives no pair."""
    parts = tmp_path / "parts"
    received = []
    run_merged = Cluster.run_merged

    def spy(*arguments):
        received.extend(found := run_merged(*arguments))
        return found

    monkeypatch.setattr(Cluster, "run_merged", spy)
    monkeypatch.setattr(attaching, "make_retriever", lambda *_: pytest.fail("it spells out every source"))
    options = ["--shards", "3", "--spark-partitions", "4", "--spark-parts", str(parts)]
    attach.main([str(fresh), "--spark", cluster.master, *options])
    assert_same_bytes(fresh, local)
    assert received == [None] * (400 // 20 + 2 * 40 // 20)
    assert list(parts.iterdir()) == []  # joined, and removed


def test_shards_give_the_same_bytes_whatever_is_excluded_and_scored(quiet_spark, tmp_path, monkeypatch):
    """With one candidate per sentence, three are fetched: a source that ten pairs share makes its sentences starve."""
    lines = [("a b c", f"x{n}") for n in range(10)] + [("a b d", "y"), ("a d", "y"), ("e", "z")]
    alone, fresh = (make_data_bin(tmp_path / name, lines) for name in ("alone", "fresh"))
    options = ["--splits", "train", "--exclude", "source", "--candidates", "1", "--score-unit", "word"]
    attach.main([str(alone), *options, "--processes", "1"])
    asked = []
    run_merged = Cluster.run_merged

    def spy(self, *arguments):
        asked.append(arguments[3][0])
        return run_merged(self, *arguments)

    monkeypatch.setattr(Cluster, "run_merged", spy)
    attach.main([str(fresh), *options, "--spark", "local[1]", "--shards", "2"])
    assert_same_bytes(fresh, alone, ["train"])
    assert asked == [3, 6, 12]


def test_a_path_that_executors_cannot_write_is_said_in_a_sentence(quiet_spark, fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(attaching, "open_parts", lambda folder, header: None)  # it is made on another machine alone
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(SystemExit, match=r"^On the executor \S+: \S+nowhere\S+ is not there: name a folder that all"):
        attach.main([str(fresh), "--spark", "local[1]", "--splits", "test", "--spark-parts", nowhere])
    (tmp_path / "full" / f"test.{SOURCE}-{TARGET}.memory.part" / "0000000000.npz").mkdir(parents=True)
    monkeypatch.setattr(Path, "exists", lambda self: self.is_file() or (self.is_dir() and self.suffix != ".npz"))
    with pytest.raises(
        SystemExit, match=r"^On the executor \S+: \S+npz\S* cannot be read or written \(Is a directory\)"
    ):
        attach.main([str(fresh), "--spark", "local[1]", "--splits", "test", "--spark-parts", str(tmp_path / "full")])


def test_a_shard_that_is_lost_in_the_middle_is_said_and_the_run_resumes(
    quiet_spark, fresh, local, tmp_path, monkeypatch
):
    attach.main([str(fresh), "--shards", "2", "--splits", "test"])
    shared = shutil.copytree(fresh, tmp_path / "shared")
    options = [str(fresh), "--spark", "local[1]", "--spark-partitions", "10", "--splits", "train"]
    options += ["--spark-index", str(shared)]
    index = next(shared.glob("index.*"))
    shard = shutil.move(index / "pairs1.npz", tmp_path / "pairs1.npz")
    with pytest.raises(SystemExit, match=r"^On the executor \S+: shard 1 of \S+ is lost or damaged .*: put it back"):
        attach.main(options)
    shutil.move(shard, index)
    attach.main(options)
    assert_same_bytes(fresh, local, ["train"])


@pytest.fixture
def ctrl_c():
    """Do what a terminal's Ctrl-C does, which is ignored in what a script started with &."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_and_the_next_run_goes_on(ctrl_c, quiet_spark, fresh, local, monkeypatch):
    monkeypatch.setattr(attaching, "CHUNK", 10)
    watcher = act_when_some_are_done(fresh, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SystemExit, match="stopped. Rerun the command to resume"):
        attach.main([str(fresh), "--spark", "local[1]", "--spark-partitions", "40"])
    watcher.join()
    assert 3 <= len(list(fresh.glob("train.*.part/*.npz"))) < 40 and not list(fresh.glob("*.memory"))
    attach.main([str(fresh), "--splits", "train"])
    assert_same_bytes(fresh, local, ["train"])


def act_when_some_are_done(folder: Path, act) -> threading.Thread:
    """Act from another thread when three chunks of the training set have been written."""

    def watch():
        wait_for(lambda: len(list(folder.glob("train.*.part/*.npz"))) >= 3)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_executor_without_java_is_said_in_a_sentence(quiet_spark, fresh, tmp_path, monkeypatch, capfd):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nJAVA_HOME=/nowhere exec {sys.executable} $@\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    sentence = r"^On the executor \S+: JAVA_HOME is /nowhere, but no Java runtime is there: correct it or unset it\.$"
    with pytest.raises(SystemExit, match=sentence):
        attach.main([str(fresh), "--spark", "local[1]", "--splits", "test"])
    assert "Exception" not in capfd.readouterr().err


def test_an_executor_without_the_index_is_said_in_a_sentence(quiet_spark, fresh, tmp_path):
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(SystemExit, match=r"^On the executor \S+: \S+nowhere is not there: name a folder that all"):
        attach.main([str(fresh), "--spark", "local[1]", "--splits", "test", "--spark-index", nowhere])


def test_an_executor_without_its_python_is_said_in_a_sentence(quiet_spark, fresh, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    with pytest.raises(SystemExit, match='^Spark has given up: Cannot run program "/nowhere/python"'):
        attach.main([str(fresh), "--spark", "local[1]", "--splits", "test"])


def test_an_executor_without_the_packages_is_said_in_a_sentence():
    """Without its packages (-S) an executor's Python can still read this package and answer."""
    code = (
        f"import pickle, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from fairseq_seg.retrieval.spark import on_executor\n"
        f"print(pickle.loads(on_executor({pickle.dumps((search_partition, ()))!r}))[0])"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert re.match(r"On the executor \S+: Python at \S+ lacks a package \(No module named 'numpy'\)", done.stdout), (
        done
    )


def test_a_copy_of_other_pairs_or_without_an_index_is_refused(local, tmp_path):
    """What stands on a shared path need not be what this run asks for."""
    other = copy_data(local, tmp_path)
    memory = (SharedFolder(str(other), shipped=False), (SOURCE, TARGET), SearchSettings(), "pair")
    with pytest.raises(SegError, match="holds other pairs than the training set of this run"):
        search_partition((*memory, "another fingerprint"), [], Selection(), None)
    shutil.rmtree(next(other.glob("index.*")))
    with pytest.raises(SegError, match="is not an index of this training set: run seg-attach"):
        search_partition((*memory, DataBin(local).fingerprint("train")), [], Selection(), None)
    assert not list(other.glob("index.*"))  # an executor makes none


def test_a_master_that_does_not_answer_is_said_in_a_sentence(fresh):
    start = time.monotonic()
    with pytest.raises(SystemExit, match=r"^No Spark master answers at spark://127.0.0.1:1 \(Connection refused\)"):
        attach.main([str(fresh), "--spark", f"spark://{LOOPBACK}:1"])
    assert time.monotonic() - start < ANSWER_SECONDS


def test_a_master_that_is_none_is_said_in_a_sentence(quiet_spark, fresh):
    with pytest.raises(SystemExit, match="Spark cannot work with the master nonsense: Could not parse Master URL"):
        attach.main([str(fresh), "--spark", "nonsense"])
