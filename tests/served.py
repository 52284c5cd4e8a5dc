"""A small trained model folder, and servers of it as real processes."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from fairseq_seg.cli import model as seg_model
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import Corpus, make_corpus
from tests.stock import ROOT, TRAINING, run_stock

QUIET = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
DECODING = ["--beam=2", "--max-len-a=0", "--max-len-b=20", "--cpu"]


def served_corpus() -> Corpus:
    return make_corpus(seed=3, groups=60, held_out=15)


def make_model(folder: Path) -> Path:
    """Train a model of `served_corpus` for a moment, and make a model folder of it."""
    attached = prepare(served_corpus(), folder)
    sizes = ["--hidden-size", 32, "--embed-dim", 32, "--memory-k", 2, "--max-epoch", 30, "--disable-validation"]
    run_stock("train", attached, *PLUGIN, *TRAINING, *sizes, "--save-dir", folder / "checkpoints")
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    seg_model.main([str(attached), "--path", str(checkpoint), "--output", str(folder / "model"), "--memory-k=2"])
    return folder / "model"


class Zygote:
    """A process that has imported torch and fairseq once, and forks a server when told to: that takes no time.

    The tests' own process would not do: it may run Java, which does not survive a fork.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.served"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | QUIET
        )
        atexit.register(self._process.stdin.close)

    def _ask(self, *words: object) -> int:
        self._process.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(self, log: Path, *arguments: object) -> int:
        """Start a server that writes its log to a file, and return its process id."""
        return self._ask("start", log, *arguments)

    def wait(self, pid: int) -> int:
        """Wait for a server's end, and return its exit status, negative for a signal."""
        return self._ask("wait", pid)

    @staticmethod
    def main() -> None:
        """Run as the zygote, until standard input ends."""
        import fairseq_seg.models.seg_gru
        import fairseq_seg.serve.app  # noqa: F401
        from fairseq_seg.cli import serve

        answers, children = os.fdopen(os.dup(1), "w"), set()
        for line in sys.stdin:
            command, first, *arguments = json.loads(line)
            if command == "start":
                answer = os.fork()
                if not answer:
                    file = os.open(first, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                    null = os.open(os.devnull, os.O_RDONLY)
                    for number, replacement in ((0, null), (1, file), (2, file)):
                        os.dup2(replacement, number)
                    status = 1
                    try:
                        serve.main(arguments)
                        status = 0
                    except SystemExit as stop:
                        print(stop.code, file=sys.stderr, flush=True)
                    finally:
                        os._exit(status)
                children.add(answer)
            else:
                children.discard(int(first))
                answer = os.waitstatus_to_exitcode(os.waitpid(int(first), 0)[1])
            print(answer, file=answers, flush=True)
        for child in children:
            os.kill(child, signal.SIGKILL)


@cache
def zygote() -> Zygote:
    return Zygote()


class Server:
    """A process of seg-serve; `url` ends in a slash."""

    def __init__(self, *arguments: object, wait: bool = True):
        handle, name = tempfile.mkstemp(suffix=".log")
        os.close(handle)
        self.log = Path(name)
        self.pid: int | None = zygote().start(self.log, "--port=0", *DECODING, *arguments)
        if wait:
            self.wait()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of the log about an event."""
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in map(json.loads, lines) if line["event"] == name]

    def wait(self) -> None:
        """Wait until it is ready."""
        end = time.monotonic() + 240
        while not self.events("ready"):
            assert time.monotonic() < end and is_alive(self.pid), self.log.read_text()
            time.sleep(0.05)
        [line] = self.events("listening")
        self.url = line["url"]
        while True:  # the socket listens a moment later
            try:
                self.get("health")
                return
            except urllib.error.URLError:
                assert time.monotonic() < end
                time.sleep(0.02)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, parsed JSON (or text) and headers; a body that is not bytes is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, raw, found = response.status, response.read(), dict(response.headers)
        except urllib.error.HTTPError as error:
            status, raw, found = error.code, error.read(), dict(error.headers)
        text = raw.decode()
        return status, json.loads(text) if "json" in found.get("content-type", "") else text, found

    def get(self, path: str, **headers: str) -> Any:
        """Return the answer to a request that succeeds."""
        status, answer, _ = self.request("GET", path, headers=headers)
        assert status == 200, answer
        return answer

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Return the answer to a request that succeeds."""
        status, answer, _ = self.request("POST", path, body, headers)
        assert status in (200, 201), answer
        return answer

    def translate(self, text: str, **headers: str) -> str:
        return self.post("translate", {"q": text, "source": "en", "target": "fr"}, **headers)["translatedText"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the process, and return its exit status."""
        if self.pid is None:
            return 0
        os.kill(self.pid, number)
        return self.wait_for_end()

    def wait_for_end(self) -> int:
        """Wait until the process ends, and return its exit status."""
        pid, self.pid = self.pid, None
        return zygote().wait(pid)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended is a zombie until the zygote waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    Zygote.main()
