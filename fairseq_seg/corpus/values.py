"""Values: the text of each reserved symbol of a split's side, in a file beside the data-bin's own.

After fairseq-preprocess a sentence holds reserved symbols only. `seg-subword encode` writes their texts beside its
output, and seg-attach places them into the data-bin as `SPLIT.SOURCE-TARGET.LANG.values`, memory-mapped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.reserved import escape, unescape
from fairseq_seg.errors import SegError
from fairseq_seg.files import checksum, read_lines, write_whole

MAGIC = b"SEGVAL1\n"
COLUMNS = ("<u8", "<i8", "<i8", "u1")  # keys, starts, ends of `Values`, and the bytes
HEADER = "#values of the {role} {lang}"  # the first line of a file of values as text


class Values:
    """The values of N sentences: `values[row]` are the texts of its reserved symbols, in order.

    `keys` (N,) uint64 tell rows of other values apart, 0 for a row without any. Row i has the values from `starts[i]`
    up to `starts[i + 1]`, (N + 1,); value j ends at `ends[j]` in the bytes, (M,).
    """

    def __init__(self, keys: np.ndarray, starts: np.ndarray, ends: np.ndarray, text: np.ndarray):
        self.keys, self._starts, self._ends, self._text = keys, starts, ends, text

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]]) -> Values:
        """Collect the values of sentences."""
        keys, counts, pieces = [], [0], []
        for row in rows:
            keys.append(row_key(row))
            counts.append(len(row))
            pieces += [value.encode("utf-8", "surrogatepass") for value in row]
        return cls(
            np.array(keys, dtype=np.uint64),
            np.cumsum(counts, dtype=np.int64),
            np.cumsum([len(piece) for piece in pieces], dtype=np.int64),
            np.frombuffer(b"".join(pieces), np.uint8),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> list[str]:
        first, last = self._starts[row], self._starts[row + 1]
        if first == last:
            return []
        ends = self._ends[first:last].tolist()
        starts = [int(self._ends[first - 1]) if first else 0, *ends]
        spans = zip(starts, ends, strict=False)
        return [self._text[start:end].tobytes().decode("utf-8", "surrogatepass") for start, end in spans]

    def __iter__(self) -> Iterator[list[str]]:
        return (self[row] for row in range(len(self)))

    @property
    def counts(self) -> np.ndarray:
        """The number of values of each sentence, (N,)."""
        return np.diff(self._starts)

    # The file in a data-bin

    def save(self, path: Path, role: str, fingerprint: str) -> None:
        """Write the values of a side, given its role (source or target) and the fingerprint of its symbols."""
        columns = (self.keys, self._starts, self._ends, self._text)
        pieces = [column.astype(dtype).tobytes() for column, dtype in zip(columns, COLUMNS, strict=True)]
        header = {"role": role, "fingerprint": fingerprint, "rows": len(self), "values": len(self._ends)}
        line = json.dumps(header | {"checksum": checksum(pieces)}, sort_keys=True).encode()
        with write_whole(path) as file:
            # Spaces up to a multiple of eight keep the mapped arrays aligned.
            file.write(MAGIC + line + b" " * (-(len(line) + 1) % 8) + b"\n")
            file.writelines(pieces)

    @classmethod
    def load(cls, path: Path, role: str, fingerprint: str) -> Values:
        """Map a file that `save` wrote; refuse one of other symbols, or of the other direction."""
        again = "run seg-attach again with the --trainpref, --validpref and --testpref of fairseq-preprocess"
        try:
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise SegError(f"{path} is not a file of values: {again}.")
                header = json.loads(file.readline())
                content = np.memmap(file, np.uint8, "r", file.tell())
            rows, values = header["rows"], header["values"]
            keys, starts, ends, text = np.split(content, np.cumsum([8 * rows, 8 * (rows + 1), 8 * values]))
            if checksum([keys, starts, ends, text]) != header["checksum"]:
                raise ValueError("checksum")
            found = cls(keys.view("<u8"), starts.view("<i8"), ends.view("<i8"), text)
        except FileNotFoundError:
            raise SegError(f"{path} is missing, but the dictionary has protected tokens: {again}.") from None
        except OSError as error:
            raise SegError(f"{path} cannot be read ({error.strerror}): {again}.") from None
        except (ValueError, TypeError, KeyError):
            raise SegError(f"{path} is damaged: {again}.") from None
        if header["fingerprint"] != fingerprint:
            raise SegError(f"{path} was made from other data than the split beside it: {again}.")
        if header["role"] != role:
            raise SegError(
                f"{path} is of a {header['role']} side: its tokens are numbered for the other direction, so encode the "
                "text again for this one."
            )
        return found


def row_key(values: Sequence[str]) -> int:
    """Identify the values of a sentence, 0 if there are none."""
    if not values:
        return 0
    return int.from_bytes(blake2b(as_line(values).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def as_line(values: Iterable[str]) -> str:
    """Write the values of a sentence as a line of text."""
    return " ".join(map(escape, values))


def read_values(path: Path, role: str | None = None) -> list[list[str]]:
    """Read the values that `seg-subword encode` wrote beside its output; with a `role`, refuse those of the other."""
    try:
        with path.open("rb") as file:
            header, *lines = read_lines(file, str(path))
    except FileNotFoundError:
        raise SegError(f"{path} is missing: seg-subword encode writes it, encode the text again.") from None
    except ValueError:
        header = ""
    if not header.startswith(HEADER.partition("{")[0]):
        raise SegError(f"{path} is not a file of values: encode the text again with seg-subword.")
    if role is not None and f" {role} " not in header:
        raise SegError(f"{path} does not belong to a {role} text: encode the text again for this direction.")
    return [[unescape(value) for value in line.split(" ")] if line else [] for line in lines]
