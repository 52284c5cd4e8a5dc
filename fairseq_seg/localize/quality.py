"""Check the translations in files, ours or anybody's, for what can be seen without understanding them.

Faults make a file fail: placeholders, tags, inline codes, addresses and numbers that are lost, wrong or added, and
empty targets. Doubts do not: targets that repeat their source, sources with several translations, odd lengths, and
numbers that may be written in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from fairseq_seg.corpus.faults import faults
from fairseq_seg.corpus.notation import Notation, notation_of
from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Segment
from fairseq_seg.errors import SegError
from fairseq_seg.localize.files import Job

# A translation this many times as long as its source, or as short, is odd, if it has this many characters more or less.
ODD_RATIO, ODD_DIFFERENCE = 3.0, 30


@dataclass(frozen=True)
class Finding:
    """Something to look at."""

    file: str
    id: str
    line: int
    kind: str
    detail: str
    doubt: bool  # it may be right all the same
    source: str
    target: str

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}: {self.id}: {'doubt: ' if self.doubt else ''}{self.kind}"
        return text + (f" {self.detail}" if self.detail else "")


def check_files(
    jobs: Sequence[Job], langs: tuple[str, str], format: str | None
) -> tuple[list[Finding], int, list[SegError]]:
    """Check files; return what was found, the number of segments, and what is wrong with those that cannot be read."""
    from tqdm import tqdm

    notations = notation_of(langs[0]), notation_of(langs[1])
    findings: list[Finding] = []
    errors: list[SegError] = []
    first: dict[bytes, tuple[str, str]] = {}  # of each source: where it was translated first, and how
    number = 0
    with tqdm(desc="checking", unit=" segments") as progress:
        for job in jobs:
            name = str(job.path)
            try:
                with open_document(job.path, langs, format) as document:
                    for unit in document.units():
                        for segment in unit.segments:
                            number += 1
                            findings += check_segment(name, segment, notations, first)
                        progress.update(len(unit.segments))
            except SegError as error:
                errors.append(error)
    return findings, number, errors


def check_segment(
    name: str, segment: Segment, notations: tuple[Notation, Notation], first: dict[bytes, tuple[str, str]]
) -> Iterator[Finding]:
    """Iterate over what is found in a segment; what is not to be translated is not checked."""
    if segment.locked or not segment.source.strip():
        return

    def finding(kind: str, detail: str, doubt: bool) -> Finding:
        place = name, segment.id, segment.line
        return Finding(*place, kind, detail, doubt, segment.source, segment.target)

    for fault in faults(segment.source, segment.target, *notations):
        yield finding(fault.kind, fault.detail, fault.is_weak)
    if not segment.target.strip():
        return
    lengths = len(segment.source), len(segment.target)
    if max(lengths) > ODD_RATIO * min(lengths) and max(lengths) - min(lengths) > ODD_DIFFERENCE:
        yield finding("length", f"{lengths[1]} characters for {lengths[0]}", True)
    key = blake2b(f"{segment.context}\0{segment.source}".encode(), digest_size=16).digest()
    place, target = first.setdefault(key, (f"{name}:{segment.line}", segment.target))
    if target.split() != segment.target.split():
        yield finding("inconsistent", f"{place} has: {target}", True)


def as_text(findings: Sequence[Finding], segments: int) -> str:
    """Return a line for each finding, and how many there are of each kind."""
    kinds = Counter(("doubt: " if finding.doubt else "") + finding.kind for finding in findings)
    wrong = sum(not finding.doubt for finding in findings)
    lines = [str(finding) for finding in findings]
    lines.append(f"{segments:,} segments checked: {wrong:,} faults, {len(findings) - wrong:,} doubts")
    lines += [f"  {count:6,}  {kind}" for kind, count in kinds.most_common()]
    return "\n".join(lines)


def as_json(findings: Sequence[Finding], segments: int) -> dict[str, Any]:
    """Return the same for programs."""
    return {"segments": segments, "findings": [asdict(finding) for finding in findings]}
