"""Run a recipe: from text to model folders, translations and a report, as its configuration file says.

Every step is a command, printed before it runs, so that you can copy it and change it. A finished step is not repeated
unless its command or its input has changed since, and a stopped training resumes from its last checkpoint: rerun the
command. To start over, remove the output folder.

Commands in a configuration file may name {source} and {target}, the languages; {text}, the folder of plain text;
{data}, the attached data-bin; and, for one system, {own}, a folder that its seeds share; {folder}, one seed's own;
{run} and {checkpoint}, the training it translates with; and {split}, the split to translate.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from tqdm import tqdm

from fairseq_seg.errors import SegError, command

ROOT = Path(__file__).resolve().parents[1]
SPLITS = {"dev": "valid", "test": "test"}  # as fairseq calls them
NO_MEMORY = re.compile(r"--memory-k[ =]0\b")
WORDS = re.compile(r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")


@dataclass(frozen=True)
class System:
    """A system to compare: how it is trained and with which seeds, or as which other system, and how it translates."""

    generate: str = ""  # options of fairseq-generate
    train: str = ""  # options of fairseq-train
    trained_as: str = ""  # the name of the system whose checkpoints it translates with, in another way
    seeds: list[int] = field(default_factory=lambda: [1])
    from_base: bool = True  # False: trained from nothing, for the updates of the base and its own
    data: str = ""  # command that makes the data-bin {own} from {data}, to train on it
    fit: str = ""  # command to run after the training, before any split is translated
    translate: str = ""  # command that prints the translations of {split}, instead of seg-evaluate's fairseq-generate

    @property
    def is_guided(self) -> bool:
        """Whether it translates with retrieved pairs."""
        return not NO_MEMORY.search(self.generate)


@dataclass(frozen=True)
class Recipe:
    """A configuration file."""

    pairs: list[str]  # language pairs of the text, as en-fr
    prepare: str  # command that makes the folder {text} with train, dev and test
    symbols: int  # subwords per language
    train: str  # options of every fairseq-train
    updates: int  # of every system, after the base
    systems: dict[str, System]
    protect: str = ""  # tokens that cannot go wrong, see `seg-subword train --protect`
    prepare_corpus: str = ""  # command that does it from --corpus PREFIX, if `prepare` cannot
    directions: list[str] = field(default_factory=list)  # translated; by default the pairs as they are written
    base_updates: int = 0  # of the plain translator that all systems of a direction start from; 0: from nothing
    base_train: str = ""  # options of its fairseq-train alone
    system_train: str = ""  # options of the fairseq-train of every system that starts from the base
    generate: str = ""  # options of every fairseq-generate
    longest: dict[str, int] = field(default_factory=dict)  # symbols of the longest sentence kept, by split
    attach: str = ""  # options of seg-attach
    splits: list[str] = field(default_factory=lambda: ["test"])  # to score; the sweep is on the first
    sweep: str = ""  # the system that is also tried with 1, 2, 4, 8, 16 and adaptive pairs, and whose gates are shown
    checkpoint: str = "checkpoint_last.pt"
    jobs: int = 1  # trainings at a time


def read_recipe(path: Path, sample: bool = False) -> Recipe:
    """Read a configuration file, and refuse a wrong or missing entry; with `sample`, its sample replaces entries."""
    try:
        with path.open("rb") as stream:
            entries = tomllib.load(stream)
    except OSError as error:
        raise SegError(f"{path} cannot be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SegError(f"{path} is not TOML: {error}.") from None
    replaced = entries.pop("sample", None)
    if sample and not replaced:
        raise SegError(f"{path} has no [sample]: leave out --sample, or give a smaller text with --corpus.")
    entries |= replaced if sample else {}
    try:
        systems = {name: System(**options) for name, options in entries.pop("systems", {}).items()}
        recipe = Recipe(**entries, systems=systems)
    except TypeError as error:
        raise SegError(f"{path}: {str(error).split('__init__() ')[-1]}.") from None
    for name in systems:
        if not WORDS.fullmatch(name.replace(" ", "-")):
            raise SegError(f"{path}: a system's name has letters, digits, blanks and hyphens only, not '{name}'.")
    for name in (recipe.sweep, *(system.trained_as for system in systems.values())):
        if name and (name not in systems or systems[name].trained_as):
            raise SegError(f"{path}: '{name}' is not one of the systems that are trained.")
    if recipe.protect and recipe.longest:  # the values of the protected tokens are kept by line
        raise SegError(f"{path}: protect and longest do not go together: leave one out.")
    if unknown := set(recipe.splits) - set(SPLITS):
        raise SegError(f"{path}: '{min(unknown)}' is not one of the splits that can be scored: dev, test.")
    return recipe


def pair_of(direction: str, pairs: list[str]) -> str:
    """Return the language pair whose text a direction is trained on: itself or its reverse."""
    if direction.count("-") != 1:
        raise SegError(f"{direction} is not a direction: write two languages, as in en-fr.")
    turned = "-".join(reversed(direction.split("-")))
    for pair in (direction, turned):
        if pair in pairs:
            return pair
    raise SegError(f"{direction} is not one of the recipe's directions: its pairs are {', '.join(pairs)}.")


def outdated(mark: Path, command: list[str], after: Sequence[Path]) -> str:
    """Say why a finished step is stale: another command, or newer input (the files `after` which it runs); or ''."""
    if mark.read_text(encoding="utf-8") != shlex.join(command):
        return "with other options"
    if any(used.stat().st_mtime_ns > mark.stat().st_mtime_ns for used in after):
        return "before its input was rebuilt"
    return ""


class Runner:
    """Runs each command once: a finished step leaves a mark, a file with its command, beside its results."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment
        self.stopping = Event()

    def once(
        self, folder: Path, step: str, parts: Sequence[object], after: Sequence[Path] = (), output: Path | None = None
    ) -> Path:
        """Run a step in the foreground, unless it is finished and up to date; return its mark.

        Its standard output goes to the file `output`, if given, and its messages, which tell the speed, beside that.
        """
        command = [str(part) for part in parts]
        mark = folder / f"{step}.finished"
        if not mark.exists() or outdated(mark, command, after):
            self.show(command)
            log = output.with_suffix(".log") if output else None
            with (
                open(output, "wb") if output else nullcontext() as out,
                open(log, "wb") if log else nullcontext() as err,
            ):
                failed = subprocess.run(command, cwd=ROOT, env=self.environment, stdout=out, stderr=err).returncode
            if failed:
                raise SegError(
                    f"The step '{step}' failed: see {f'its message in {log}' if log else 'its message above'}."
                )
            mark.write_text(shlex.join(command), encoding="utf-8")
        return mark

    @staticmethod
    def check_training(folder: Path, command: list[str], after: Sequence[Path]) -> None:
        """Refuse to resume a training, finished or not, with another command: only the user may remove it."""
        begun = folder / "train.begun"
        if begun.exists() and any(folder.glob("checkpoint*.pt")) and (reason := outdated(begun, command, after)):
            raise SegError(
                f"{folder} was trained {reason}: remove that folder to train it again, or give another --output."
            )

    def train(self, folder: Path, name: str, updates: int, command: list[str], position: int) -> None:
        """Run a training beside others, its output in train.out and its progress, read from its log, as a bar."""
        finished = folder / "train.finished"
        if finished.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("checkpoint*.pt")):
            (folder / "train.begun").write_text(shlex.join(command), encoding="utf-8")
        self.show(command)
        with (folder / "train.out").open("ab") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=output, stderr=output)
        try:
            with tqdm(total=updates, desc=name, unit=" updates", position=position) as bar:
                while process.poll() is None and not self.stopping.is_set():
                    time.sleep(0.5)
                    self.advance(bar, folder / "train.log")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode:
            lines = (folder / "train.out").read_text(encoding="utf-8", errors="replace").split("\n")
            said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise SegError(f"Training {name} failed: {said.strip()} (all of it: {folder / 'train.out'})")
        finished.touch()

    @staticmethod
    def advance(bar, log: Path) -> None:
        """Move a bar to the last update that a training logged."""
        if log.exists():
            with log.open("rb") as stream:
                stream.seek(max(0, log.stat().st_size - 16384))
                lines = stream.read().decode("utf-8", "replace").splitlines()
            found = [updates for updates in map(logged_updates, lines) if updates is not None]
            bar.update(found[-1] - bar.n if found else 0)

    @staticmethod
    def show(command: list[str]) -> None:
        """Print a command so that it can be copied."""
        tqdm.write(f"\n$ {shlex.join(command)}", file=sys.stderr)


def logged_updates(line: str) -> int | None:
    """Return the number of updates that a line of fairseq's JSON log tells; None for any other line."""
    _, brace, rest = line.partition("{")
    try:
        values = json.loads(brace + rest)
        return next((int(value) for name, value in values.items() if name.endswith("num_updates")), None)
    except ValueError:  # other text, or the log ends within a line
        return None


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


@command("recipe.py", stopped="stopped. Rerun the command to resume.")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, metavar="RECIPE.toml", help="the configuration file")
    parser.add_argument(
        "--corpus",
        metavar="TEXT",
        help="your text instead of the recipe's: a folder with train, dev and test of each language (train.en ...), or "
        "the beginning of the names of two files (TEXT.en, TEXT.fr), from which dev and test are drawn",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: 'output' beside the configuration file")
    parser.add_argument("--directions", nargs="+", metavar="EN-FR", help="some of the recipe's directions, or yours")
    parser.add_argument(
        "--sample", action="store_true", help="try all of it in minutes, with the small text and sizes of its [sample]"
    )
    parser.add_argument("--base-updates", type=int, metavar="N", help="another length of the base's training")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="train only these and write no report")
    args = parser.parse_args()
    # A plain `kill` stops the trainings as Ctrl-C does: one left behind would write into the folder of the next.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run(args)


def run(args: argparse.Namespace) -> None:
    """Run a recipe as the command line asks for it."""
    recipe = read_recipe(args.recipe, args.sample)
    if args.base_updates is not None:
        recipe = replace(recipe, base_updates=args.base_updates)
    if unknown := set(args.systems or ()) - set(recipe.systems):
        raise SegError(f"The recipe has no system '{min(unknown)}', only {', '.join(recipe.systems)}.")
    output = (args.output or args.recipe.parent / "output" / ("sample" if args.sample else "")).resolve()
    corpus = args.corpus and str(Path(args.corpus).absolute())
    directions = args.directions or recipe.directions or recipe.pairs
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    if shutil.which("fairseq-train", path=environment["PATH"]) is None:
        raise SegError("fairseq-train was not found: run `make setup`, then use .venv/bin/python.")
    runner = Runner(environment)
    for direction in directions:
        pair = pair_of(direction, [*recipe.pairs, *(args.directions if corpus and args.directions else ())])
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
        systems = args.systems or list(recipe.systems)
        train_systems(recipe, direction, data, made, own, systems, runner)
        for folder in make_models(recipe, direction, shared, made, own, systems, runner):
            print(f"{folder} is a model folder for seg-explain and Translator.", flush=True)
        if not args.systems:
            for split in recipe.splits:
                report = evaluate(recipe, direction, split, data, made, text, own, runner)
                print(f"The report of {direction} is {report}: open it in a browser.", flush=True)


if __name__ == "__main__":
    main()
