"""From files to a model folder: the recommended recipe, on whatever pairs the files have."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.errors import SegError, need
from fairseq_seg.files import lock_file, make_whole
from fairseq_seg.recipes.files import find_direction, group_files, pairs_of
from fairseq_seg.recipes.parallel import FULL, Pair, cleaned, split, tokens
from fairseq_seg.recipes.recipe import Recipe, System
from fairseq_seg.recipes.run import run_direction
from fairseq_seg.recipes.runner import Runner, environment
from fairseq_seg.store.formats import Tags

RUN = "run.json"
FEWEST = 200
HELD_OUT = 1000
BATCH = 32
# Eight passes over the pairs, half of them by the plain translator, within these bounds.
PASSES, LEAST, MOST = 8, 2000, 40_000
# As in examples/demo and examples/transformer: options of all trainings, of the plain one, and of the guided one.
GRU = ("--lr 0.001", "", "--lr-scheduler polynomial_decay --total-num-update {updates}")
TRANSFORMER = (
    "--encoder-normalize-before --decoder-normalize-before --share-decoder-input-output-embed --label-smoothing 0.1 "
    "--adam-betas '(0.9, 0.98)'",
    "--lr 0.0015 --lr-scheduler inverse_sqrt --warmup-updates {warmup}",
    "--lr 0.0005 --lr-scheduler polynomial_decay --warmup-updates {warmup} --total-num-update {updates}",
)
ARCHITECTURES = dict.fromkeys(("seg_gru_small", "seg_gru"), GRU)
ARCHITECTURES |= dict.fromkeys(("seg_transformer_small", "seg_transformer"), TRANSFORMER)


@dataclass(frozen=True)
class Settings:
    """What a user may choose; 0 and None stand for what the data suggests."""

    source: str | None = None
    target: str | None = None
    updates: int = 0
    symbols: int = 8000
    arch: str = "seg_gru_small"
    protect: str = ""


def train_from_files(files: Sequence[Path], model: Path, settings: Settings, keep: bool = False) -> ModelFolder:
    """Train a guided translator on the pairs of files, score it on held-out pairs, and make its model folder.

    The steps' results are beside the model, in MODEL.work, until it is finished: a stopped run resumes from there.
    """
    model = model.resolve()
    if not files:
        raise SegError("There are no files to train on: name TMX, XLIFF, PO, TSV files or two plain texts.")
    if model.exists() and ModelFolder.find(model) is None:
        raise SegError(f"{model} exists and is not a model folder: choose another name.")
    for package in ("sacremoses", "matplotlib"):
        need(package, "evaluate", "seg-train")
    runner = Runner(environment())
    found = group_files([path.resolve() for path in files])
    direction = find_direction(found, settings.source, settings.target)
    work = model.with_name(f"{model.name}.work")
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "lock", "ab") as lock:
        if not lock_file(lock, "exclusive"):
            raise SegError(f"Another seg-train is at work in {work}: wait for it, or choose another -o.")
        text = work / "text"
        run = {"files": [fingerprint(path) for path in files], **asdict(settings)}
        if text.exists():
            check_run(text, run)
        else:
            tags: Tags = "codes" if "tags" in settings.protect.split(",") else "drop"
            skipped: Counter[str] = Counter()
            try:
                pairs = list(pairs_of(found, *direction, tags, skipped))
                write_splits(divide(pairs, skipped), text, direction, run)
            except SegError:
                shutil.rmtree(work)  # there is nothing to resume
                raise
        recipe = recommended(text, direction, settings)
        done = run_direction(recipe, recipe.pairs[0], recipe.pairs, work, str(text), runner)
        with make_whole(model) as folder:
            shutil.copytree(done.models[0], folder, dirs_exist_ok=True)
            for report in done.reports:
                for path in (report, report.with_suffix(".json")):
                    shutil.copyfile(path, folder / path.name)
        if not keep:
            shutil.rmtree(work)
    return ModelFolder.load(model)


def fingerprint(path: Path) -> list[str | int]:
    """Identify a file as it is now, without reading it."""
    stat = path.stat()
    return [str(path.resolve()), stat.st_size, stat.st_mtime_ns]


def check_run(text: Path, run: dict[str, Any]) -> None:
    """Refuse to resume an earlier run with other files or settings."""
    try:
        earlier = json.loads((text / RUN).read_bytes())
    except (OSError, ValueError):
        earlier = {}
    if changed := [name for name in run if run[name] != earlier.get(name)]:
        raise SegError(
            f"{text.parent} has an earlier run with other {' and '.join(changed)}: repeat its command to resume it, "
            "remove the folder, or choose another -o."
        )


def divide(pairs: Sequence[Pair], skipped: Counter[str]) -> dict[str, list[Pair]]:
    """Clean pairs, print what was left out, and draw dev and test; refuse too few."""
    usable = cleaned(pairs, FULL)
    print(f"{len(pairs):,} pairs, {len(usable):,} of them usable, each source once", flush=True)
    for reason, count in skipped.most_common():
        print(f"  left out: {reason}: {count:,}", flush=True)
    if len(usable) < FEWEST:
        raise SegError(
            f"Only {len(usable):,} usable pairs were found in the files, at least {FEWEST} are needed: add files."
        )
    return split(usable, HELD_OUT)


def write_splits(splits: dict[str, list[Pair]], text: Path, direction: tuple[str, str], run: dict[str, Any]) -> None:
    """Write the text of all splits, and what they were made from, whole or not at all."""
    with make_whole(text) as folder:
        for name, pairs in splits.items():
            for language, side in zip(direction, ("source", "target"), strict=True):
                lines = "".join(getattr(pair, side) + "\n" for pair in pairs)
                (folder / f"{name}.{language}").write_text(lines, encoding="utf-8")
        (folder / RUN).write_text(json.dumps(run, ensure_ascii=False, indent=1), encoding="utf-8")
    print(", ".join(f"{name} {len(pairs):,}" for name, pairs in splits.items()), flush=True)


def recommended(text: Path, direction: tuple[str, str], settings: Settings) -> Recipe:
    """Return the recipe that the demo follows: half of the updates plain, half guided by two pairs per sentence."""
    sides = [(text / f"train.{language}").read_text(encoding="utf-8") for language in direction]
    pairs = sides[0].count("\n")
    half = max(1, (settings.updates or min(max(LEAST, PASSES * pairs // BATCH), MOST)) // 2)
    # More subwords than words and characters would spell out the training set; sentencepiece may refuse that, too.
    symbols = min(settings.symbols, *(len(set(tokens(side))) + len(set(side)) for side in sides))
    of_all, of_base, of_guided = (
        options.format(updates=half, warmup=min(500, half // 10)) for options in ARCHITECTURES[settings.arch]
    )
    often = f"--save-interval-updates {min(500, half)} --validate-interval 1000 --num-workers 0"
    return Recipe(
        pairs=["-".join(direction)],
        prepare="",
        symbols=symbols,
        train=f"--arch {settings.arch} --optimizer adam --clip-norm 1.0 --batch-size {BATCH} {often} {of_all}",
        base_train=of_base,
        base_updates=half,
        updates=half,
        system_train=of_guided,
        systems={
            "SEG": System(train="--memory-k 2 --preset recommended", generate="--memory-k 2"),
            "SEG without memory": System(trained_as="SEG", generate="--memory-k 0"),
        },
        protect=settings.protect,
    )
