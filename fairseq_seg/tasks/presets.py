"""The sets of options behind --preset."""

import logging
from typing import Any

from fairseq_seg.errors import SegError

logger = logging.getLogger(__name__)

# An option named here is None unless the user gives it; `resolve` then fills in the preset's value.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "memory_keys": "context",
        "memory_match": "diagonal",
        "memory_overlap": False,
        "coverage_penalty": 0.0,
        "generator_weight": 0.0,
        "copy_weight": 0.0,
    },
    "recommended": {
        "memory_keys": "context-state",
        "memory_match": "full",
        "memory_overlap": True,
        "coverage_penalty": 8.0,
        "generator_weight": 0.5,
        "copy_weight": 0.5,
    },
}


def by_preset(option: str) -> str:
    """Return the end of an option's help text: its value in each preset."""
    return "; default: " + ", ".join(f"{values[option]} (--preset {name})" for name, values in PRESETS.items())


def resolve(cfg: Any, preset: str) -> None:
    """Give each option of a model or criterion that is None the preset's value, and log these options.

    fairseq saves `cfg` in the checkpoint, which therefore keeps its meaning if a preset changes.
    """
    values = dict(PRESETS[preset])
    if str(getattr(cfg, "memory_keys", None)).startswith("target"):
        values["memory_overlap"] = False  # these keys do not see the retrieved source
    options = [name for name in values if hasattr(cfg, name)]
    for name in options:
        given = getattr(cfg, name)
        if given is None:
            setattr(cfg, name, values[name])
        elif isinstance(values[name], bool):
            setattr(cfg, name, switch(name, given))
    if options:
        logger.info("%s: %s", cfg._name, " ".join(f"{spelled(name)} {getattr(cfg, name)}" for name in options))


def switch(name: str, given: Any) -> bool:
    """Return the value of an option that is True or False."""
    if str(given) not in ("True", "False"):
        raise SegError(f"{spelled(name)} {given} is neither True nor False: give one of the two.")
    return str(given) == "True"


def spelled(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"
