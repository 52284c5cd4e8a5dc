"""Which files to work on, and where their outputs go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_seg.documents.formats import format_of
from fairseq_seg.errors import SegError


@dataclass(frozen=True)
class Job:
    """A file and its output."""

    path: Path
    output: Path


def find_jobs(paths: Sequence[Path], out: str | Path | None, lang: str, format: str | None = None) -> list[Job]:
    """List the files among paths and in folders, with their outputs.

    One file is written to the file `out`; several, or a folder, to the folder `out`. Without `out`, the output is
    beside the input, with the target language in its name.
    """
    jobs: list[Job] = []
    into = str(out).endswith("/")
    out = None if out is None else Path(out)
    into = into or (out is not None and (len(paths) > 1 or paths[0].is_dir() or out.is_dir()))
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.is_file() and format_of(file))
            if not found:
                raise SegError(f"{path} has no file of a format that is known: name files, with --format if needed.")
            top = out if out is not None else path.with_name(f"{path.name or path.resolve().name}.{lang}")
            jobs += [Job(file, top / file.relative_to(path)) for file in found]
            continue
        if not path.exists():
            raise SegError(f"{path} does not exist: correct the path.")
        if format is None and format_of(path) is None:
            raise SegError(f"The name of {path} does not tell its format: give --format.")
        if out is None:
            jobs.append(Job(path, path.with_name(f"{path.stem}.{lang}{path.suffix}")))
        else:
            jobs.append(Job(path, out / path.name if into else out))
    outputs: dict[Path, Path] = {}
    for job in jobs:
        other = outputs.setdefault(job.output.resolve(), job.path)
        if other != job.path:
            raise SegError(f"{other} and {job.path} would both be written to {job.output}: run the command on each.")
    return jobs


def check_outputs(jobs: Sequence[Job]) -> None:
    """Make the folders of the outputs, and refuse those that cannot be written, before the work begins."""
    for job in jobs:
        if job.output.is_dir():
            raise SegError(f"{job.output} is a folder: name a file with -o, or remove it.")
        try:
            job.output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SegError(f"{job.output.parent} cannot be created: {error.strerror}.") from None
        if not os.access(job.output.parent, os.W_OK):
            raise SegError(f"{job.output.parent} cannot be written to: name another place with -o.")
