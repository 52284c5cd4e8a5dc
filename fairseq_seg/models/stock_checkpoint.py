"""Sizes of a Transformer that has been trained: by stock fairseq, old (`args`) or new (`cfg`), or by this plugin."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq.models.transformer.transformer_legacy import base_architecture

from fairseq_seg.checkpoints import check_checkpoint, load_state
from fairseq_seg.errors import SegError

# Of training alone: they stay as the user gives them.
OF_TRAINING = ("dropout", "layerdrop", "quant_noise", "embed_path", "checkpoint_activations")


def read_sizes(path: str | Path, names: list[str]) -> dict[str, Any]:
    """Return the options, of those named, that a checkpoint's parameters depend on; refuse what is no Transformer."""
    check_checkpoint(path)
    state = load_state(path)
    parameters, saved = state["model"], (state.get("cfg") or {}).get("model") or state.get("args")
    parts = [any(key.startswith(start) for key in parameters) for start in ("encoder.layers.0.", "decoder.layers.0.")]
    if not all(parts) or not any(key.startswith("decoder.layers.0.encoder_attn.") for key in parameters):
        what = (
            "an encoder without a decoder"
            if parts[0] and not any(k.startswith("decoder.") for k in parameters)
            else ("a decoder without attention over a source" if parts[1] else "not a Transformer")
        )
        raise SegError(f"{path} is {what}: give a translation model that fairseq trained with --arch transformer.")
    if saved is None:
        raise SegError(f"{path} does not record the options it was trained with: give a checkpoint of fairseq-train.")
    options = Namespace(**(saved if isinstance(saved, dict) else vars(saved)))
    base_architecture(options)  # fills in what an older fairseq did not have
    wanted = [name for name in names if not any(part in name for part in OF_TRAINING)]
    return {name: getattr(options, name) for name in wanted if getattr(options, name, None) is not None}
