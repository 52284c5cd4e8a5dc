"""A small trained model folder, and servers of it as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fairseq_seg.cli import model as seg_model
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import Corpus, make_corpus
from tests.stock import TRAINING, run_stock

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


class Server:
    """A process of seg-serve; `url` ends in a slash."""

    def __init__(self, *arguments: object, wait: bool = True):
        command = [sys.executable, "-m", "fairseq_seg.cli.serve", *map(str, arguments), "--port=0", *DECODING]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"})
        self.lines: list[dict[str, Any]] = []
        self.other: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if wait:
            self.wait()

    def _read(self) -> None:
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]

    def wait(self) -> None:
        """Wait until it is ready."""
        end = time.monotonic() + 240
        while not self.events("ready"):
            assert self.process.poll() is None and time.monotonic() < end, "".join(self.other) + str(self.lines)
            time.sleep(0.1)
        [line] = self.events("listening")
        self.url = line["url"]
        while True:  # the socket listens a moment later
            try:
                return self.get("health") and None
            except urllib.error.URLError:
                assert time.monotonic() < end
                time.sleep(0.05)

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
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(120)
        self._reader.join(10)
        return self.process.returncode

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)
