"""Resume a training: with the options it was started with, and with the count of --patience where it was."""

import sys
from pathlib import Path
from typing import Any

from fairseq_seg.checkpoints import load_state
from fairseq_seg.errors import SegError
from fairseq_seg.tasks.presets import spelled


def check_resumed_options(whole: Any, model: Any) -> None:
    """Refuse to resume a training of other options, which fairseq would end with a traceback.

    Args:
        whole: fairseq's whole configuration. None from Python, where nothing is resumed.
    """
    if whole is None or whole.checkpoint.reset_optimizer:
        return
    path = Path(whole.checkpoint.restore_file)
    if str(path) == "checkpoint_last.pt":  # fairseq's default
        path = whole.checkpoint.save_dir / path
    if not path.is_file():
        return
    state = load_state(path)
    saved = state.get("cfg")
    if saved is None:  # fairseq wrote `args` before it wrote `cfg`
        return
    parts = ("criterion", "optimizer", "lr_scheduler")
    other = {part: saved[part]["_name"] for part in parts if saved[part]["_name"] != whole[part]._name}
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    trained = sum(len(group["params"]) for group in state["last_optimizer_state"]["param_groups"])
    fitting = all(name in state["model"] and state["model"][name].shape == shape for name, shape in shapes.items())
    learning = sum(parameter.requires_grad for parameter in model.parameters())
    if not fitting or trained != learning:
        # A model of fairseq's without a dataclass has a Namespace.
        options = saved["model"] if isinstance(saved["model"], dict) else {"_name": saved["model"].arch}
        changed = [name for name in whole.model if options.get(name, whole.model[name]) != whole.model[name]]
        other |= {name.replace("_name", "arch"): options[name] for name in changed}
    if other:
        listed = " ".join(f"{spelled(name)} {value}" for name, value in other.items())
        raise SegError(f"{path} was trained with other options ({listed}): give the same, or name another --save-dir.")


def patience() -> dict[str, float]:
    """Return what fairseq-train counts for --patience: the best validation so far, and how many have been worse.

    It keeps them as attributes of a function, which is in `__main__` if fairseq's module is run by its name.
    """
    for module in ("__main__", "fairseq_cli.train"):
        if function := getattr(sys.modules.get(module), "should_stop_early", None):
            return vars(function)
    return {}
