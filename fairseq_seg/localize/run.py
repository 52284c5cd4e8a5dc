"""Translate files: what is untranslated in them, each distinct source once.

Three passes: read all files and note their sources in a journal, translate what the journal does not have yet, write
the files with what it has. Only the journal, on disk, grows with the files.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

import fairseq_seg
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.documents.formats import open_document
from fairseq_seg.documents.segment import Document, Edit, Segment, Unit
from fairseq_seg.errors import SegError
from fairseq_seg.files import UNFINISHED, write_whole
from fairseq_seg.localize.files import Job, check_outputs
from fairseq_seg.localize.journal import Journal, Result, key_of, kind_of
from fairseq_seg.localize.translate import translate_journal

READ = 5000

Show = Callable[[Document, Segment, Result], None]


@dataclass
class Counts:
    """What became of a file's segments."""

    segments: int = 0
    done: int = 0  # translated before
    locked: int = 0  # not to be translated
    translated: int = 0
    exact: int = 0  # of these, exact matches that count as final
    repeated: int = 0  # of these, the same as a segment before
    flagged: int = 0  # of these, to be looked at
    left: int = 0  # could not be translated
    reasons: dict[str, int] = field(default_factory=dict)  # what there is to be looked at

    def add(self, result: Result, repeated: bool) -> None:
        """Count a result."""
        self.repeated += repeated
        self.translated += result.text is not None
        self.left += result.text is None
        self.exact += result.final
        self.flagged += bool(result.flags) and result.text is not None
        for kind in map(kind_of, result.flags):
            self.reasons[kind] = self.reasons.get(kind, 0) + 1

    def __str__(self) -> str:
        text = f"{self.segments:,} segments, {self.translated:,} translated"
        parts = {
            "exact matches": self.exact,
            "repetitions": self.repeated,
            "to check": self.flagged,
        }
        if inside := ", ".join(f"{count:,} {name}" for name, count in parts.items() if count):
            text += f" ({inside})"
        text += f", {self.done:,} were translated before" if self.done else ""
        text += f", {self.locked:,} are not to be translated" if self.locked else ""
        return text + (f", {self.left:,} are left untranslated" if self.left else "")


def is_wanted(segment: Segment, fuzzy: bool) -> bool:
    """Tell whether a segment is to be translated."""
    open_ = segment.state == "new" or (fuzzy and segment.state == "fuzzy")
    return open_ and not segment.locked and bool(segment.source.strip())


@dataclass
class Outcome:
    """What a run did: the counts of each file, and what was wrong with those that could not be done."""

    counts: dict[str, Counts] = field(default_factory=dict)
    errors: list[SegError] = field(default_factory=list)


def translate_files(
    model: Path,
    jobs: Sequence[Job],
    *,
    fuzzy: bool = False,
    format: str | None = None,
    show: Show | None = None,
    checkpoint: Path | None = None,
    arguments: Sequence[str] = (),
    **options: Any,
) -> Outcome:
    """Translate files with a model folder; a file that is wrong does not keep the others from being translated.

    Args:
        fuzzy: translate again what is marked as unsure.
        show: called with every segment that was translated; makes the model say where each word came from.
        arguments, options: as `Translator` takes them.
    """
    from fairseq_seg.translator import Translator

    folder, outcome = ModelFolder.load(model), Outcome()
    langs = folder.source_lang, folder.target_lang
    check_outputs(jobs)
    status = folder.checkpoint_path.stat()
    identity = [fairseq_seg.__version__, str(folder.path.resolve()), status.st_size, status.st_mtime_ns]
    about = json.dumps([*identity, *arguments, options, show is not None], default=str)
    first = jobs[0].output
    journal = Journal(first.with_name(f"{first.name}{UNFINISHED}"), about)
    try:
        documents: list[tuple[Document, Job]] = []
        for job in jobs:
            try:
                document = open_document(job.path, langs, format)
                note_sources(document, journal, fuzzy)
                documents.append((document, job))
            except SegError as error:
                outcome.errors.append(error)
        if journal.count(done=False):
            notations = notation_of(langs[0]), notation_of(langs[1])
            with Translator(model, arguments=arguments, **options) as translator:
                translate_journal(journal, translator, notations, show is not None)
        seen: set[bytes] = set()
        for document, job in tqdm(documents, "writing", unit=" files", leave=False, disable=len(documents) < 2):
            outcome.counts[str(job.output)] = write_document(document, job, journal, fuzzy, seen, show)
    except BaseException:
        journal.close(remove=False)
        raise
    journal.close(remove=True)
    return outcome


def note_sources(document: Document, journal: Journal, fuzzy: bool) -> None:
    """Note the sources of a document in the journal."""
    with document:
        segments = (s for unit in document.units() for s in unit.segments if is_wanted(s, fuzzy))
        found = 0
        while block := list(itertools.islice(segments, READ)):
            journal.add(block)
            found += len(block)
        if found:
            document.check_writable()


def write_document(
    document: Document, job: Job, journal: Journal, fuzzy: bool, seen: set[bytes], show: Show | None = None
) -> Counts:
    """Write a document's output, whole or not at all, and return the counts; `seen` has the sources met before."""
    counts = Counts()

    def edit(segment: Segment) -> Edit | None:
        counts.segments += 1
        if not is_wanted(segment, fuzzy):
            counts.locked += bool(segment.locked)
            counts.done += not segment.locked
            return None
        result, key = journal.result(segment), key_of(segment)
        if result is None:
            raise SegError(f"{document.name} changed while it was being translated: run the command again.")
        if result.text is not None and not document.can_hold(result.text):
            result = Result(None, flags=("encoding",))
        counts.add(result, key in seen)
        seen.add(key)
        if show is not None:
            show(document, segment, result)
        return result.edit

    def edited() -> Iterator[tuple[Unit, list[Edit | None]]]:
        for unit in document.units():
            yield unit, [edit(segment) for segment in unit.segments]

    with document, write_whole(job.output) as stream:
        document.write(stream, edited())
    return counts
