"""The guided Transformer as fairseq models `seg_transformer` and `seg_transformer_small`."""

from argparse import Namespace
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerModelBase

from fairseq_seg.errors import SegError
from fairseq_seg.models.guided import GuidedModel, MemoryConfig
from fairseq_seg.models.stock_checkpoint import read_sizes
from fairseq_seg.models.transformer_translator import TransformerTranslator

# Options of fairseq's Transformer that leave no attention over the source, that give no probabilities to mix with, that
# change the dictionaries, or that are not for a translator's training.
WITHOUT = (
    *("no_cross_attention", "cross_self_attention", "adaptive_", "tie_adaptive_", "merge_src_tgt_embed", "base_"),
    *("char_inputs", "export", "relu_dropout", "offload_activations", "min_params_to_wrap", "xformers_", "input_"),
    "layers_to_keep",
)
# These sizes of the decoder follow another option unless they are given.
FOLLOWS = {
    "decoder_embed_dim": "encoder_embed_dim",
    "decoder_ffn_embed_dim": "encoder_ffn_embed_dim",
    "decoder_output_dim": "decoder_embed_dim",
}


def flat_fields(config: type[FairseqDataclass], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Return the fields of fairseq's nested configuration under the names that they have on the command line."""
    found: list[tuple[str, Any, Any]] = []
    for part in fields(config):
        name, default, about = prefix + part.name, part.default, dict(part.metadata)
        if part.name.startswith(("_", *WITHOUT)):
            continue
        if isinstance(default, type):
            found += flat_fields(default, f"{name}_")
        elif name in FOLLOWS:
            about["help"] = f"{about['help']} (default: that of --{FOLLOWS[name].replace('_', '-')})"
            found.append((name, Optional[int], field(default=None, metadata=about)))  # noqa: UP045
        else:
            found.append((name, part.type, field(default=default, metadata=about)))
    return found


TransformerOptions: Any = make_dataclass("TransformerOptions", flat_fields(TransformerConfig), bases=(MemoryConfig,))
TransformerOptions.__module__ = __name__
NAMES = [name for name, _, _ in flat_fields(TransformerConfig)]


@dataclass
class SegTransformerConfig(TransformerOptions):
    """fairseq's options and defaults, and where contexts come from."""

    alignment_layer: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "decoder layer whose attention over the source gives contexts and overlap; 0 is the lowest, "
            "default: the last"
        },
    )
    alignment_heads: int = field(
        default=0, metadata={"help": "use only the first N heads of that layer's attention; 0: all"}
    )


@dataclass
class SegTransformerSmallConfig(SegTransformerConfig):
    """Sizes that train on a CPU."""

    encoder_embed_dim: int = 256
    encoder_ffn_embed_dim: int = 1024
    encoder_layers: int = 3
    encoder_attention_heads: int = 4
    decoder_layers: int = 3
    decoder_attention_heads: int = 4
    dropout: float = 0.2
    gate_hidden: int = 128


def as_fairseqs(cfg: SegTransformerConfig) -> TransformerConfig:
    """Return the configuration of fairseq's own modules."""
    given = {name: getattr(cfg, name) for name in NAMES}
    for name, other in FOLLOWS.items():
        given[name] = given[name] or given[other]
    given["activation_fn"] = str(given["activation_fn"])
    return TransformerConfig.from_namespace(Namespace(**given))


def check(cfg: SegTransformerConfig, config: TransformerConfig, joint: bool) -> None:
    """Refuse sizes that contradict each other; joint: both languages have the same dictionary."""
    for side in ("encoder", "decoder"):
        size, heads = (getattr(config, f"{side}_{name}") for name in ("embed_dim", "attention_heads"))
        if heads < 1 or size % heads:
            raise SegError(
                f"--{side}-embed-dim {size} cannot be divided among --{side}-attention-heads {heads}: change one."
            )
        if getattr(config, f"{side}_layers") < 1:
            raise SegError(f"--{side}-layers must be 1 or more.")
    layers, heads = config.decoder_layers, config.decoder_attention_heads
    if cfg.alignment_layer is not None and not 0 <= cfg.alignment_layer < layers:
        raise SegError(
            f"--alignment-layer {cfg.alignment_layer} does not exist: the decoder has layers 0 to {layers - 1}."
        )
    if not 0 <= cfg.alignment_heads <= heads:
        raise SegError(f"--alignment-heads {cfg.alignment_heads} does not exist: a layer has {heads} heads.")
    if config.share_all_embeddings:
        if not joint:
            raise SegError(
                "--share-all-embeddings needs one dictionary for both languages: run fairseq-preprocess with "
                "--joined-dictionary, or with those of the checkpoint (--srcdict, --tgtdict)."
            )
        if config.encoder_embed_dim != config.decoder_embed_dim:
            raise SegError("--share-all-embeddings needs --decoder-embed-dim to be --encoder-embed-dim: leave it out.")


@register_model("seg_transformer", dataclass=SegTransformerConfig)
class SegTransformerModel(GuidedModel):
    """The guided translator around fairseq's Transformer in its base sizes."""

    embeddings = "embed_tokens.weight"

    @classmethod
    def sizes_of(cls, checkpoint: str) -> dict[str, Any]:
        return read_sizes(checkpoint, [*NAMES, "alignment_layer", "alignment_heads"])

    @classmethod
    def build_model(cls, cfg: SegTransformerConfig, task) -> "SegTransformerModel":
        config = as_fairseqs(cfg)
        check(cfg, config, task.source_dictionary == task.target_dictionary)
        plain = TransformerModelBase.build_model(config, task)
        layer = config.decoder_layers - 1 if cfg.alignment_layer is None else cfg.alignment_layer
        return cls.around(TransformerTranslator(plain.encoder, plain.decoder, layer, cfg.alignment_heads), cfg, task)


@register_model("seg_transformer_small", dataclass=SegTransformerSmallConfig)
class SegTransformerSmallModel(SegTransformerModel):
    """The same model in sizes for a CPU."""
