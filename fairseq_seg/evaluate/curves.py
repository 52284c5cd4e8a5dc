"""Training curves from the logs of fairseq-train, in its formats simple and json."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_seg.errors import SegError
from fairseq_seg.files import read_text_file

INNER = re.compile(r"epoch \d+:\s+\d+ / \d+ (.*)")
VALID = re.compile(r"epoch \d+ \| valid on '([^']+)' subset \| (.*)")
# What is drawn, by fairseq's name.
FIGURES = {"nll_loss": "loss", "bleu": "BLEU on the development set", "gate": "mean gate", "lambda": "lambda of Eq. 7"}


@dataclass
class Curve:
    """A training run: the values of each logged figure by update, in training and on the dev set."""

    name: str
    train: dict[str, dict[int, float]] = field(default_factory=dict)
    valid: dict[str, dict[int, float]] = field(default_factory=dict)


def read_curve(name: str, paths: list[str | Path]) -> Curve:
    """Read the log of a run; if an update was logged twice, as after a restart, the last one counts."""
    curve, subset = Curve(name), None
    for path in paths:
        for line in read_text_file(path):
            where, values, split = _parse(line)
            if where is None:
                continue
            if where == "valid":
                subset = subset or split
                if split != subset:  # a second validation set
                    continue
            update = int(values["num_updates"])
            for figure in FIGURES.keys() & values.keys():
                getattr(curve, where).setdefault(figure, {})[update] = values[figure]
    if not curve.train and not curve.valid:
        raise SegError(
            f"{', '.join(map(str, paths))}: no figures of a training run: give the --log-file of fairseq-train with "
            "--log-format simple or json."
        )
    return curve


def _parse(line: str) -> tuple[str | None, dict[str, float], str]:
    """Return whether a line is about training or validation, its figures, and the validation set."""
    split = ""
    values: dict[str, Any] = {}
    if (brace := line.find('{"epoch"')) >= 0:
        try:
            logged = json.loads(line[brace:])
        except ValueError:  # the log ends within a line
            return None, {}, ""
        valid = [key for key in logged if key.endswith("_num_updates") and not key.startswith("train_")]
        split = valid[0].removesuffix("_num_updates") if valid else ""
        values = {key.removeprefix(f"{split}_") if split else key: value for key, value in logged.items()}
        where = "valid" if split else "train"
    elif match := VALID.search(line):
        where, split = "valid", match[1]
        values = dict(part.rsplit(" ", 1) for part in match[2].split(" | ") if " " in part)
    elif match := INNER.search(line):
        where = "train"
        values = dict(part.split("=", 1) for part in match[1].split(", ") if "=" in part)
    else:
        return None, {}, ""
    numbers = {key: number for key, value in values.items() if (number := _number(value)) is not None}
    return (where if "num_updates" in numbers else None), numbers, split


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
