"""How errors reach people: one sentence from a command, an exception in Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg import errors
from fairseq_seg.errors import SegError, command, hook, is_fairseq_command, visible


def raising(error: BaseException, stopped: str = "stopped."):
    @command("seg-test", stopped=stopped)
    def main(arguments: list[str] | None = None) -> None:
        """Run the command line."""
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (SegError("What is wrong: do this."), "What is wrong: do this."),
        (FileNotFoundError(2, "No such file", "a.txt"), "seg-test: a.txt cannot be read or written: No such file."),
        (OSError(28, "No space left"), "seg-test: a file cannot be read or written: No space left."),
        (KeyboardInterrupt(), "seg-test: stopped."),
    ],
)
def test_a_command_ends_in_one_sentence(error: BaseException, sentence: str):
    with pytest.raises(SystemExit) as end:
        raising(error)([])
    assert end.value.code == sentence


def test_a_command_says_how_to_resume():
    with pytest.raises(SystemExit, match="^seg-test: stopped; rerun it.$"):
        raising(KeyboardInterrupt(), "stopped; rerun it.")([])


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())([])


def test_a_command_keeps_its_name_and_arguments():
    @command("seg-test")
    def main(arguments: list[str] | None = None) -> None:
        """Run the command line."""
        received.append(arguments)

    received: list = []
    main(["a"])
    main(arguments=["b"])
    assert received == [["a"], ["b"]] and (main.__name__, main.__doc__) == ("main", "Run the command line.")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path):
    code = (
        "from fairseq_seg.errors import command\n"
        "@command('seg-test')\n"
        "def main():\n"
        "    for number in range(1_000_000): print(number)\n"
        "main()"
    )
    (tmp_path / "script.py").write_text(code)
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(30) == 0


class Task:
    @hook
    def load(self, name: str) -> str:
        """Load something."""
        if name == "bad":
            raise SegError("It is bad: take another.")
        if name == "bug":
            raise ZeroDivisionError
        return name


def test_a_hook_raises_in_python_and_exits_in_a_command_of_fairseq(monkeypatch: pytest.MonkeyPatch):
    task = Task()
    assert task.load("good") == "good" and Task.load.__name__ == "load"
    with pytest.raises(SegError, match="It is bad"):
        task.load("bad")
    monkeypatch.setattr(errors, "is_fairseq_command", lambda: True)
    assert task.load("good") == "good"
    with pytest.raises(SystemExit) as end:
        task.load("bad")
    assert end.value.code == "It is bad: take another."
    with pytest.raises(ZeroDivisionError):
        task.load("bug")


@pytest.mark.parametrize(
    ("program", "expected"),
    [("/usr/bin/fairseq-train", True), ("fairseq-generate", True), ("/usr/bin/pytest", False), ("seg-cache", False)],
)
def test_commands_of_fairseq_are_known_by_their_names(program: str, expected: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", [program])
    assert is_fairseq_command() == expected


def test_modules_of_fairseq_are_commands_too(tmp_path: Path):
    (tmp_path / "fairseq_cli").mkdir()
    (tmp_path / "fairseq_cli" / "__init__.py").touch()
    code = "from fairseq_seg.errors import is_fairseq_command; print(is_fairseq_command())"
    (tmp_path / "fairseq_cli" / "train.py").write_text(code)
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "fairseq_cli.train"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{root}"}, capture_output=True, text=True
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("steering", ["\x1b[31m", "\x9b31m", "\x7f", "\u202e", "\u2066", "\u2028", "\ud800"])
def test_nothing_in_a_sentence_can_steer_a_terminal(steering: str):
    @command("seg-test")
    def main(arguments=None) -> None:
        raise SegError(f"The file {steering}evil{steering} is wrong.")

    with pytest.raises(SystemExit) as stop:
        main([])
    assert not set(steering) & set(str(stop.value)) - set("[31m") and "\ufffd" in str(stop.value)


def test_ordinary_text_is_left_alone():
    assert visible("été\u00a0« 100\u202f% » \u200d fin") == "été\u00a0« 100\u202f% » \u200d fin"


def test_every_command_tells_its_version(capsys):
    from importlib.metadata import version

    @command("seg-test")
    def main(arguments=None) -> None:
        raise AssertionError("not reached")

    main(["--version"])
    assert capsys.readouterr().out == f"seg-test {version('fairseq-seg')}\n"


def test_our_commands_use_one_thread_unless_the_user_asks_for_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "environ", {})
    command("seg-try")(lambda: None)()
    assert os.environ == {"OMP_NUM_THREADS": "1"}
    os.environ["OMP_NUM_THREADS"] = "2"
    command("seg-try")(lambda: None)()
    assert os.environ == {"OMP_NUM_THREADS": "2"}
