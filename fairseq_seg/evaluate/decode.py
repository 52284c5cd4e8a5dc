"""Translate a split with a checkpoint, by stock fairseq-generate in its own process, and keep the output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import Split

PACKAGE = Path(__file__).resolve().parents[1]
REMOVE = {"sentencepiece": ["--remove-bpe", "sentencepiece"], "@@": ["--remove-bpe"], "none": []}


def kept_path(folder: Path, checkpoint: Path, options: list[str], split: Split, ending: str) -> Path:
    """Name the file for a result; the name depends on checkpoint, split, attached file and options."""
    try:
        state = checkpoint.stat()
    except OSError as error:
        raise SegError(f"The checkpoint {checkpoint} cannot be read: {error.strerror}.") from None
    facts = [checkpoint.resolve(), state.st_size, state.st_mtime_ns, split.name, split.fingerprint, split.attached]
    digest = blake2b("\n".join(map(str, [*facts, *options])).encode(), digest_size=4).hexdigest()
    readable = re.sub(r"\W+", "-", " ".join([checkpoint.stem, *options]))[:60].strip("-")
    return folder / f"{readable}-{digest}{ending}"


def generate(name: str, checkpoint: Path, options: list[str], split: Split, folder: Path) -> Path:
    """Translate with beam 5 unless the options say otherwise, or reuse an earlier output; return its path.

    The log of fairseq-generate is beside its output, with the extension .log.
    """
    path = kept_path(folder, checkpoint, options, split, ".gen")
    plugin = ["--user-dir", str(PACKAGE), "--task", "seg_translation"]
    decoding = ["--path", str(checkpoint), "--gen-subset", split.name, "--beam", "5", "--batch-size", "32"]
    arguments = [*split.arguments, *plugin, *decoding, *REMOVE[split.subword], *options]
    run_kept("fairseq_cli.generate", arguments, path, b"\nH-", len(split), name)
    return path


def run_kept(module: str, arguments: list[str], path: Path, mark: bytes, total: int, name: str) -> None:
    """Run a command and write its standard output to `path` atomically, unless that exists already.

    With --memory it runs each time: the user's own memory may have grown. The progress bar counts `mark`, which begins
    with a line feed, in the output. If the command fails, the error quotes the last line of its log.
    """
    from tqdm import tqdm

    if path.exists() and not any(argument.partition("=")[0] == "--memory" for argument in arguments):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, log = path.with_name(path.name + ".part"), path.with_suffix(".log")
    with open(partial, "wb") as output, open(log, "wb") as messages:
        command = [sys.executable, "-m", module, *arguments]
        # Unbuffered, so that the bar moves with every sentence.
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=messages, env=environment)
    try:
        with tqdm(desc=name, total=total, unit=" sentences") as bar, open(partial, "rb") as output:
            before = b"\n"  # the end of what was read, in case a mark is split in two
            while True:
                ended = process.poll() is not None
                read = before + output.read()
                if found := read.count(mark):
                    bar.update(found)
                before = read[-(len(mark) - 1) :]
                if ended:
                    break
                time.sleep(0.2)
        if process.returncode < 0:
            raise SegError(f"{name} could not be translated: signal {-process.returncode} ended it, see {log}.")
        if process.returncode > 0:
            lines = re.split(r"[\r\n]+", log.read_text(encoding="utf-8", errors="replace"))
            said = [line for line in lines if line.strip() and "%|" not in line]  # a progress bar says nothing
            reason = said[-1].strip() if said else f"it ended with code {process.returncode}"
            raise SegError(f"{name} could not be translated: {reason}")
        os.replace(partial, path)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        partial.unlink(missing_ok=True)
