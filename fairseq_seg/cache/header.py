"""The header of a cache, which records its model, so that a cache of another model is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairseq_seg.errors import SegError
from fairseq_seg.files import BESIDE, lock_file, write_whole

FORMAT = 1
NAME, LOCK = "cache.json", "lock"
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Header:
    """The model that the entries depend on, and their format.

    The memory that the pairs come from is not recorded. An entry is looked up by its pair's symbols (`pair_address`),
    so no change to a memory can make it wrong: an edited pair has another address.
    """

    model: str  # a fingerprint of the parameters that entries depend on, and of their type
    dictionaries: tuple[str, str]  # fingerprints of the source's and the target's symbols
    number_type: str
    sizes: tuple[int, int, int]  # numbers of a slot's key, gate projection and value
    row_bytes: int  # of a slot
    format: int = FORMAT

    @classmethod
    def load(cls, folder: Path) -> Header | None:
        """Read the header of the cache in ``folder``; return None if there is no cache yet."""
        path = folder / NAME
        try:
            fields: dict[str, Any] = json.loads(path.read_bytes())
            fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
            header = cls(**fields)
            numbers = *header.sizes, header.row_bytes
            if header.format == FORMAT and len(numbers) == 4 and all(type(number) is int for number in numbers):
                return header
            reason = f"has format {header.format}, but this version reads {FORMAT}"
        except FileNotFoundError:
            # A process that was killed before it had written a header leaves its lock and a piece of one.
            if not folder.exists() or all(item.name == LOCK or item.suffix == BESIDE for item in folder.iterdir()):
                return None
            raise SegError(f"{folder} is not a memory cache: name another --memory-cache or a new folder.") from None
        except NotADirectoryError:
            raise SegError(f"{folder} is a file, not a memory cache: name another --memory-cache.") from None
        except OSError as error:
            raise SegError(f"{path} cannot be read ({error.strerror}): name another --memory-cache.") from None
        except (ValueError, TypeError, AttributeError):  # from json, from the fields, or from a list instead of fields
            reason = "is truncated or damaged"
        raise SegError(f"{path} {reason}: remove {folder}, or name another --memory-cache.")

    def create(self, folder: Path) -> None:
        """Create an empty cache; if another process was faster, check that its cache is of the same kind."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / LOCK, "ab") as lock:
                lock_file(lock, "exclusive", wait=True)
                there = Header.load(folder)
                if there is not None:
                    there.check(self, folder)
                else:
                    with write_whole(folder / NAME) as stream:
                        stream.write(json.dumps(asdict(self), indent=1).encode())
        except OSError as error:
            raise SegError(
                f"--memory-cache {folder} cannot be created ({error.strerror}): name another folder."
            ) from None

    def check(self, wanted: Header, folder: Path) -> None:
        """Refuse the cache in ``folder``, which has this header, unless it is of the wanted kind."""
        if self.dictionaries != wanted.dictionaries:
            difference = "of other dictionaries"
        elif (self.model, self.sizes) != (wanted.model, wanted.sizes):
            difference = "of another checkpoint, or of this one with other numbers (--fp16)"
        elif self.number_type != wanted.number_type:
            difference = f"of type {self.number_type}, not {wanted.number_type}"
        else:
            return
        raise SegError(f"{folder} is a cache {difference}: name another --memory-cache, or remove that folder.")


def parse_size(text: str) -> int:
    """Parse ``500M`` or ``2G`` into bytes."""
    number, unit = text.strip().upper().removesuffix("B"), 1
    if number[-1:] in UNITS:
        number, unit = number[:-1], UNITS[number[-1]]
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise SegError(f"--memory-cache-size {text} is not a size: write a number with M, G or T, as in 2G.")
    return size


def spell_size(size: float) -> str:
    """Format a number of bytes for people: 1.5 GB."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
