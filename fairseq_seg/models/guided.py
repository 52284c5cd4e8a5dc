"""fairseq's view of any guided translator: options of the memory, encoder, decoder and model.

They register parameters, convert batches and follow the beam. `modules/guided.py` does the rest.
"""

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    MODEL_DATACLASS_REGISTRY,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
)
from torch import Tensor, nn

from fairseq_seg.corpus.dictionary import dictionary_fingerprint
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.reserved import ReservedIds
from fairseq_seg.errors import SegError, hook
from fairseq_seg.modules.fusion import log_probs as mixed_log_probs
from fairseq_seg.modules.guided import GuidedTranslator, Output, Pairs, Prepared
from fairseq_seg.modules.keys import KINDS
from fairseq_seg.modules.memory import Gate, SlotReader, Slots
from fairseq_seg.modules.overlap import Overlap
from fairseq_seg.modules.own_symbols import OwnSymbols
from fairseq_seg.modules.translator import Pass, Translator, each
from fairseq_seg.tasks import seg_translation  # noqa: F401, registers the task, for `from_pretrained`
from fairseq_seg.tasks.presets import by_preset, spelled

logger = logging.getLogger(__name__)
STATE = "guided"  # the name of the beam's state among fairseq's incremental states


@dataclass
class MemoryConfig(FairseqDataclass):
    """The options of the memory around a translator."""

    fusion: ChoiceEnum(["shallow", "deep", "both"]) = field(  # type: ignore[valid-type]
        default="shallow",
        metadata={"help": "how the memory is used: copy symbols (shallow, Eq. 6), mix states (deep, Eq. 5), or both"},
    )
    # Options that --preset sets are Optional in fairseq's spelling, which does not know `| None`.
    memory_keys: Optional[ChoiceEnum(list(KINDS))] = field(  # type: ignore[valid-type]  # noqa: UP045
        default=None,
        metadata={
            "help": "the keys of the slots: the attention context of each step of the retrieved pair (the paper), the "
            "context and the decoder's state, which knows what precedes the slot (beyond the paper), or a "
            "bidirectional GRU over the retrieved target alone (the CopyNet-style baseline), found by the "
            "decoder's state (target) or by the context (target-context)" + by_preset("memory_keys")
        },
    )
    memory_match: Optional[ChoiceEnum(["diagonal", "full"])] = field(  # type: ignore[valid-type]  # noqa: UP045
        default=None,
        metadata={
            "help": "the matrix M that compares a context with the keys (Eq. 4); always full with --memory-keys target*"
            + by_preset("memory_match")
        },
    )
    # fairseq makes a flag of a bool, which could not switch off what a preset switches on.
    memory_overlap: Any = field(
        default=None,
        metadata={
            "help": "True: tell the match and the gate which words of a retrieved source the sentence shares, so that "
            "words that changed are not copied (beyond the paper); not with --memory-keys target*"
            + by_preset("memory_overlap"),
            "argparse_const": "True",
        },
    )
    gate_hidden: int = field(default=512, metadata={"help": "hidden size of the copy gate; 0: a linear gate"})
    gate_bias: float = field(
        default=0.0,
        metadata={
            "help": "initial bias of the copy gate; below 0 the gate starts closed and learns to trust the memory later"
        },
    )
    coverage_penalty: Optional[float] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "initial lambda: the penalty on slots that were already copied (Eq. 7). It is learnt, but Adam "
            "moves it by at most the learning rate per step: from 0 it takes thousands of updates"
            + by_preset("coverage_penalty")
        },
    )
    detach_memory: bool = field(
        default=False,
        metadata={"help": "no gradient through the memory's keys and values: cheaper, but not as in the paper"},
    )
    freeze_translator: bool = field(
        default=False,
        metadata={
            "help": "train the memory's own parameters alone: the translator of --finetune-from-model stays exactly as "
            "it is, without dropout; with --memory-cache, its passes are computed once. See seg-guide"
        },
    )
    memory_k: int = -1  # that of the task; a checkpoint remembers what it was trained with


def guide(translator: Translator, cfg: MemoryConfig, pad: int) -> GuidedTranslator:
    """Return a translator with the memory that the options ask for."""
    kind = KINDS[str(cfg.memory_keys)]
    if not kind.needs_pass and (cfg.detach_memory or translator.state_size % 2):
        raise SegError(
            f"--memory-keys {cfg.memory_keys} needs an even --hidden-size, and cannot learn with --detach-memory: "
            "change them."
        )
    if not kind.needs_pass and cfg.memory_overlap:
        raise SegError(
            f"--memory-overlap needs keys that look at the retrieved source, not --memory-keys {cfg.memory_keys}."
        )
    keys = kind(translator, cfg.memory_match == "full" or not kind.needs_pass)
    gate = Gate(translator.context_size, translator.state_size, cfg.gate_hidden, cfg.gate_bias)
    overlap = Overlap(gate.from_value.out_features) if cfg.memory_overlap else None
    memory = SlotReader(keys, gate, cfg.coverage_penalty, overlap)
    return GuidedTranslator(translator, memory, str(cfg.fusion), pad, cfg.detach_memory)


def only_own(source: Dictionary, target: Dictionary) -> OwnSymbols | None:
    """Return what keeps reserved symbols of other sentences out of a translation, None if nothing is protected."""
    keys = [ReservedIds.of(dictionary.symbols) for dictionary in (source, target)]
    if keys[0] is None or keys[1] is None:
        return None
    return OwnSymbols(*(torch.from_numpy(of_side.keys) for of_side in keys if of_side is not None))


class Adapter(nn.Module):
    """The shared part of fairseq's encoder and decoder: a dictionary, and parts of a guided translator as children.

    This is why parameters are called `encoder.*` and `decoder.*`. A tuple hides the guided translator itself from
    nn.Module, so that nothing is registered twice. `train()` does not reach it, but reaches its parts, the children.
    """

    dictionary: Dictionary
    if TYPE_CHECKING:  # fairseq's own classes are untyped
        get_incremental_state: Any
        set_incremental_state: Any

    def adopt(self, guided: GuidedTranslator, part: nn.Module) -> None:
        """Register the children of a part of the guided translator."""
        self._guided = (guided,)
        # Identifies the dictionary, (16,), in every checkpoint: one of the same size may hold other symbols.
        symbols = bytes.fromhex(dictionary_fingerprint(self.dictionary.symbols))
        self.register_buffer("symbols", torch.tensor(list(symbols), dtype=torch.uint8))
        for name, child in part.named_modules(remove_duplicate=False):  # a shared matrix has two names
            if name and "." not in name:
                self.add_module(name, child)
        self._part = (part,)

    @property
    def guided(self) -> GuidedTranslator:
        return self._guided[0]

    def train(self, mode: bool = True) -> "Adapter":
        """Set the mode; a frozen translator stays in evaluation mode."""
        super().train(mode)
        for child in self.guided.translator.children() if mode else ():
            if not any(parameter.requires_grad for parameter in child.parameters()):
                child.train(False)
        return self

    @property
    def part(self) -> Any:
        """The translator's encoder or decoder, whose children these are."""
        return self._part[0]

    def max_positions(self) -> int:
        return self.part.max_positions() if hasattr(self.part, "max_positions") else int(1e6)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Give an old checkpoint's parameters their present names, and drop what is not a parameter."""
        if f"{name}.symbols" in state_dict:  # of this plugin: no older form than fairseq's third
            state_dict.setdefault(f"{name}.version", torch.tensor([3.0]))
        if hasattr(self.part, "upgrade_state_dict_named"):
            self.part.upgrade_state_dict_named(state_dict, name)
        for key in ("version", "embed_positions._float_tensor", "embed_positions.weights"):
            state_dict.pop(f"{name}.{key}", None)

    def set_beam_size(self, beam_size: int) -> None:
        """Do nothing: told the size of the beam, fairseq's attention would take sentences for hypotheses of one."""


class EncoderOut(NamedTuple):
    """What the encoder prepares for the beam."""

    prepared: Prepared  # once per sentence
    rows: int  # how many rows of the beam share it
    lacking: Tensor | None  # the reserved symbols that each sentence lacks, (B, R), see `OwnSymbols`


class GuidedEncoder(Adapter, FairseqEncoder):
    """Prepare sentences and their retrieved pairs for beam steps."""

    def __init__(self, dictionary, guided: GuidedTranslator, own_symbols: OwnSymbols | None):
        super().__init__(dictionary)
        self.adopt(guided, guided.translator.encoder)
        self.own_symbols = own_symbols

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor, pairs: Pairs | None = None, slots: Slots | None = None, **unused
    ) -> EncoderOut:
        """Return what was prepared for each sentence, and the number of rows that share it."""
        lacking = None if self.own_symbols is None else self.own_symbols(src_tokens)
        return EncoderOut(self.guided.prepare(src_tokens, src_lengths, pairs, slots), src_tokens.size(0), lacking)

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Follow fairseq's beam; the rows of a sentence are adjacent, so everything is kept once per sentence.

        At most steps the beams of a sentence only swap places, and nothing moves here. Finished sentences are removed.
        """
        prepared, rows, lacking = encoder_out
        if new_order.size(0) < rows:
            beam = rows // prepared.annotations.mask.size(0)
            keep = torch.div(new_order[::beam], beam, rounding_mode="floor")
            prepared, lacking = (each(part, lambda x: x.index_select(0, keep)) for part in (prepared, lacking))
        return EncoderOut(prepared, new_order.size(0), lacking)


class GuidedDecoder(Adapter, FairseqIncrementalDecoder):
    """Beam steps of the guided translator, and its mixture."""

    def __init__(self, dictionary, guided: GuidedTranslator, own_symbols: OwnSymbols | None):
        super().__init__(dictionary)
        self.adopt(guided, guided.translator.decoder)
        self.memory, self.own_symbols = guided.memory, own_symbols
        self._nan: Tensor | None = None

    @property
    def fusion(self) -> str:
        return self.guided.fusion

    def forward(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, incremental_state: dict, **unused
    ) -> tuple[Tensor, dict]:
        """Return the logits (R, 1, V) of one step for R = B * beam rows, and `extra`."""
        state = self.get_incremental_state(incremental_state, STATE)
        state, output = self.guided.step(prev_output_tokens[:, -1], state, encoder_out[0])
        self.set_incremental_state(incremental_state, STATE, state)
        logits, attention = (x.reshape(-1, 1, x.size(-1)) for x in (output.logits, output.attention))
        return logits, {**self.extra(output._replace(attention=attention)), "lacking": encoder_out.lacking}

    def extra(self, output: Output) -> dict:
        """Return what accompanies the logits: `copy` is to be mixed in, `read` is the result of the read, for logs."""
        penalty = self.memory.coverage_penalty
        return {"attn": [output.attention], "read": output.read, "copy": output.copies, "lambda": penalty}

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        state = self.get_incremental_state(incremental_state, STATE)
        if state is not None:
            self.set_incremental_state(incremental_state, STATE, self.guided.reorder(state, new_order))

    def get_normalized_probs(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """Return the output distribution (B, T, V): the generator's softmax, mixed with the copies (Eq. 6)."""
        logits, extra = net_output
        copies, shape = extra["copy"], logits.shape
        if copies is not None:  # in a beam step the read is (B, beam), the logits (B * beam, 1)
            if copies.gate.numel() != logits.size(0) * logits.size(1):
                raise SegError("The mixture with the memory needs whole sentences: leave out --softmax-batch.")
            logits = logits.view(*copies.gate.shape, -1)
        log_p = mixed_log_probs(logits, copies).view(shape)
        if self.own_symbols is not None and extra.get("lacking") is not None:
            log_p = self.own_symbols.mask(log_p, extra["lacking"])
        if not self.training:
            # fairseq's search silently turns NaN into -inf. One NaN spoils its whole row, so checking one column is
            # enough. The result stays on the device, because reading it here would cost a sync per step.
            nan = torch.isnan(log_p[..., 0].sum())
            self._nan = nan if self._nan is None else self._nan | nan
        return log_p if log_probs else log_p.exp()

    def pop_nan(self) -> Tensor | None:
        """Return NaN if any step since the last call gave one, else 0, as a tensor (); None without a step."""
        nan, self._nan = self._nan, None
        return None if nan is None else torch.where(nan, float("nan"), 0.0)


class GuidedModel(FairseqEncoderDecoderModel):
    """Search-engine-guided NMT (Gu et al., AAAI 2018); without retrieved pairs, the plain translator."""

    embeddings = "embed.weight"  # the name of the embeddings in encoder and decoder

    @classmethod
    def sizes_of(cls, checkpoint: str) -> dict[str, Any]:
        """Return the options of a checkpoint that its parameters depend on, the memory's left out."""
        return {}

    @classmethod
    def take_sizes(cls, cfg: Any, checkpoint: str) -> None:
        """Set sizes to those of the checkpoint that training starts from; refuse those that were given otherwise."""
        defaults = MODEL_DATACLASS_REGISTRY[cfg._name]
        for name, size in cls.sizes_of(checkpoint).items():
            given = getattr(cfg, name)
            if given not in (getattr(defaults, name), size):
                raise SegError(f"{checkpoint} was trained with {spelled(name)} {size}, not {given}: leave that out.")
            setattr(cfg, name, size)

    @classmethod
    @hook
    def around(cls, translator: Translator, cfg: MemoryConfig, task) -> "GuidedModel":
        """Build the model from a translator and the memory around it."""
        if cfg.memory_keys is None:  # the task resolves the preset
            raise SegError("A model with a memory needs --task seg_translation: give this task, or another --arch.")
        source, target = task.source_dictionary, task.target_dictionary
        if cfg.freeze_translator:
            for parameter in translator.parameters():
                parameter.requires_grad_(False)
        if cfg.memory_k == 0 and task.cfg.memory_k > 0:
            logger.warning(
                "the checkpoint was trained without a memory, so its copy gate is untrained: use --memory-k 0, or "
                "continue its training with a memory (fairseq-train --finetune-from-model)"
            )
        guided = guide(translator, cfg, target.pad())
        own_symbols = only_own(source, target)
        return cls(GuidedEncoder(source, guided, own_symbols), GuidedDecoder(target, guided, own_symbols))

    @property
    def guided(self) -> GuidedTranslator:
        return self.decoder.guided

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        pairs: Pairs | None = None,
        slots: Slots | None = None,
        kept: Any = None,
        of_pairs: Pass | None = None,
        **unused,
    ) -> tuple[Tensor | None, dict]:
        """Return the logits (B, T, V) of teacher forcing, and `extra`; mix them with `get_normalized_probs`.

        Args:
            pairs: the result of `ExamplePairs.collate`. slots: the same from a cache.
            kept: the `KeptPass` of a frozen translator. There are no logits then: log p_gen is in `extra`.
            of_pairs: that over the pairs.
        """
        if kept is not None:
            read = self.guided.read_passed(kept.passed, pairs, of_pairs)
            generated = kept.generated
            if read is None:  # as in `GuidedTranslator.forward`
                generated = generated + 0 * sum(parameter.sum() for parameter in self.decoder.memory.parameters())
            output = Output(kept.passed.states, kept.passed.attention, read, read)
            return None, self.decoder.extra(output) | {"generated": generated}
        output = self.guided(src_tokens, src_lengths, prev_output_tokens, pairs, slots)
        return output.logits, self.decoder.extra(output)

    def get_normalized_probs(self, net_output, log_probs: bool, sample: dict | None = None) -> Tensor:
        return self.decoder.get_normalized_probs(net_output, log_probs, sample)

    @classmethod
    def from_pretrained(
        cls, model_name_or_path, checkpoint_file: str | None = None, data_name_or_path: str = ".", **kwargs
    ):
        """Return fairseq's hub interface; a model folder supplies checkpoint, languages and subword model."""
        # A checkpoint of a frozen translator's training names the cache of that training, which holds passes.
        kwargs = {"memory_cache": "", "memory_cache_type": "auto", **kwargs}
        folder = ModelFolder.find(model_name_or_path)
        if folder is not None:
            checkpoint_file = checkpoint_file or folder.checkpoint
            kwargs = {"source_lang": folder.source_lang, "target_lang": folder.target_lang, **kwargs}
        hub = super().from_pretrained(
            str(model_name_or_path), checkpoint_file or "model.pt", data_name_or_path, **kwargs
        )
        model = getattr(hub.cfg.bpe, "sentencepiece_model", None)
        hub.bpe = hub.task.as_encoded(hub.bpe, model) or hub.task.build_bpe(None)
        return hub

    @hook
    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Load a checkpoint into another kind of memory: missing parameters start fresh, others are dropped."""
        super().upgrade_state_dict_named(state_dict, name)
        fresh = self.state_dict()
        for side, part in (("source", "encoder"), ("target", "decoder")):
            sizes = [state.get(f"{part}.{self.embeddings}", ()) for state in (state_dict, fresh)]
            saved, given = map(len, sizes)
            key = f"{part}.symbols"
            # Checkpoints of an earlier version do not record their symbols.
            known = state_dict.setdefault(key, fresh[key])
            if saved not in (0, given):
                difference = f"has {saved} {side} symbols, but the data folder's dictionary has {given}"
            elif not fresh[key].is_meta and not torch.equal(known.cpu(), fresh[key].cpu()):
                difference = f"has other {side} symbols than the data folder's dictionary"
            else:
                continue
            raise SegError(
                f"The checkpoint {difference}: binarize with the dictionaries it was trained with "
                "(fairseq-preprocess --srcdict, --tgtdict)."
            )
        memory = "decoder.memory."
        trained = state_dict.get(f"{memory}trained")
        untrained = trained is not None and not trained.is_meta and not trained.any()
        for key in [key for key in state_dict if key.startswith(memory)]:
            if untrained or key not in fresh or fresh[key].shape != state_dict[key].shape:
                del state_dict[key]
        for key in fresh.keys() & state_dict.keys():
            if fresh[key].shape != state_dict[key].shape:
                old, new = (" x ".join(map(str, state[key].shape)) for state in (state_dict, fresh))
                raise SegError(
                    f"The checkpoint has other sizes than the options ask for ({key} is {old}, not {new}): give "
                    "the options it was trained with, or name another --save-dir."
                )
        if strange := [key for key in fresh.keys() ^ state_dict.keys() if not key.startswith(memory)]:
            raise SegError(
                f"The checkpoint was trained with another --arch (only one of the two has {min(strange)}): give the "
                "checkpoint's --arch, or name another checkpoint or --save-dir."
            )
        missing = [key for key in fresh if key not in state_dict]
        state_dict.update({key: fresh[key] for key in missing})
        if missing:
            logger.info("the memory's parameters %s are not in the checkpoint and start fresh", ", ".join(missing))
