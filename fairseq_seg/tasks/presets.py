"""The sets of options behind --preset."""

import logging
from typing import Any

logger = logging.getLogger(__name__)

# An option named here is None unless the user gives it; `resolve` then fills in the preset's value.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "memory_keys": "context",
        "memory_match": "diagonal",
        "coverage_penalty": 0.0,
        "generator_weight": 0.0,
        "copy_weight": 0.0,
    },
    "recommended": {
        "memory_keys": "context-state",
        "memory_match": "full",
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
    options = [name for name in PRESETS[preset] if hasattr(cfg, name)]
    for name in options:
        if getattr(cfg, name) is None:
            setattr(cfg, name, PRESETS[preset][name])
    if options:
        values = " ".join(f"--{name.replace('_', '-')} {getattr(cfg, name)}" for name in options)
        logger.info("%s: %s", cfg._name, values)
