"""Runs fairseq's own commands: in this process, which saves their start-up of several seconds, or as a real process."""

import contextlib
import importlib
import io
import logging
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLUGIN = ["--user-dir", str(ROOT / "fairseq_seg"), "--task", "seg_translation", "--memory-k", "0"]
# Translations of the generated corpus have at most 13 words; a model that has learnt little would go on to 200.
DECODING = ["--max-len-a", "0", "--max-len-b", "20"]
# Small enough for a test, large enough to learn the corpus.
MODEL = ["--arch", "seg_gru_small", "--hidden-size", "64", "--embed-dim", "64", "--gate-hidden", "16"]
TRAINING = [*MODEL, "--criterion", "seg_cross_entropy", "--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0"]
TRAINING += ["--batch-size", "32", "--cpu"]


@contextlib.contextmanager
def _fresh_state(argv: list[str], stdin: str, output: io.StringIO) -> Iterator[None]:
    """Give a command the arguments, streams, log and counters that it would find in a process of its own."""
    from fairseq import checkpoint_utils
    from fairseq.logging import metrics
    from fairseq_cli import train

    # fairseq does not look into a --user-dir whose package another test has imported already.
    for module in ("tasks.seg_translation", "models.seg_gru", "models.seg_transformer", "criterions.seg_cross_entropy"):
        importlib.import_module(f"fairseq_seg.{module}")
    for function in (checkpoint_utils.save_checkpoint, train.should_stop_early):  # their memory is their attributes
        vars(function).clear()
    metrics.reset()
    log = logging.getLogger()
    handlers, level = log.handlers[:], log.level
    saved_argv, saved_stdin = sys.argv, sys.stdin
    log.handlers[:] = [logging.StreamHandler(output)]
    log.handlers[0].setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    log.setLevel(logging.INFO)
    sys.argv, sys.stdin = argv, io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    finally:
        log.handlers[:] = handlers
        log.setLevel(level)
        sys.argv, sys.stdin = saved_argv, saved_stdin


def _run(command: str, arguments: tuple[object, ...], stdin: str, output: io.StringIO) -> None:
    module = importlib.import_module(f"fairseq_cli.{command}")
    # A data loader's worker takes seconds to end; the real processes have one.
    with _fresh_state([f"fairseq-{command}", *map(str, arguments), "--num-workers", "0"], stdin, output):
        module.cli_main()


def run_stock(command: str, *arguments: object, stdin: str = "") -> str:
    """Run a stock command (`train`, `generate`, ...) in this process and return what it printed."""
    output = io.StringIO()
    try:
        _run(command, arguments, stdin, output)
    except SystemExit as stop:
        raise AssertionError(f"fairseq-{command} stopped: {stop}\n{output.getvalue()}") from None
    return output.getvalue()


def run_stock_until_it_stops(command: str, *arguments: object, stdin: str = "") -> str:
    """Run a stock command that must stop with a message, and return the message as a terminal would show it."""
    output = io.StringIO()
    try:
        _run(command, arguments, stdin, output)
    except SystemExit as stop:
        assert stop.code, f"fairseq-{command} stopped as if nothing were wrong\n{output.getvalue()}"
        # A number is argparse's status: its message is in the output.
        return stop.code if isinstance(stop.code, str) else output.getvalue().strip().splitlines()[-1]
    raise AssertionError(f"fairseq-{command} did not stop\n{output.getvalue()}")


def start_process(command: str, *arguments: object, stdin: str | None = None) -> subprocess.Popen[str]:
    """Start the installed command `fairseq-{command}` as a user would, away from the clone."""
    program = Path(sys.executable).with_name(f"fairseq-{command}")
    return subprocess.Popen(
        [program, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_process(command: str, *arguments: object, stdin: str | None = None) -> str:
    """Run `fairseq-{command}` as a real process and return what it printed."""
    process = start_process(command, *arguments, stdin=stdin)
    output, _ = process.communicate(stdin, timeout=300)
    assert process.returncode == 0, output
    return output


def train_two_processes(*arguments: object, expected: int = 0) -> list[str]:
    """Run `fairseq-train` as two processes that train one model, and return what each printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = ["--distributed-world-size", 2, "--distributed-init-method", f"tcp://127.0.0.1:{port}"]
    together += ["--distributed-no-spawn", "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    ranks = [start_process("train", *arguments, *together, "--distributed-rank", rank) for rank in (0, 1)]
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [expected] * 2, "\n".join(outputs)
    return outputs


def tagged_lines(output: str, tag: str) -> dict[int, list[list[str]]]:
    """Return the fields of every line `{tag}-{id}`, by id in the order of their first line: `H` has score and text."""
    found = defaultdict(list)
    for line in output.splitlines():
        head, *fields = line.split("\t")
        if head.startswith(f"{tag}-") and head[len(tag) + 1 :].isdigit():
            found[int(head[len(tag) + 1 :])].append(fields)
    return dict(found)


def hypotheses(output: str) -> dict[int, list[str]]:
    """Return the texts of the hypotheses (lines H) by sentence."""
    return {index: [fields[1] for fields in lines] for index, lines in tagged_lines(output, "H").items()}
