"""Count segments, words and characters per match band before any work: what a translation is priced and planned by.

A segment counts in the band of its best pair in the memories; a repetition is the same source as that of a segment
before, in whatever file. Only an identical text is a 100 % match. Nothing is translated, and no torch is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.subwords import SubwordModel, SymbolEncoder
from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Document, Segment, percent
from fairseq_seg.errors import SegError
from fairseq_seg.explain import page
from fairseq_seg.localize.files import Job
from fairseq_seg.retrieval.retriever import Retriever
from fairseq_seg.retrieval.search import open_retriever
from fairseq_seg.retrieval.unit import make_unit
from fairseq_seg.source.memories import check_memories, parse_memories
from fairseq_seg.source.pair_source import recorded_settings
from fairseq_seg.store.index import MemorySearch

BANDS = ("repetitions", "100 %", "95-99 %", "85-94 %", "75-84 %", "50-74 %", "no match")
STARTS = ((100, "100 %"), (95, "95-99 %"), (85, "85-94 %"), (75, "75-84 %"), (50, "50-74 %"))
WINDOW = 1000


@dataclass
class Volume:
    """How much text there is."""

    segments: int = 0
    words: int = 0  # separated by white space
    characters: int = 0  # without white space

    def add(self, other: Volume) -> None:
        """Add to it."""
        self.segments += other.segments
        self.words += other.words
        self.characters += other.characters


def empty_bands() -> dict[str, Volume]:
    """Return no text in each band."""
    return {band: Volume() for band in BANDS}


@dataclass
class FileAnalysis:
    """The bands of a file, and what is not to be translated in it."""

    name: str
    bands: dict[str, Volume] = field(default_factory=empty_bands)
    done: Volume = field(default_factory=Volume)

    @property
    def total(self) -> Volume:
        """All that is to be translated."""
        total = Volume()
        for volume in self.bands.values():
            total.add(volume)
        return total


def volume_of(segment: Segment) -> Volume:
    """Count the text of a segment; inline codes do not count."""
    words = (without_codes(segment.source) if segment.codes else segment.source).split()
    return Volume(1, len(words), sum(map(len, words)))


class Matcher:
    """Finds the band of texts in the memories of a model: only the best pair of each memory is looked at."""

    def __init__(self, folder: ModelFolder, memories: str):
        data = folder.data
        if memories != TRAIN:
            check_memories(memories, (folder.source_lang, folder.target_lang), data.dictionaries)
        paths = folder.subword_paths
        self._encoder = SymbolEncoder(data.dictionaries[0], None if paths is None else SubwordModel(paths[0]))
        settings = recorded_settings(data)
        unit = make_unit(settings.score_unit, data.spellings[0])
        self._own: list[tuple[MemorySearch, float]] = []
        self._training: tuple[Retriever, float] | None = None
        self._table = data.table()
        for name, penalty in parse_memories(memories):
            if name == TRAIN:
                self._training = open_retriever(data, settings), penalty
            else:
                self._own.append((MemorySearch(name, settings, unit), penalty))

    def bands(self, texts: Sequence[str]) -> list[str]:
        """Return the band of each text."""
        symbols = [self._encoder.encode(text) for text in texts]
        spoken = [place for place, ids in enumerate(symbols) if len(ids)]
        best = [0] * len(texts)
        for place, score in self._scores(texts, spoken, [symbols[place] for place in spoken]):
            best[place] = max(best[place], score)
        return [band_of(score) for score in best]

    def _scores(
        self, texts: Sequence[str], places: Sequence[int], queries: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, int]]:
        """Iterate over the place of a text and, in per cent, its score in a memory."""
        if self._training is not None and queries:
            retriever, penalty = self._training
            for place, (ids, scores, _) in zip(places, retriever.search(queries, cover=False), strict=True):
                if len(ids):
                    yield place, self._percent(texts[place], self._table.text(ids[0])[0], scores[0], penalty)
        for memory, penalty in self._own:
            for place, row in zip(places, memory.search(queries, 1), strict=True):
                for entry, score in row:
                    yield place, self._percent(texts[place], entry.source, score, penalty)

    def _percent(self, text: str, source: str, score: float, penalty: float) -> int:
        same = score == 1 and source.split() == text.split() and not penalty
        return 100 if same else min(percent(float(score) - penalty), 99)

    def close(self) -> None:
        """Close the memories."""
        for memory, _ in self._own:
            memory.close()


def band_of(score: int) -> str:
    """Return the band of a score in per cent."""
    return next((band for start, band in STARTS if score >= start), "no match")


def analyse(
    folder: ModelFolder, jobs: Sequence[Job], memories: str | None, fuzzy: bool, format: str | None
) -> tuple[list[FileAnalysis], list[SegError]]:
    """Analyse files; return also what is wrong with those that cannot be read."""
    from tqdm import tqdm

    from fairseq_seg.localize.run import is_wanted

    memories = memories or folder.options.get("memory") or TRAIN
    matcher = Matcher(folder, memories)
    seen: set[bytes] = set()
    found, errors = [], []
    try:
        with tqdm(desc="analysing", unit=" segments") as progress:
            for job in jobs:
                result = FileAnalysis(str(job.path))
                try:
                    document = open_document(job.path, (folder.source_lang, folder.target_lang), format)
                    with document:
                        for window in windows(segments_of(document)):
                            count(result, [s for s in window if is_wanted(s, fuzzy)], matcher, seen)
                            for segment in window:
                                if not is_wanted(segment, fuzzy):
                                    result.done.add(volume_of(segment))
                            progress.update(len(window))
                    found.append(result)
                except SegError as error:
                    errors.append(error)
    finally:
        matcher.close()
    return found, errors


def segments_of(document: Document) -> Iterator[Segment]:
    """Iterate over the segments of an open document."""
    return (segment for unit in document.units() for segment in unit.segments)


def windows(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Cut segments into lists that are searched for at once."""
    stream = iter(segments)
    while window := list(islice(stream, WINDOW)):
        yield window


def count(result: FileAnalysis, segments: Sequence[Segment], matcher: Matcher, seen: set[bytes]) -> None:
    """Add segments to the bands of a file."""
    new: list[Segment] = []
    for segment in segments:
        key = blake2b(segment.source.encode(), digest_size=16).digest()
        if key in seen:
            result.bands["repetitions"].add(volume_of(segment))
        else:
            seen.add(key)
            new.append(segment)
    texts = [without_codes(segment.source) if segment.codes else segment.source for segment in new]
    for segment, band in zip(new, matcher.bands(texts) if texts else (), strict=True):
        result.bands[band].add(volume_of(segment))


def in_all(files: Sequence[FileAnalysis]) -> FileAnalysis:
    """Add up files."""
    total = FileAnalysis("in all")
    for file in files:
        total.done.add(file.done)
        for band, volume in file.bands.items():
            total.bands[band].add(volume)
    return total


def rows_of(file: FileAnalysis) -> list[tuple[str, Volume, float]]:
    """Return the lines of a file's table: name, volume and its share of all words to translate."""
    words = max(file.total.words, 1)
    rows = [(band, volume, volume.words / words) for band, volume in file.bands.items()]
    return [*rows, ("to translate", file.total, 1.0), ("not to translate", file.done, 0.0)]


def as_text(files: Sequence[FileAnalysis]) -> str:
    """Return the tables of files, and of all together if they are several."""
    tables = []
    for file in [*files, *([in_all(files)] if len(files) != 1 else [])]:
        lines = [file.name, f"{'':16} {'segments':>10} {'words':>10} {'characters':>12} {'words %':>8}"]
        for name, volume, share in rows_of(file):
            shown = f"{share:8.1%}" if name != "not to translate" else ""
            lines.append(f"{name:16} {volume.segments:10,} {volume.words:10,} {volume.characters:12,} {shown}".rstrip())
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def as_json(files: Sequence[FileAnalysis]) -> dict[str, Any]:
    """Return the same for programs."""

    def values(file: FileAnalysis) -> dict[str, Any]:
        return {"file": file.name} | {name: vars(volume) for name, volume, _ in rows_of(file)}

    return {"files": [values(file) for file in files], "all": values(in_all(files))}


def as_html(files: Sequence[FileAnalysis], title: str) -> str:
    """Return the same as a page."""
    cards = []
    for file in [in_all(files), *files]:
        rows = [
            ("", [escape(name), f"{v.segments:,}", f"{v.words:,}", f"{v.characters:,}", f"{share:.1%}"])
            for name, v, share in rows_of(file)
        ]
        table = page.table(("match", "segments", "words", "characters", "words %"), rows)
        cards.append(f"<article class=card><h2>{escape(file.name)}</h2>{table}</article>")
    return page.render(title, "", cards)


def write_page(path: Path, html: str) -> None:
    """Write a page, whole or not at all."""
    from fairseq_seg.files import write_whole

    with write_whole(path) as stream:
        stream.write(html.encode())
