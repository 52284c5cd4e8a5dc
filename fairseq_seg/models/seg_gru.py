"""The guided GRU translator as fairseq models `seg_gru` and `seg_gru_small`."""

from dataclasses import dataclass, field, fields
from typing import Any

from fairseq.models import register_model

from fairseq_seg.checkpoints import check_checkpoint, load_state
from fairseq_seg.errors import SegError
from fairseq_seg.models.guided import GuidedModel, MemoryConfig
from fairseq_seg.modules.gru import GRUDecoder, GRUEncoder, GRUTranslator, embedding


@dataclass
class SegGRUConfig(MemoryConfig):
    """The sizes of the paper; where it gives none, those of the authors' code."""

    hidden_size: int = field(default=1024, metadata={"help": "GRU units of each encoder direction and of the decoder"})
    embed_dim: int = field(default=512, metadata={"help": "size of the symbol embeddings and of the readout"})
    attention_size: int = field(
        default=0, metadata={"help": "hidden size of the attention network; 0: the same as --hidden-size"}
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the readout, the layer below the vocabulary"})
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "use one matrix for target embeddings and output layer: fewer parameters"}
    )
    share_all_embeddings: bool = field(
        default=False, metadata={"help": "use one matrix for source, target and output; needs a joint dictionary"}
    )


@dataclass
class SegGRUSmallConfig(SegGRUConfig):
    """Sizes that train on a CPU."""

    hidden_size: int = 256
    embed_dim: int = 256
    dropout: float = 0.2
    gate_hidden: int = 128


@register_model("seg_gru", dataclass=SegGRUConfig)
class SegGRUModel(GuidedModel):
    """The guided translator in the paper's sizes."""

    @classmethod
    def sizes_of(cls, checkpoint: str) -> dict[str, Any]:
        check_checkpoint(checkpoint)
        saved = (load_state(checkpoint).get("cfg") or {}).get("model")
        names = [field.name for field in fields(SegGRUConfig) if field.name not in MemoryConfig.__dataclass_fields__]
        known = isinstance(saved, dict) and str(saved["_name"]).startswith("seg_gru")
        return {name: saved[name] for name in names if name != "dropout" and name in saved} if known else {}

    @classmethod
    def build_model(cls, cfg: SegGRUConfig, task) -> "SegGRUModel":
        source, target = task.source_dictionary, task.target_dictionary
        if cfg.share_all_embeddings:
            if source != target:
                raise SegError(
                    "--share-all-embeddings needs one dictionary for both languages: run fairseq-preprocess with "
                    "--joined-dictionary."
                )
            cfg.share_decoder_input_output_embed = True
        of_target = embedding(len(target), cfg.embed_dim, target.pad())
        of_source = of_output = of_target
        if not cfg.share_all_embeddings:
            of_source = embedding(len(source), cfg.embed_dim, source.pad())
        if not cfg.share_decoder_input_output_embed:
            of_output = embedding(len(target), cfg.embed_dim, target.pad())
        decoder = GRUDecoder(of_target, of_output, cfg.hidden_size, cfg.attention_size, cfg.dropout)
        encoder = GRUEncoder(of_source, cfg.hidden_size)
        return cls.around(GRUTranslator(encoder, decoder), cfg, task)


@register_model("seg_gru_small", dataclass=SegGRUSmallConfig)
class SegGRUSmallModel(SegGRUModel):
    """The same model in sizes for a CPU."""
