"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Opens a file beside `path` for writing, and gives it its name only when all has been written."""
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("wb") as stream:
            yield stream
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
