"""The last step: translate a split with all systems and score them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from fairseq_seg.recipes.recipe import SPLITS, Recipe, System
from fairseq_seg.recipes.runner import Runner
from fairseq_seg.recipes.steps import fill, own_folder, run_folder


def translate_with_command(
    recipe: Recipe, name: str, split: str, run: Path, places: dict[str, object], made: Sequence[Path], runner: Runner
) -> Path:
    """Translate a split by a system's own command, after what the system fits; return the file of translations."""
    system = recipe.systems[name]
    folder = run_folder(run.parent, name, int(run.name.rpartition("-")[2]))
    folder.mkdir(exist_ok=True)
    own = {"own": own_folder(run.parent, name), "folder": folder, "run": run, "checkpoint": run / recipe.checkpoint}
    places = places | own | {"split": SPLITS[split]}
    used = [*made, run / "train.finished"]
    if system.fit:
        used.append(runner.once(folder, "fit", fill(system.fit, places), used))
    output = folder / f"{split}.gen"
    runner.once(folder, f"translate-{split}", fill(f"{system.translate} {recipe.generate}", places), used, output)
    if system.data:  # whose sources seg-evaluate would take for those of another split
        lines = output.read_bytes().splitlines(keepends=True)
        output.write_bytes(b"".join(line for line in lines if not line.startswith(b"S-")))
    return output


def evaluate(
    recipe: Recipe, direction: str, split: str, data: Path, made: Path, text: Path, folder: Path, runner: Runner
) -> Path:
    """Translate a split with all systems, score them, and write the report; return its path."""
    source, target = direction.split("-")
    used = [made]
    report = folder / ("report.html" if split == "test" else f"report-{split}.html")
    places: dict[str, object] = {"data": data, "text": text, "source": source, "target": target}

    def translator(run: Path, system: System) -> str:
        options = f"{recipe.generate} {system.generate}".strip()
        return f"{shlex.quote(str(run / recipe.checkpoint))} {options}"

    references = text / f"{split}.{target}"
    command: list[object] = ["seg-evaluate", data, "-s", source, "-t", target, "--references", references]
    command += ["--split", SPLITS[split]] if split != "test" else []
    for name, system in recipe.systems.items():
        trained = system.trained_as or name
        runs = [run_folder(folder, trained, seed) for seed in recipe.systems[trained].seeds]
        if system.translate:
            outputs = [translate_with_command(recipe, name, split, run, places, [made], runner) for run in runs]
            used += [output.with_name(f"translate-{split}.finished") for output in outputs]
            command += ["--system", name, *outputs]
        else:
            command += ["--system", name, *(translator(run, system) for run in runs)]
        if not system.trained_as:
            used += [run / "train.finished" for run in runs]
            command += ["--log", name, runs[0] / "train.log"]
    if recipe.sweep:
        system = recipe.systems[recipe.sweep]
        run = run_folder(folder, recipe.sweep, system.seeds[0])
        if split == recipe.splits[0]:
            command += ["--sweep", f"{shlex.quote(str(run / recipe.checkpoint))} {recipe.generate}".strip()]
        command += ["--examples", translator(run, system)]
    figures = folder / ("figures" if split == "test" else f"figures-{split}")
    command += ["--html", report, "--json", report.with_suffix(".json"), "--figures", figures]
    runner.once(folder, "evaluate" if split == "test" else f"evaluate-{split}", command, used)
    return report
