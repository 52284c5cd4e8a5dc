"""The steps from text to trained systems and model folders."""

from __future__ import annotations

import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from fairseq_seg.recipes.recipe import Recipe
from fairseq_seg.recipes.runner import Runner, outdated


def make_data(recipe: Recipe, pair: str, folder: Path, corpus: str | None, runner: Runner) -> tuple[Path, Path]:
    """Make text, subwords and binarized data of a language pair; return where the text is and the last mark."""
    source, target = languages = pair.split("-")
    text = folder / "text"
    folder.mkdir(parents=True, exist_ok=True)
    if corpus and Path(corpus, f"train.{source}").exists():
        text = Path(corpus).resolve()
    else:
        template = (corpus and recipe.prepare_corpus) or recipe.prepare
        prepare = shlex.split(template.format(source=source, target=target, text=shlex.quote(str(text))))
        prepare += ["--corpus", corpus] if corpus else []
        given = [path for language in languages if corpus and (path := Path(f"{corpus}.{language}")).exists()]
        mark = folder / "prepare.finished"
        if mark.exists() and outdated(mark, prepare, given):
            shutil.rmtree(text)  # what is there would be kept
        runner.once(folder, "prepare", prepare, given)
    encoded, symbols, dictionaries = [], folder / "symbols", []
    for language, option in zip(languages, ("--srcdict", "--tgtdict"), strict=True):
        model, train = folder / f"subword.{language}", text / f"train.{language}"
        learn = ["seg-subword", "train", "--input", train, "--model", model, "--vocab-size", recipe.symbols]
        if recipe.protect:
            learn += ["--protect", recipe.protect, "--lang", language]
        learned = runner.once(folder, f"subword-{language}", learn, [train])
        dictionaries += [option, f"{model}.dict.txt"]
        for split in ("train", "dev", "test"):
            plain, output = text / f"{split}.{language}", symbols / f"{split}.{language}"
            encode = ["seg-subword", "encode", "--model", f"{model}.model", "--input", plain, "--output", output]
            used = [learned, plain]
            if recipe.protect and language == target:
                original = text / f"{split}.{source}"
                encode += ["--source", original, "--source-model", f"{folder}/subword.{source}.model"]
                used += [original, folder / f"subword-{source}.finished"]
            encoded.append(runner.once(folder, f"encode-{split}-{language}", encode, used))
    if recipe.longest:
        limits = [f"{split}={limit}" for split, limit in recipe.longest.items()]
        shorten = ["python", "examples/shorten.py", text, symbols, folder / "short", *languages, *limits]
        encoded = [runner.once(folder, "shorten", shorten, encoded)]
        text, symbols = folder / "short/text", folder / "short/symbols"
    options = ["-s", source, "-t", target, *prefixes(symbols), *dictionaries, "--destdir", folder / "data-bin"]
    return text, runner.once(folder, "binarize", ["fairseq-preprocess", *options], encoded)


def prefixes(symbols: Path) -> list[object]:
    """Name the splits in symbols, for fairseq-preprocess and seg-attach."""
    return ["--trainpref", symbols / "train", "--validpref", symbols / "dev", "--testpref", symbols / "test"]


def fill(template: str, places: dict[str, object]) -> list[str]:
    """Return a command of the configuration file with names and folders in place."""
    return shlex.split(template.format(**{name: shlex.quote(str(place)) for name, place in places.items()}))


def own_folder(folder: Path, system: str) -> Path:
    """Name the folder that the seeds of a system share."""
    return folder / f"{system.replace(' ', '-')}-data"


def train_systems(
    recipe: Recipe, direction: str, data: Path, made: Path, folder: Path, systems: list[str], runner: Runner
) -> None:
    """Train the base, then every system and seed, several at a time; `made` is the mark of their data."""
    source, target = direction.split("-")
    plugin = ["--user-dir", "fairseq_seg", "--task", "seg_translation", "--criterion", "seg_cross_entropy"]
    kept = ["--no-epoch-checkpoints", "--keep-interval-updates", 1, "--log-format", "json", "--log-interval", 50]

    def command(data: Path, run: Path, seed: int, updates: int, *options: object) -> list[str]:
        own = ["--seed", seed, "--max-update", updates, "--save-dir", run, "--log-file", run / "train.log"]
        common = [data, "-s", source, "-t", target, *plugin, *shlex.split(recipe.train), *kept]
        return [str(part) for part in ("fairseq-train", *common, *options, *own)]

    start: list[object] = []
    used = [made]
    if recipe.base_updates:
        base = folder / "base"
        train = command(data, base, 1, recipe.base_updates, *shlex.split(recipe.base_train), "--memory-k", 0)
        runner.check_training(base, train, used)
        runner.train(base, f"{direction} base", recipe.base_updates, train, 0)
        start = ["--finetune-from-model", base / "checkpoint_last.pt"]
    trainings: dict[Path, tuple[list[str], int]] = {}
    for name in systems:
        system = recipe.systems[name]
        used = [made, folder / "base/train.finished"] if start and system.from_base else [made]
        options, updates = f"{recipe.system_train} {system.train}", recipe.updates
        if not system.from_base:
            options, updates = system.train, recipe.base_updates + recipe.updates
        of_system = data
        if system.data:
            of_system = own_folder(folder, name)
            of_system.parent.mkdir(parents=True, exist_ok=True)
            make = fill(system.data, {"data": data, "own": of_system, "source": source, "target": target})
            used.append(runner.once(folder, of_system.name, make, [made]))
        for seed in [] if system.trained_as else system.seeds:
            run = run_folder(folder, name, seed)
            train = command(of_system, run, seed, updates, *shlex.split(options), *(start if system.from_base else []))
            runner.check_training(run, train, used)
            trainings[run] = train, updates
    with ThreadPoolExecutor(recipe.jobs) as pool:
        running = [
            pool.submit(runner.train, run, f"{direction} {run.name}", updates, train, place % recipe.jobs)
            for place, (run, (train, updates)) in enumerate(trainings.items())
        ]
        try:
            for training in as_completed(running):
                training.result()
        except BaseException:
            # A failure or Ctrl-C is reported at once. Running trainings stop, and resume when the recipe does.
            runner.stopping.set()
            pool.shutdown(cancel_futures=True)
            raise


def run_folder(folder: Path, system: str, seed: int) -> Path:
    """Name the folder where a system is trained with a seed."""
    return folder / f"{system.replace(' ', '-')}-{seed}"


def make_models(
    recipe: Recipe, direction: str, shared: Path, made: Path, folder: Path, systems: list[str], runner: Runner
) -> list[Path]:
    """Make a model folder of the first seed of every guided system that is trained; return the folders."""
    source, target = direction.split("-")
    folders = []
    for name in systems:
        system = recipe.systems[name]
        if system.trained_as or system.translate or not system.is_guided:
            continue
        run = run_folder(folder, name, system.seeds[0])
        command = ["seg-model", shared / "data-bin", "-s", source, "-t", target, "--path", run / recipe.checkpoint]
        command += ["--spm-source", shared / f"subword.{source}.model"]
        command += ["--spm-target", shared / f"subword.{target}.model"]
        command += ["--output", run / "model", *with_equals(f"{recipe.generate} {system.generate}")]
        runner.once(run, "model", command, [made, run / "train.finished"])
        folders.append(run / "model")
    return folders


def with_equals(options: str) -> list[str]:
    """Return options in the form --name=value, which seg-model takes."""
    return shlex.split(re.sub(r"(--[\w-]+)[ \n]+(?!--)", r"\1=", options.strip()))
