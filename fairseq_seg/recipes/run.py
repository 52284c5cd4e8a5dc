"""Run all steps of a recipe for one direction, from text to model folders and reports."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_seg.errors import SegError
from fairseq_seg.recipes.comparison import evaluate
from fairseq_seg.recipes.recipe import Recipe, pair_of
from fairseq_seg.recipes.runner import Runner
from fairseq_seg.recipes.steps import make_data, make_models, prefixes, train_systems


class Finished(NamedTuple):
    """What came out: a model folder per guided system that was trained, and a report per split that was scored."""

    models: list[Path]
    reports: list[Path]


def run_direction(
    recipe: Recipe,
    direction: str,
    pairs: list[str],
    output: Path,
    corpus: str | None,
    runner: Runner,
    systems: Sequence[str] | None = None,
) -> Finished:
    """Make the data, say whether a memory will help, train, and score; with `systems`, train only these.

    The text of a direction is that of its pair, one of `pairs`. Both directions of a pair share it.
    """
    pair = pair_of(direction, pairs)
    shared, own = output / "data" / pair, output / direction
    if recipe.protect and pair != direction:
        raise SegError(f"{pair} is protected for one direction: name {direction} in `pairs`, too.")
    text, made = make_data(recipe, pair, shared, corpus, runner)
    source, target = direction.split("-")
    data = shared / "data-bin"
    attach: list[object] = ["seg-attach", data, "-s", source, "-t", target, *shlex.split(recipe.attach)]
    attach += prefixes(shared / "symbols") if recipe.protect else []
    own.mkdir(parents=True, exist_ok=True)
    made = runner.once(own, "attach", attach, [made])
    runner.once(own, "stats", ["seg-stats", data, "-s", source, "-t", target], [made])
    train_systems(recipe, direction, data, made, own, list(systems or recipe.systems), runner)
    models = make_models(recipe, direction, shared, made, own, list(systems or recipe.systems), runner)
    splits = [] if systems else recipe.splits
    reports = [evaluate(recipe, direction, split, data, made, text, own, runner) for split in splits]
    return Finished(models, reports)
