"""Files and folders appear whole or not at all, whoever is killed; locks hold between processes."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.files import (
    UNFINISHED,
    convert_lines,
    file_fingerprint,
    lock_file,
    make_whole,
    read_lines,
    read_text_file,
    write_whole,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def kill_while(code: str, *arguments: object) -> None:
    """Run code in a process until it prints a line, and kill it."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        process.stdout.readline()
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    with write_whole(path) as stream:
        stream.write(b"first")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), write_whole(path) as stream:
        stream.write(b"second")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"first" and names(tmp_path) == ["file"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path):
    folder = tmp_path / "deep" / "folder"
    with make_whole(folder) as beside:
        (beside / "a").write_text("first")
        assert not folder.exists()
    with pytest.raises(KeyboardInterrupt), make_whole(folder) as beside:
        (beside / "a").write_text("second")
        raise KeyboardInterrupt
    assert (folder / "a").read_text() == "first" and names(folder.parent) == ["folder"]
    with make_whole(folder) as beside:
        (beside / "b").write_text("third")
    assert names(folder) == ["b"] and names(folder.parent) == ["folder"]


MAKE = """
import sys
from pathlib import Path
from fairseq_seg.files import make_whole
with make_whole(Path(sys.argv[1]), resume=sys.argv[2] == "resume") as beside:
    (beside / "half").write_text("made by a killed process")
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("older", [True, False])
def test_a_killed_process_leaves_what_was_there(tmp_path: Path, older: bool):
    folder = tmp_path / "folder"
    if older:
        folder.mkdir()
        (folder / "old").touch()
    kill_while(MAKE, folder, "new")
    assert names(tmp_path) == ["folder", f"folder{UNFINISHED}"][not older :]
    assert not older or names(folder) == ["old"]
    # The next run starts from nothing.
    with make_whole(folder) as beside:
        assert names(beside) == []
    assert names(tmp_path) == ["folder"] and names(folder) == []


def test_what_a_killed_process_has_made_can_be_resumed(tmp_path: Path):
    folder = tmp_path / "folder"
    kill_while(MAKE, folder, "resume")
    with pytest.raises(KeyboardInterrupt), make_whole(folder, resume=True) as beside:
        assert (beside / "half").read_text() == "made by a killed process"
        (beside / "more").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == [f"folder{UNFINISHED}"]  # a failure keeps it, too
    with make_whole(folder, resume=True) as beside:
        assert names(beside) == ["half", "more"]
    assert names(tmp_path) == ["folder"] and names(folder) == ["half", "more"]


LOCK = """
import sys
from fairseq_seg.files import lock_file
file = open(sys.argv[1], "rb")
print(lock_file(file, sys.argv[2]), flush=True)
sys.stdin.read()
"""


def try_lock(path: Path, kind: str) -> bool:
    with open(path, "rb") as file:
        return lock_file(file, kind)


@pytest.mark.parametrize(("held", "shared", "exclusive"), [("shared", True, False), ("exclusive", False, False)])
def test_a_lock_holds_until_its_process_ends(tmp_path: Path, held: str, shared: bool, exclusive: bool):
    path = tmp_path / "lock"
    path.touch()
    command = [sys.executable, "-c", LOCK, path, held]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        assert (try_lock(path, "shared"), try_lock(path, "exclusive")) == (shared, exclusive)
        process.kill()
    with open(path, "rb") as file:
        assert lock_file(file, "exclusive", wait=True)
        assert not try_lock(path, "shared")
    assert try_lock(path, "exclusive")


def test_a_waiting_lock_is_granted_when_the_other_ends(tmp_path: Path):
    path = tmp_path / "lock"
    code = (
        "import os, sys, time; from fairseq_seg.files import lock_file\n"
        "lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "print(lock_file(lock, 'exclusive'), flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"True\n"
        lock = os.open(path, os.O_RDWR)
        assert not lock_file(lock, "exclusive") and lock_file(lock, "exclusive", wait=True)
        assert process.wait(10) == 0
        os.close(lock)


def test_only_a_line_feed_ends_a_line():
    text = "\ufeffa\u2028b\x85c\x0cd\r\n\n\ufeffe"
    assert list(read_lines(io.BytesIO(text.encode()), "x")) == ["a\u2028b\x85c\x0cd", "", "\ufeffe"]


@pytest.mark.parametrize(("encoding", "name"), [("utf-8-sig", "UTF-8"), ("ascii", "ASCII"), ("klingon", "KLINGON")])
def test_other_text_is_refused_with_its_line(encoding: str, name: str):
    lines = read_lines(io.BytesIO(b"a\n\xe9t\xe9\n"), "a.txt", encoding)
    with pytest.raises(SegError, match=rf"^a.txt: line \d is not {name} text: convert the file first\.$"):
        list(lines)


def test_a_text_file(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo")
    assert read_text_file(tmp_path / "a") == ["one", "two"]
    with pytest.raises(SegError, match="^the text cannot be read: No such file or directory.$"):
        read_text_file(tmp_path / "b", "the text")


def test_lines_are_converted_one_by_one(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"one\n\ntwo")
    convert_lines(str.upper, tmp_path / "a", tmp_path / "new" / "b")
    assert (tmp_path / "new" / "b").read_bytes() == b"ONE\n\nTWO\n" and names(tmp_path / "new") == ["b"]


def test_the_fingerprint_of_a_file_is_of_its_bytes(tmp_path: Path):
    contents = [b"a", b"b", b"", b"a"]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    first, second, third, again = (file_fingerprint(tmp_path / str(number)) for number in range(4))
    assert first == again and len({first, second, third}) == 3


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Somebody who may write to the folder cannot make us write to a file of ours."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("out.new", "out.tmp", "out.part"):
        (tmp_path / name).symlink_to(precious)
    with write_whole(tmp_path / "out") as stream:
        stream.write(b"new")
    assert precious.read_text() == "mine" and (tmp_path / "out").read_text() == "new"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o666 & ~umask()
    monkeypatch.setattr("fairseq_seg.files.secrets.token_hex", lambda size: "guessed")
    (tmp_path / "out.guessed.new").symlink_to(precious)
    with pytest.raises(FileExistsError), write_whole(tmp_path / "out") as stream:
        stream.write(b"newer")
    assert precious.read_text() == "mine" and (tmp_path / "out").read_text() == "new"


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
