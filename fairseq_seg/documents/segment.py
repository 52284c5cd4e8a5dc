"""What a file is made of for a translator: segments, the units that hold them, and the edits that come back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from fairseq_seg.documents.raw import Raw
from fairseq_seg.errors import SegError

State = Literal["new", "fuzzy", "done"]


class Pair(NamedTuple):
    """The most similar pair of the memory, as a mark shows it."""

    source: str
    target: str
    origin: str
    score: float  # from 0 to 1


@dataclass(frozen=True)
class Segment:
    """A source and its target; inline codes are tokens (`<x1/>`, `<g2>` ... `</g2>`), the same ones on both sides."""

    id: str  # what the format calls it, unique in its file
    line: int
    source: str
    target: str = ""
    state: State = "new"
    locked: str = ""  # why it must not be translated, if so
    context: str = ""  # what tells it from another segment with the same source
    codes: Mapping[str, str] = field(default_factory=dict)  # what each token of the source stands for
    previous: tuple[str, str] | None = None  # the source that the target was made for, and that target
    hints: tuple[str, ...] = ()  # what the format says of the text (gettext's c-format)


@dataclass(frozen=True)
class Edit:
    """A new target, with the tokens of its segment's codes, and what its marks say."""

    text: str
    final: bool = False  # an exact match, which needs no review
    pair: Pair | None = None
    flags: tuple[str, ...] = ()

    @property
    def percent(self) -> int | None:
        """The similarity of the best pair, in per cent; only an identical text has 100."""
        return None if self.pair is None else percent(self.pair.score)


class Splice(NamedTuple):
    """Bytes (UTF-8) that replace the span from `start` to `end` of a file."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True)
class Unit:
    """An element of the file that is edited as a whole, and where its parts are, which only its format knows."""

    segments: Sequence[Segment]
    places: Any = None


class Document(ABC):
    """A file in one format. Use it as a context manager: it is open within."""

    format: str

    def __init__(self, path: Path, langs: tuple[str, str], name: str | None = None):
        """Take the file and the model's languages; `name` is what messages call the file."""
        self.path, self.langs, self.name = path, langs, name or str(path)
        self._raw: Raw | None = None
        self._state: tuple[int, int] | None = None

    @abstractmethod
    def encoding(self, head: bytes) -> str:
        """Return the encoding that the first bytes of the file declare."""

    @abstractmethod
    def units(self) -> Iterator[Unit]:
        """Iterate over the units in their order; refuse what is malformed when it is reached."""

    @abstractmethod
    def splices(self, unit: Unit, edits: Sequence[Edit | None]) -> list[Splice]:
        """Return what changes in a unit when its segments get new targets (None: as it was)."""

    def check_writable(self) -> None:  # noqa: B027, most formats have nothing to check
        """Refuse a file that cannot take targets, once its units have been read."""

    def can_hold(self, text: str) -> bool:
        """Tell whether a target can be written: XML has a reference for what its encoding lacks."""
        return True

    @property
    def raw(self) -> Raw:
        """The bytes of the open file."""
        assert self._raw is not None, "the document is not open"
        return self._raw

    def __enter__(self) -> Document:
        self._raw = Raw(self.path, self.name, self.encoding)
        if self._state not in (None, self._raw.state):
            self.__exit__()
            raise SegError(f"{self.name} changed while it was being translated: run the command again.")
        self._state = self._raw.state
        return self

    def __exit__(self, *_: object) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def check_langs(self, source: str | None, target: str | None) -> None:
        """Refuse declared languages that contradict the model's; a variety (fr-CA) is its language."""
        for declared, wanted, verb in zip((source, target), self.langs, ("from", "to"), strict=True):
            if declared and not same_language(declared, wanted):
                raise SegError(
                    f"{self.name}: it translates {verb} {declared}, but the model translates {'-'.join(self.langs)}: "
                    "use another model."
                )

    def write(self, stream: BinaryIO, edited: Iterator[tuple[Unit, Sequence[Edit | None]]]) -> None:
        """Write the file with new targets; every byte outside the splices stays."""
        place = 0
        for unit, edits in edited:
            for start, end, text in sorted(self.splices(unit, edits), key=lambda splice: splice[:2]):
                assert start >= place, "splices overlap"
                for piece in self.raw.pieces(place, start):
                    stream.write(piece)
                stream.write(self.raw.encode(text))
                place = end
        for piece in self.raw.pieces(place, len(self.raw.data)):
            stream.write(piece)


def same_language(one: str, other: str) -> bool:
    """Tell whether two codes name one language, whatever the country."""
    first, second = (code.lower().replace("_", "-").partition("@")[0].split("-")[0] for code in (one, other))
    return first == second


def percent(score: float) -> int:
    """Round a similarity down to whole per cent."""
    return int(score * 100 + 1e-4)


def keep_margins(source: str, text: str) -> str:
    """Give a translation the white space that its source begins and ends with."""
    core = source.strip()
    if not core:
        return source
    start = source.index(core)
    return source[:start] + text.strip() + source[start + len(core) :]
