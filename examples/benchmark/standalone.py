"""A Spark master and its workers in this machine, out of reach from beyond it; for the benchmark and the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from fairseq_seg.retrieval.lucene import find_java_home

LOOPBACK = "127.0.0.1"
# Little memory, and no time spent on optimizing what runs for some minutes.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+PerfDisableSharedMem"
DEFAULTS = f"""
spark.driver.host {LOOPBACK}
spark.driver.bindAddress {LOOPBACK}
spark.driver.extraJavaOptions {JAVA_OPTIONS}
spark.executor.memory 512m
spark.executor.extraJavaOptions {JAVA_OPTIONS}
spark.ui.enabled false
"""
JARS = Path(pyspark.__file__).parent / "jars" / "*"
PATIENCE_SECONDS = 120


def loopback_settings(folder: Path) -> dict[str, str]:
    """Write Spark's settings for a small machine into a folder; return the environment in which Spark reads them."""
    (folder / "spark-defaults.conf").write_text(DEFAULTS)
    scala = re.match(r"scala-library-(\d+\.\d+)", next(JARS.parent.glob("scala-library-*")).name)[1]
    home = {"SPARK_HOME": str(JARS.parents[1]), "SPARK_SCALA_VERSION": scala}
    return {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": LOOPBACK} | home


class StandaloneCluster(NamedTuple):
    """A master and workers of one core each, every one in a process group of its own."""

    master: str
    workers: list[subprocess.Popen]


def kill(process: subprocess.Popen) -> None:
    """End a master, or a worker and its executors, as a power cut would."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition: Callable):
    """Return the condition's value as soon as it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"Spark was not ready after {PATIENCE_SECONDS} seconds")
        time.sleep(0.05)
    return value


@contextmanager
def standalone_cluster(folder: Path, environment: dict[str, str], workers: int = 2) -> Iterator[StandaloneCluster]:
    """Start a master and workers, wait until all are registered, and stop them whatever happens."""
    # As Spark's script spark-class does it, which takes another Java process to find these words.
    java = [Path(find_java_home()) / "bin" / "java", *JAVA_OPTIONS.split(), "-Xmx256m", "-cp", JARS]
    network = ("--host", LOOPBACK, "--webui-port", "0")
    with ExitStack() as stack:

        def spawn(name: str, part: str, *options: str | Path) -> tuple[subprocess.Popen, Path]:
            command, log = [*java, f"org.apache.spark.deploy.{part}", *network, *options], folder / f"{name}.log"
            streams = {"stdout": stack.enter_context(log.open("w")), "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, **streams, env=os.environ | environment, start_new_session=True)
            stack.callback(kill, process)
            return process, log

        _, log = spawn("master", "master.Master", "--port", "0")
        master = wait_for(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()))[1]
        options = ("--cores", "1", "--memory", "1g", master)
        started = [
            spawn(f"worker{number}", "worker.Worker", "--work-dir", folder / f"work{number}", *options)
            for number in range(workers)
        ]
        for _, log in started:
            wait_for(lambda log=log: "Successfully registered with master" in log.read_text())
        yield StandaloneCluster(master, [process for process, _ in started])
