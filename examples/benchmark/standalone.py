"""A Spark master and its workers in this machine, out of reach from beyond it; for the benchmark and the tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


class StandaloneCluster:
    """A master and workers of one core each, every one in a process group of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self._folder, self._environment = folder, os.environ | environment
        self._processes: list[subprocess.Popen] = []
        self.master = ""
        self.workers: list[subprocess.Popen] = []

    def start(self, workers: int) -> None:
        """Start the master and the workers, and wait until all are there."""
        log = self._spawn("master", "master.Master", "--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        self.master = wait_for(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()))[1]
        options = ("--host", LOOPBACK, "--webui-port", "0", "--cores", "1", "--memory", "1g", self.master)
        for number in range(workers):
            self._spawn(f"worker{number}", "worker.Worker", "--work-dir", self._folder / f"work{number}", *options)
        self.workers = self._processes[1:]
        for number in range(workers):
            log = self._folder / f"worker{number}.log"
            wait_for(lambda log=log: "Successfully registered with master" in log.read_text())

    def _spawn(self, name: str, part: str, *options: str | Path) -> Path:
        # As Spark's script spark-class does it, which takes another Java process to find these words.
        java = [Path(find_java_home()) / "bin" / "java", *JAVA_OPTIONS.split(), "-Xmx256m", "-cp", JARS]
        command = [*java, f"org.apache.spark.deploy.{part}", *options]
        log = self._folder / f"{name}.log"
        with log.open("w") as file:
            streams = {"stdout": file, "stderr": subprocess.STDOUT}
            self._processes.append(subprocess.Popen(command, **streams, env=self._environment, start_new_session=True))
        return log

    def kill(self, process: subprocess.Popen) -> None:
        """End a master, or a worker and its executors, as a power cut would."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all that still runs."""
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)


def wait_for(condition: Callable):
    """Return the condition's value as soon as it is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError("waited in vain")
        time.sleep(0.05)
    return value


@contextmanager
def standalone_cluster(folder: Path, environment: dict[str, str], workers: int = 2) -> Iterator[StandaloneCluster]:
    """Open a cluster that is stopped whatever happens."""
    cluster = StandaloneCluster(folder, environment)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()
