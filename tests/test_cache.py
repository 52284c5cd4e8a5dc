"""The cache's files: what is written is found again, whatever happened to the rest."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_seg.cache import segments
from fairseq_seg.cache.address import pair_address
from fairseq_seg.cache.header import Header, parse_size, spell_size
from fairseq_seg.cache.rows import TYPES, RowFormat
from fairseq_seg.cache.segments import ENTRY, PairCache
from fairseq_seg.errors import SegError
from fairseq_seg.modules.memory import Entries
from tests.cached_rows import ROW, make_pairs

HEADER = Header("abc", ("en", "fr"), "fp16", (3, 1, 0), ROW)


def holds(cache: PairCache, *numbers: int) -> list[int]:
    """Return which of the pairs the cache has, and check that their rows are as they were written."""
    found = dict(zip(numbers, cache.find([number.to_bytes(16) for number in numbers]), strict=True))
    assert all((rows == number).all() and len(rows) == 5 for number, rows in found.items() if rows is not None)
    return [number for number, rows in found.items() if rows is not None]


def segment_size(pairs: int) -> int:
    """Return the size of a segment of this many pairs of five rows."""
    return pairs * (5 * ROW + ENTRY.itemsize)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    HEADER.create(tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def filled(folder: Path) -> Path:
    """Return a cache of the pairs 1 to 4."""
    PairCache(folder, ROW, 2**20).append(make_pairs(1, 2, 3, 4))
    return folder


# Addresses and rows


def test_an_address_is_the_pair_and_nothing_else():
    source, target = np.array([5, 6, 2]), np.array([7, 2])
    address = pair_address(source, target)
    assert len(address) == 16 and address == pair_address(source.astype(np.int32), target.astype(np.int32))
    others = [([5, 6, 2, 7], [2]), ([5, 6], [2, 7, 2]), ([5, 8, 2], [7, 2]), ([5, 6, 2], [8, 2]), ([7, 2], [5, 6, 2])]
    assert len({address, *(pair_address(np.array(s), np.array(t)) for s, t in others)}) == 1 + len(others)


@pytest.mark.parametrize("sizes", [(6, 3, 0), (5, 1, 7)])
@pytest.mark.parametrize("number_type", TYPES)
def test_rows_are_what_was_encoded(number_type: str, sizes: tuple):
    torch.manual_seed(1)
    entries = Entries(*(10 * torch.randn(4, size) if size else None for size in sizes), None)
    entries.keys[0] = 0
    rows = RowFormat(number_type, sizes).encode(entries)
    assert rows.shape == (4, RowFormat(number_type, sizes).row_bytes) and rows.dtype == torch.uint8
    padded = torch.cat([rows, torch.zeros_like(rows[:1])]).unsqueeze(0)
    for part, wanted in zip(RowFormat(number_type, sizes).decode(padded), entries, strict=True):
        if wanted is None:
            assert part is None
            continue
        assert part.shape == (1, 5, wanted.size(1)) and part.dtype == torch.float32 and (part[0, 4] == 0).all()
        if number_type == "int8":
            half_a_step = wanted.abs().amax(-1, keepdim=True) / 127 / 2
            assert ((part[0, :4] - wanted).abs() <= half_a_step * 1.001).all()
        else:
            assert torch.equal(part[0, :4], wanted.to(TYPES[number_type]).float())


def test_numbers_too_large_for_fp16_stay_finite():
    row_format = RowFormat("fp16", (2, 1, 0))
    read = row_format.decode(row_format.encode(Entries(torch.tensor([[1e9, -1e9]]), torch.tensor([[1.0]]), None, None)))
    assert read.keys.tolist() == [[65504, -65504]]


# Segments


def test_pairs_are_found_again(filled: Path):
    cache = PairCache(filled, ROW, 2**20)
    assert len(cache) == 4 and holds(cache, 1, 2, 5) == [1, 2]
    cache.append(make_pairs(5, 4))
    assert holds(cache, 4, 5) == [4, 5] and len(cache) == 5
    again = PairCache(filled, ROW, 2**20)
    assert holds(again, 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    assert again.size == segment_size(5) == sum(path.stat().st_size for path in filled.glob("1.*"))


def test_a_pair_without_slots_is_found_again(folder: Path):
    empty = [(bytes(16), np.zeros((0, ROW), np.uint8))]
    PairCache(folder, ROW, 2**20).append(empty)
    assert [rows.shape for rows in PairCache(folder, ROW, 2**20).find([bytes(16)])] == [(0, ROW)]


def test_what_was_unused_for_longest_is_forgotten(folder: Path):
    limit = segment_size(32)  # 16 segments of two pairs
    cache = PairCache(folder, ROW, limit)
    for number in range(1, 33):
        cache.append(make_pairs(number))
    assert len(cache) == 32 and len(list(folder.glob("*.rows"))) == 16
    assert holds(cache, 1) == [1]  # used again, and 3 is the oldest now
    cache.append(make_pairs(33, 34, 35))
    assert holds(cache, *range(1, 36)) == [1, 2, *range(7, 36)]
    assert sum(path.stat().st_size for path in folder.glob("[0-9]*")) <= limit
    assert holds(PairCache(folder, ROW, limit), *range(1, 36)) == [1, 2, *range(7, 36)]


def test_a_smaller_limit_holds_at_once(filled: Path):
    cache = PairCache(filled, ROW, segment_size(2))
    assert len(cache) == 0 and not list(filled.glob("*.rows"))
    cache.append(make_pairs(5))
    assert holds(cache, 5) == [5]
    cache.append(make_pairs(6, rows=1000))  # more than all that it may hold
    assert holds(cache, 5, 6) == [5]


@pytest.mark.parametrize(("ending", "cut"), [("index", 1), ("index", ENTRY.itemsize - 1), ("rows", 1), ("rows", 39)])
def test_a_cut_off_entry_is_dropped_and_the_rest_is_used(filled: Path, ending: str, cut: int, caplog):
    path = filled / f"1.{ending}"
    os.truncate(path, path.stat().st_size - cut)
    cache = PairCache(filled, ROW, 2**20)
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.endswith("1.index is truncated: its last entries are dropped, and the rest is used")
    assert holds(cache, 1, 2, 3, 4) == [1, 2, 3]
    cache.append(make_pairs(4, 5))
    caplog.clear()
    assert holds(PairCache(filled, ROW, 2**20), 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5] and not caplog.records


def test_rows_without_an_entry_are_written_over(filled: Path, caplog):
    with open(filled / "1.rows", "ab") as stream:
        stream.write(b"?" * 13)  # a process was killed before it wrote the entry
    cache = PairCache(filled, ROW, 2**20)
    cache.append(make_pairs(5))
    assert holds(PairCache(filled, ROW, 2**20), 1, 4, 5) == [1, 4, 5] and not caplog.records


def test_damaged_rows_are_made_again(filled: Path, caplog):
    with open(filled / "1.rows", "r+b") as stream:
        stream.seek(7 * ROW)  # in the second pair
        stream.write(b"?")
    cache = PairCache(filled, ROW, 2**20)
    assert holds(cache, 1, 2, 3, 4) == [1, 3, 4]
    assert [record.getMessage() for record in caplog.records] == [
        f"an entry of {filled / '1.rows'} is damaged and will be computed again"
    ]
    cache.append(make_pairs(2))
    assert holds(cache, 2) == [2] and holds(PairCache(filled, ROW, 2**20), 1, 2, 3, 4) == [1, 2, 3, 4]


def test_missing_rows_are_no_entries(filled: Path):
    (filled / "1.rows").unlink()
    assert holds(PairCache(filled, ROW, 2**20), 1, 2) == []


def test_two_caches_see_what_the_other_writes_and_removes(folder: Path):
    one, two = (PairCache(folder, ROW, segment_size(32)) for _ in range(2))
    one.append(make_pairs(1))
    assert holds(two, 1) == [1]
    two.append(make_pairs(2))
    two.append(make_pairs(1, 2, 3))
    assert holds(one, 1, 2, 3) == [1, 2, 3] and len(one) == len(two) == 3
    two.append(make_pairs(*range(4, 60)))  # which pushes out what `one` has open, or has not read yet
    assert holds(one, 1, 2, 3) in ([], [1, 2, 3])
    assert holds(PairCache(folder, ROW, segment_size(32)), 1, 2, 3) == []
    assert holds(one, *range(50, 60)) == list(range(50, 60))


def test_a_cache_that_is_made_anew_is_not_mixed_with_the_one_that_was_opened(filled: Path, caplog):
    old = PairCache(filled, ROW, 2**20)
    assert holds(old, 1) == [1]
    shutil.rmtree(filled)
    HEADER.create(filled)
    new = PairCache(filled, ROW, 2**20)
    new.append((address, rows + 100) for address, rows in make_pairs(1, 2, 5))
    assert holds(old, 1, 5) == []
    old.append(make_pairs(6))
    assert holds(new, 6) == [] and caplog.text.count("was removed while in use") == 1


def test_the_number_of_a_segment_is_never_given_again(filled: Path):
    old = PairCache(filled, ROW, 2**20)
    PairCache(filled, ROW, segment_size(2)).append(make_pairs(5))  # which has no room for the first four
    assert [path.name for path in filled.glob("*.rows")] == ["2.rows"]
    assert holds(old, 5) == [5] and holds(old, 1, 2) == []


def test_processes_write_at_the_same_time(folder: Path):
    program = (
        "import sys; from pathlib import Path; from fairseq_seg.cache.segments import PairCache\n"
        "from tests.cached_rows import ROW, make_pairs\n"
        "cache = PairCache(Path(sys.argv[1]), ROW, 2**20)\n"
        "for number in range(int(sys.argv[2]), 100, 2): cache.append(make_pairs(number, number + 1))"
    )
    root = Path(__file__).parent.parent
    processes = [
        subprocess.Popen([sys.executable, "-c", program, folder, str(first)], cwd=root, env=os.environ)
        for first in (0, 1)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    cache = PairCache(folder, ROW, 2**20)
    assert holds(cache, *range(101)) == list(range(101)) and len(cache) == 101
    assert cache.size == segment_size(101)  # each pair once


def test_who_does_not_get_the_lock_only_reads(filled: Path, monkeypatch):
    monkeypatch.setattr(segments, "PATIENCE", 0.05)
    with open(filled / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cache = PairCache(filled, ROW, 2**20)
        cache.append(make_pairs(5))
        assert holds(cache, 4, 5) == [4]
    cache.append(make_pairs(5))
    assert holds(cache, 4, 5) == [4, 5]


def test_a_full_disk_is_said_once(filled: Path, monkeypatch, caplog):
    def full(self, pairs):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = PairCache(filled, ROW, 2**20)
    monkeypatch.setattr(segments.Segment, "append", full)
    cache.append(make_pairs(5))
    cache.append(make_pairs(6))
    assert [record.getMessage() for record in caplog.records] == [
        f"{filled} accepts no more pairs (No space left on device): from now on it is only read"
    ]
    assert holds(cache, 1, 5) == [1]


# Headers and sizes


def test_a_header_is_read_as_it_was_written(folder: Path):
    assert Header.load(folder) == HEADER
    HEADER.create(folder)  # another process was quicker
    HEADER.check(HEADER, folder)
    assert Header.load(folder / "none") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "x"}, "is a cache of another checkpoint, or of this one with other numbers .--fp16.: name another"),
        ({"sizes": (3, 1, 2)}, "is a cache of another checkpoint"),
        ({"dictionaries": ("en", "de")}, "is a cache of other dictionaries: name another --memory-cache, or remove"),
        ({"number_type": "fp32"}, "is a cache of type fp16, not fp32: name another --memory-cache, or remove that"),
    ],
)
def test_a_cache_of_another_kind_is_refused(folder: Path, change: dict, message: str):
    wanted = Header(**(vars(HEADER) | change))
    for refuse in (lambda: HEADER.check(wanted, folder), lambda: wanted.create(folder)):
        with pytest.raises(SegError, match=message):
            refuse()
    assert Header.load(folder) == HEADER


def test_what_is_no_cache_is_refused(folder: Path, tmp_path: Path):
    header = folder / "cache.json"
    whole = header.read_bytes()
    newer = json.dumps(json.loads(whole) | {"format": 2}).encode()
    for content, reason in (
        (whole[:40], "is truncated or damaged"),
        (b"", "is truncated or damaged"),
        (b"[1, 2]", "is truncated or damaged"),
        (b'{"format": 1}', "is truncated or damaged"),
        (newer, "has format 2, but this version reads 1"),
    ):
        header.write_bytes(content)
        with pytest.raises(SegError, match=f"cache.json {reason}: remove {folder}, or name another --memory-cache."):
            Header.load(folder)
    (tmp_path / "file").write_text("text")
    with pytest.raises(SegError, match="file is a file, not a memory cache"):
        Header.load(tmp_path / "file")
    with pytest.raises(SegError, match="is not a memory cache: name another --memory-cache or a new folder"):
        Header.load(tmp_path)
    with pytest.raises(SegError, match="cannot be created .Not a directory."):
        HEADER.create(tmp_path / "file" / "cache")


def test_sizes():
    assert [parse_size(text) for text in ("2G", "1.5m", "500K", "7", "1TB")] == [2**31, 3 * 2**19, 512000, 7, 2**40]
    assert [spell_size(size) for size in (7, 1536, 2**31, 2**51)] == ["7 bytes", "1.5 KB", "2.0 GB", "2048.0 TB"]
    for wrong in ("", "G", "two", "0", "-1G", "nan", "inf"):
        with pytest.raises(SegError, match="is not a size: write a number with M, G or T, as in 2G."):
            parse_size(wrong)
