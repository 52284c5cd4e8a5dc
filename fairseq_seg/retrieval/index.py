"""What the search engines share: the hits of a search, and what an index on disk was made from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

# To be raised when the files of an index, or what they mean, change.
FORMAT = 6
STATISTICS = "statistics.npz"
# Texts are searched whose length is at least this share of the query's, or the other way round.
LENGTH_RATIO = 0.5


class Hits(NamedTuple):
    """Texts that a search found, best first: their numbers (H,), BM25 scores (H,) and lengths in symbols (H,)."""

    numbers: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray


def first_distinct(searches: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Take ``count`` numbers from the first search, and from the next ones while there are too few."""
    found = np.zeros(0, dtype=np.int64)
    for numbers in searches:
        found = np.concatenate([found, numbers[~np.isin(numbers, found)]])[:count] if len(found) else numbers[:count]
        if len(found) == count:
            break
    return found


def write_identity(folder: Path, identity: dict) -> None:
    """Write what an index was made from; the last step of making one."""
    description = json.dumps({"format": FORMAT, "identity": identity}, sort_keys=True)
    (folder / "identity.json").write_text(description + "\n", encoding="utf-8")


def index_identity(folder: Path) -> dict | None:
    """Read what an index was made from; return None without a finished index of the current format."""
    try:
        description = json.loads((folder / "identity.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return description.get("identity") if description.get("format") == FORMAT else None
