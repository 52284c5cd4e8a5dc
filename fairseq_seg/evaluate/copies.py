"""Wrong copies of every system, by the attention of one model: the judge."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.decode import kept_path, run_kept
from fairseq_seg.evaluate.outputs import System
from fairseq_seg.evaluate.split import Split
from fairseq_seg.evaluate.systems import parse_checkpoint
from fairseq_seg.explain.copies import Copies
from fairseq_seg.files import read_text_file

MODEL = "--target-sentencepiece-model"


def check_judge(judge: str, split: Split) -> tuple[Path, list[str]]:
    """Return the checkpoint and its options; refuse anything else."""
    checkpoint = parse_checkpoint(judge)
    if checkpoint is None:
        raise SegError(f"--judge {judge} is not a checkpoint (.pt), with or without options: name one.")
    path, options = checkpoint
    return path, options + subword_option(split, options)


def judge_copies(judge: str, split: Split, systems: list[System], folder: Path) -> dict[str, list[list[Copies]]]:
    """Return the copies of each sentence of every run of every system, by its name."""
    path, options = check_judge(judge, split)
    return {
        system.name: [judge_run(system.name, run.lines, path, options, split, folder) for run in system.runs]
        for system in systems
    }


def subword_option(split: Split, options: list[str]) -> list[str]:
    """Return the option that names the subword model of translations, unless it is there or none is needed."""
    if split.subword == "none" or any(option.partition("=")[0] == MODEL for option in options):
        return []
    model = ModelFolder.find(split.data)
    if split.subword == "sentencepiece" and model is not None and model.subword_paths is not None:
        return [MODEL, str(model.subword_paths[1])]
    raise SegError(f"--judge has to cut translations into subwords: add {MODEL} FILE to its options, in the quotes.")


def judge_run(
    name: str, lines: list[str], checkpoint: Path, options: list[str], split: Split, folder: Path
) -> list[Copies]:
    """Return the copies of each sentence of one run, or read an earlier result."""
    digest = blake2b("\n".join([*lines, *split.references]).encode(), digest_size=8).hexdigest()
    path = kept_path(folder, checkpoint, [*options, "copies", digest], split, ".copies.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [*split.arguments, "--path", str(checkpoint), "--gen-subset", split.name, *options]
    for option, texts in (("--translations", lines), ("--references", split.references)):
        file = path.with_suffix(f".{option.strip('-')}.txt")
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        arguments += [option, str(file)]
    run_kept("fairseq_seg.cli.copies", arguments, path, b'\n{"words"', len(split), f"copies of {name}")
    return [Copies(**json.loads(line)) for line in read_text_file(path)]
