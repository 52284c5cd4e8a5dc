"""The finished parts of a split: files in one folder, each written whole, by this process or by others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.pairs import RankedPairs
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.files import write_whole

COLUMNS = ("starts", "ids", "scores", "covering")


def open_parts(folder: Path, header: dict) -> None:
    """Make the folder of the parts that a header describes; throw away parts of other settings or data."""
    made_for = folder / "header.json"
    text = json.dumps(header, sort_keys=True)
    if not made_for.exists() or made_for.read_text(encoding="utf-8") != text:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made_for.write_text(text, encoding="utf-8")


def part_name(first: int) -> str:
    """Name the part whose first example is in row ``first``."""
    return f"{first:010}.npz"


def write_part(path: Path, found: RankedPairs) -> None:
    """Write the pairs of consecutive examples."""
    with write_whole(path) as file:
        np.savez(file, **{name: getattr(found, name) for name in COLUMNS})


def read_part(path: Path) -> RankedPairs:
    """Read what `write_part` wrote."""
    with np.load(path) as part:
        return RankedPairs(*(part[name] for name in COLUMNS))


def trim(found: RankedPairs, best: Selection) -> RankedPairs:
    """Keep the best pairs of each example, and the ones that Alg. 1 picks."""
    wanted = found.covering.astype(bool) | (found.ranks < best.k)
    return found.keep(wanted & (found.scores >= np.float32(best.min_score)))
