"""Run the steps of a recipe: every step is a command, printed before it runs, and a finished step is not repeated."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Event

from tqdm import tqdm

from fairseq_seg.errors import SegError

# Where commands run: the folder that has the package, in a clone also the examples.
ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Return the environment of commands, in which those of this Python come first; refuse one without fairseq's."""
    values = dict(os.environ)
    values["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), values.get("PATH", "")])
    if shutil.which("fairseq-train", path=values["PATH"]) is None:
        raise SegError("fairseq-train was not found: run `make setup`, then use .venv/bin/python.")
    return values


def outdated(mark: Path, command: list[str], after: Sequence[Path]) -> str:
    """Say why a finished step is stale: another command, or newer input (the files `after` which it runs); or ''."""
    if mark.read_text(encoding="utf-8") != shlex.join(command):
        return "with other options"
    if any(used.stat().st_mtime_ns > mark.stat().st_mtime_ns for used in after):
        return "before its input was rebuilt"
    return ""


class Runner:
    """Runs each command once: a finished step leaves a mark, a file with its command, beside its results."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment
        self.stopping = Event()

    def once(
        self, folder: Path, step: str, parts: Sequence[object], after: Sequence[Path] = (), output: Path | None = None
    ) -> Path:
        """Run a step in the foreground, unless it is finished and up to date; return its mark.

        Its standard output goes to the file `output`, if given, and its messages, which tell the speed, beside that.
        """
        command = [str(part) for part in parts]
        mark = folder / f"{step}.finished"
        if not mark.exists() or outdated(mark, command, after):
            self.show(command)
            log = output.with_suffix(".log") if output else None
            with (
                open(output, "wb") if output else nullcontext() as out,
                open(log, "wb") if log else nullcontext() as err,
            ):
                failed = subprocess.run(command, cwd=ROOT, env=self.environment, stdout=out, stderr=err).returncode
            if failed:
                raise SegError(
                    f"The step '{step}' failed: see {f'its message in {log}' if log else 'its message above'}."
                )
            mark.write_text(shlex.join(command), encoding="utf-8")
        return mark

    @staticmethod
    def check_training(folder: Path, command: list[str], after: Sequence[Path]) -> None:
        """Refuse to resume a training, finished or not, with another command: only the user may remove it."""
        begun = folder / "train.begun"
        if begun.exists() and any(folder.glob("checkpoint*.pt")) and (reason := outdated(begun, command, after)):
            raise SegError(
                f"{folder} was trained {reason}: remove that folder to train it again, or give another --output."
            )

    def train(self, folder: Path, name: str, updates: int, command: list[str], position: int) -> None:
        """Run a training beside others, its output in train.out and its progress, read from its log, as a bar."""
        finished = folder / "train.finished"
        if finished.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("checkpoint*.pt")):
            (folder / "train.begun").write_text(shlex.join(command), encoding="utf-8")
        self.show(command)
        with (folder / "train.out").open("ab") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=output, stderr=output)
        try:
            with tqdm(total=updates, desc=name, unit=" updates", position=position) as bar:
                while process.poll() is None and not self.stopping.is_set():
                    time.sleep(0.5)
                    self.advance(bar, folder / "train.log")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode:
            lines = (folder / "train.out").read_text(encoding="utf-8", errors="replace").split("\n")
            said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise SegError(f"Training {name} failed: {said.strip()} (all of it: {folder / 'train.out'})")
        finished.touch()

    @staticmethod
    def advance(bar, log: Path) -> None:
        """Move a bar to the last update that a training logged."""
        if log.exists():
            with log.open("rb") as stream:
                stream.seek(max(0, log.stat().st_size - 16384))
                lines = stream.read().decode("utf-8", "replace").splitlines()
            found = [updates for updates in map(logged_updates, lines) if updates is not None]
            bar.update(found[-1] - bar.n if found else 0)

    @staticmethod
    def show(command: list[str]) -> None:
        """Print a command so that it can be copied."""
        tqdm.write(f"\n$ {shlex.join(command)}", file=sys.stderr)


def logged_updates(line: str) -> int | None:
    """Return the number of updates that a line of fairseq's JSON log tells; None for any other line."""
    _, brace, rest = line.partition("{")
    try:
        values = json.loads(brace + rest)
        return next((int(value) for name, value in values.items() if name.endswith("num_updates")), None)
    except ValueError:  # other text, or the log ends within a line
        return None
