"""Files and folders that appear whole or not at all, locks between processes, and lines of UTF-8 text."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal
from zlib import crc32

from fairseq_seg.errors import SegError

# End the name of a file, or of a folder, that is not whole yet.
BESIDE = ".new"
UNFINISHED = ".part"


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside `path` for writing, and give it its name only when everything has been written."""
    # A name that nobody can guess, and O_EXCL: a link that somebody planted there would be followed otherwise.
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{BESIDE}")
    try:
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            error.filename = str(path)  # the name that the user knows
            raise
        with open(file, "wb") as stream:
            yield stream
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def make_whole(folder: Path, resume: bool = False) -> Iterator[Path]:
    """Make a folder beside `folder`, and give it its name, in place of an older one, only when the block has ended.

    With `resume`, what an earlier run left unfinished stays: the block starts from there, and a failure keeps it.
    """
    beside = folder.with_name(folder.name + UNFINISHED)
    if not resume:
        shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True, exist_ok=resume)
    try:
        yield beside
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    finally:
        if not resume:
            shutil.rmtree(beside, ignore_errors=True)


def lock_file(file: int | BinaryIO, kind: Literal["shared", "exclusive"], wait: bool = False) -> bool:
    """Lock an open file until it is closed or its process ends; tell whether that worked."""
    operation = fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX
    try:
        fcntl.flock(file, operation if wait else operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_lines(stream: BinaryIO, name: str, encoding: str = "utf-8-sig") -> Iterator[str]:
    """Decode a stream line by line. Only a line feed ends a line, as in fairseq, so parallel files stay parallel."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode(encoding if number == 1 else encoding.removesuffix("-sig")).rstrip("\r\n")
        except (UnicodeError, LookupError):
            encoding = encoding.removesuffix("-sig").upper()
            raise SegError(f"{name}: line {number} is not {encoding} text: convert the file first.") from None


def read_text_file(path: str | Path, name: str | None = None) -> list[str]:
    """Read all lines of a UTF-8 text file; `name` is what an error calls it."""
    name = name or str(path)
    try:
        with open(path, "rb") as stream:
            return list(read_lines(stream, name))
    except OSError as error:
        raise SegError(f"{name} cannot be read: {error.strerror}.") from None


def convert_lines(function: Callable[[str], str], source: Path | None, destination: Path | None) -> None:
    """Apply a function to every line of a file, or of standard input, one line out for each line in."""
    from tqdm import tqdm

    with source.open("rb") if source else sys.stdin.buffer as stream:
        lines = (function(line).encode() + b"\n" for line in read_lines(stream, str(source or "standard input")))
        if destination:
            destination.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(destination) as output:
                output.writelines(tqdm(lines, destination.name, unit=" lines"))
        else:
            sys.stdout.buffer.writelines(lines)
            sys.stdout.flush()


def checksum(arrays: Iterable[Any]) -> int:
    """Return a number that tells whether the arrays are those that were written."""
    value = 0
    for array in arrays:
        value = crc32(memoryview(array), value)
    return value


def file_fingerprint(path: Path) -> str:
    """Identify a file by its bytes."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
