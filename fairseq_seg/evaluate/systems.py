"""Systems as given on the command line: translations, or a checkpoint to translate with and its options."""

from __future__ import annotations

import shlex
from pathlib import Path

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.decode import generate
from fairseq_seg.evaluate.outputs import Output, System, read_output
from fairseq_seg.evaluate.split import Split

SWEEP = {**{str(k): ["--memory-k", str(k)] for k in (1, 2, 4, 8, 16)}, "adaptive": ["--memory-select", "adaptive"]}


def translation_memory(split: Split) -> System:
    """Return the baseline TM, which translates each sentence by the target of its best pair."""
    return System("TM", [Output(split.pair_targets, pairs=float((split.best >= 0).mean()))])


def parse_checkpoint(text: str) -> tuple[Path, list[str]] | None:
    """Parse `seg.pt --memory-k 2` into a checkpoint and its options; return None for any other file."""
    if Path(text).is_file():
        return (Path(text), []) if text.endswith(".pt") else None
    try:
        path, *options = shlex.split(text) or [""]
    except ValueError:  # an unpaired quote: a file name, reported as missing when it is read
        return None
    return (Path(path), options) if path.endswith(".pt") else None


def read_run(name: str, text: str, split: Split, folder: Path, more: list[str] | None = None) -> Output:
    """Read one run of a system from a file, or translate now into `folder`, with `more` options appended."""
    checkpoint = parse_checkpoint(text)
    if checkpoint is None:
        return read_output(Path(text), split)
    path, options = checkpoint
    return read_output(generate(name, path, options + (more or []), split, folder), split)


def read_sweep(texts: list[str], split: Split, folder: Path) -> list[System]:
    """Read one model with several numbers of pairs: `1=k1.gen 2=k2.gen adaptive=a.gen`, or one checkpoint for all."""
    if len(texts) == 1 and parse_checkpoint(texts[0]) is not None:
        return [System(k, [read_run(f"sweep K={k}", texts[0], split, folder, options)]) for k, options in SWEEP.items()]
    points = []
    for text in texts:
        k, equals, path = text.partition("=")
        if not equals or not (k.isdigit() or k == "adaptive"):
            raise SegError(
                f"--sweep {text} is neither K=OUTPUT, with a number or 'adaptive' for K, nor a single checkpoint (.pt)."
            )
        points.append(System(k, [read_run(f"sweep K={k}", path, split, folder)]))
    return points
