"""Work on a cluster through Apache Spark: a connection and tasks that fail with a sentence, never a Java trace.

Executors need Java, and Python with the packages that retrieval uses. This package itself is sent to them. Only the
standard library is imported here, so that an executor can still report that a package is missing.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import socket
import sys
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fairseq_seg.errors import SegError, need

# Seconds to wait for a master.
ANSWER_SECONDS = 10
# Seconds without an executor after which the user is told why nothing happens.
PATIENCE_SECONDS = 60
# Pieces of work that wait at Spark for each core, so that no core ever waits for this process.
AHEAD = 2
# How long a file that an executor wrote may take to appear here: network file systems remember what was not there.
APPEAR_SECONDS = 60
# The key of what a failed task reports; all other keys are greater.
FAILED = -1
PACKAGE = Path(__file__).resolve().parents[1]
# Spark replaces a configuration without appenders by its own, and sets the level of all loggers to the gateway's.
QUIET = """appender.nowhere.type = Null
appender.nowhere.name = nowhere
rootLogger.appenderRef.nowhere.ref = nowhere
rootLogger.level = off
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


class SharedFolder(NamedTuple):
    """A folder as an executor finds it: a path that all machines share, or the name of a copy that Spark brought."""

    path: str
    shipped: bool

    def here(self) -> Path:
        """Return the folder on the machine that asks."""
        if self.shipped:
            from pyspark import SparkFiles

            return Path(SparkFiles.get(self.path))
        if not Path(self.path).is_dir():
            raise SegError(
                f"{self.path} is not there: name a folder that all machines share, or leave out --spark-index."
            )
        return Path(self.path)


def check_master(master: str) -> None:
    """Refuse a standalone master that does not answer, for which Spark would try a minute, and a missing pyspark."""
    need("pyspark", "spark", "--spark")
    reason = None
    addresses = re.findall(r"([^/,]+):(\d+)", master) if master.startswith("spark://") else []
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
            return
        except OSError as error:
            reason = error.strerror or "no answer"
    if reason:
        raise SegError(f"No Spark master answers at {master} ({reason}): start it, or correct --spark.")


@contextmanager
def connect(master: str) -> Iterator[Cluster]:
    """Connect to a cluster (`spark://host:7077`, `yarn`) or start Spark on this machine (`local[2]`).

    Everything else is configured where Spark looks for it: spark-defaults.conf in SPARK_CONF_DIR, PYSPARK_PYTHON.
    """
    from fairseq_seg.retrieval.lucene import find_java_home

    check_master(master)
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext

    os.environ["JAVA_HOME"] = find_java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark takes Ctrl-C for itself; here it is left to Python.
    interrupt = signal.getsignal(signal.SIGINT)
    with TemporaryDirectory(prefix="fairseq-seg-") as folder:
        keep_quiet(Path(folder))
        settings = SparkConf().setMaster(master).setAppName("seg-attach").set("spark.ui.showConsoleProgress", "false")
        settings.set("spark.hadoop.yarn.resourcemanager.connect.max-wait.ms", str(1000 * PATIENCE_SECONDS))
        try:
            context = SparkContext(conf=settings)
        except Exception as error:
            raise SegError(f"Spark cannot work with the master {master}: {reason_of(error)}.") from None
        finally:
            with suppress(ValueError):  # not the main thread: Spark has not taken it
                signal.signal(signal.SIGINT, interrupt)
        try:
            package = Path(folder) / "fairseq_seg.zip"
            make_zip(package, ((path, path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")))
            context.addPyFile(str(package))
            yield Cluster(context, Path(folder))
        except Py4JError as error:
            reason = reason_of(error)
            if "stopped SparkContext" in reason:
                reason = f"{master} does not answer as a master does, or none of its workers can start an executor"
            raise SegError(f"Spark has given up: {reason}. See the logs of its master and workers.") from None
        finally:
            context.stop()


def keep_quiet(folder: Path) -> None:
    """Turn off the log of the bridge to Spark, and Spark's own unless the user has configured it."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j2.configurationFile" not in options:
        path = folder / "log4j2.properties"
        path.write_text(QUIET, encoding="utf-8")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile=file:{path}"


def make_zip(path: Path, files: Iterable[tuple[Path, Path]]) -> None:
    """Pack files under new names, without compression: indexes hardly shrink."""
    with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
        for file, name in files:
            archive.write(file, name)


class Cluster:
    """A connection to Spark."""

    def __init__(self, context, folder: Path):
        """Take Spark's context, and a folder that lasts as long as the connection for what is sent."""
        self._context = context
        self._folder = folder

    @property
    def cores(self) -> int:
        """How many tasks run at a time, as far as Spark knows by now."""
        return self._context.defaultParallelism

    def ship(self, name: str, files: Iterable[tuple[Path, Path]]) -> SharedFolder:
        """Send (file, name) to every executor, as a folder of these names."""
        archive = self._folder / f"{name}.zip"
        make_zip(archive, files)
        self._context.addArchive(f"{archive}#{name}")
        return SharedFolder(name, shipped=True)

    def run(self, function: Callable, tasks: list[tuple]) -> list:
        """Call a module's function on executors, once per task with its arguments, and return the results.

        Spark repeats a task whose executor is lost; what the function itself refuses with a `SegError` is final.
        """
        work = [pickle.dumps((function, arguments)) for arguments in tasks]
        answers = self._context.parallelize(work, len(work)).map(on_executor).collect()
        results = []
        for sentence, result in map(pickle.loads, answers):
            if sentence:
                raise SegError(sentence)
            results.append(result)
        return results

    def run_merged(self, function: Callable, tasks: list[tuple], merge: Callable, arguments: tuple) -> list:
        """Call a function on executors, once per task, and another on what all tasks found for the same key.

        The function yields (key, found); keys are numbers. Of each key, executors call ``merge(key, all that was found,
        *arguments)``. Return its results in the order of the keys. What the tasks find goes from executor to executor.
        """
        work = [pickle.dumps((function, task)) for task in tasks]
        then = pickle.dumps((merge, arguments))
        found = self._context.parallelize(work, len(work)).flatMap(keyed_on_executor).groupByKey(len(work))
        answers = found.map(partial(merge_on_executor, then, len(work))).collect()
        sentences = [sentence for _, sentence, _ in answers if sentence]
        if sentences:
            raise SegError(sentences[0])
        return [pickle.loads(result) for _, _, result in sorted(answers, key=lambda answer: answer[0])]

    def map(self, work: Callable, items: Iterable) -> Iterator:
        """Yield ``work(item)`` of each item in order. The work calls `run`, and a thread waits for its results."""
        waiting: deque[Future] = deque()
        with ThreadPoolExecutor(max_workers=1024) as threads:
            try:
                for item in items:
                    waiting.append(threads.submit(work, item))
                    while len(waiting) > AHEAD * self.cores:
                        yield self._result(waiting.popleft())
                while waiting:
                    yield self._result(waiting.popleft())
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._context.cancelAllJobs()  # which also ends the threads
                raise

    def _result(self, future: Future):
        """Wait for a result; after a while without any executor, say so."""
        try:
            return future.result(PATIENCE_SECONDS)
        except NotYet:
            tracker = self._context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if not any(stage and stage.numActiveTasks for stage in stages):
                print(
                    f"\nThe cluster has run nothing for {PATIENCE_SECONDS} s: it has no worker, or none is free; "
                    "still waiting (Ctrl-C stops).",
                    file=sys.stderr,
                )
            return future.result()


def wait_for_part(path: Path) -> None:
    """Wait until a part that an executor has written can be seen here."""
    end = time.monotonic() + APPEAR_SECONDS
    while not path.exists():
        if time.monotonic() > end:
            raise SegError(
                f"Executors have written {path}, but it is not there on this machine: name a folder that all machines "
                "share with --spark-parts."
            )
        time.sleep(0.1)


def on_executor(work: bytes) -> bytes:
    """Run a task and return its result, or one sentence about what this machine is missing.

    Work and answer are pickled here, not by Spark, because even reading them may need a package that is missing.
    """
    sentence, result = attempt(lambda call, arguments: call(*arguments), work)
    return pickle.dumps((sentence, result))


def keyed_on_executor(work: bytes) -> list[tuple[int, tuple[str | None, bytes]]]:
    """Run a task that yields (key, found); a failure has the key `FAILED`."""
    sentence, found = attempt(
        lambda call, arguments: [(key, (None, pickle.dumps(part))) for key, part in call(*arguments)], work
    )
    return [(FAILED, (sentence, b""))] if sentence else found


def merge_on_executor(work: bytes, tasks: int, found: tuple) -> tuple[int, str | None, bytes]:
    """Merge what the tasks found for a key; return the key, one sentence if something failed, and the result.

    Where a task has failed, its part is missing, and nothing is merged: the failure is reported under its own key.
    """
    key, parts = found[0], list(found[1])
    sentence = next((sentence for sentence, _ in parts if sentence), None)
    if sentence or len(parts) < tasks:
        return key, sentence, pickle.dumps(None)
    sentence, result = attempt(
        lambda call, arguments: call(key, [pickle.loads(part) for _, part in parts], *arguments), work
    )
    return key, sentence, pickle.dumps(result)


def attempt(run: Callable, work: bytes) -> tuple[str | None, Any]:
    """Unpickle and run a task; return one sentence about what this machine is missing, or None, and the result."""
    try:
        return None, run(*pickle.loads(work))
    except SegError as error:
        sentence = str(error)
    except ImportError as error:
        sentence = (
            f"Python at {sys.executable} lacks a package ({error}): install it, or set PYSPARK_PYTHON to another."
        )
    except OSError as error:  # a disk or a shared path
        sentence = f"{error.filename or 'a file'} cannot be read or written ({error.strerror or error})."
    return f"On the executor {socket.gethostname()}: {sentence}", None


def reason_of(error: Exception) -> str:
    """Find what went wrong in an error of Spark's: a line of an executor's Python, or of Java, without traces."""
    java = getattr(error, "java_exception", None)
    text = (java.toString() if java is not None else str(error)).strip()
    python = re.search(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", text)
    line = python[1] if python else text.splitlines()[0]
    return re.sub(r"^(.*: Lost task [^(]*\(.*?\) \(.*?\): )?([\w.]*(Exception|Error): )*", "", line).rstrip(". ")
