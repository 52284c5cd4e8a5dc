"""A recipe: what to train, from which text and for how long, usually written as a TOML file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_seg.errors import SegError

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
