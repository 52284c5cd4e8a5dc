"""The GRU attention translator with a key-value memory, as fairseq models `seg_gru` and `seg_gru_small`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder, register_model
from omegaconf import II
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_seg.corpus.dictionary import dictionary_fingerprint
from fairseq_seg.errors import SegError
from fairseq_seg.modules.cgru import Annotations, ConditionalGRU, Readout
from fairseq_seg.modules.encoder import BiGRU, padding_mask
from fairseq_seg.modules.fusion import deep_fusion, mixture_log_probs
from fairseq_seg.modules.memory import Entries, KeyValueMemory, Memory, SlotRead, lay_out
from fairseq_seg.tasks import seg_translation  # noqa: F401, registers the task: `from_pretrained` asks for it

logger = logging.getLogger(__name__)


@dataclass
class SegGRUConfig(FairseqDataclass):
    """The sizes of the paper; what it leaves open as in the authors' code."""

    hidden_size: int = field(default=1024, metadata={"help": "GRU units, of each encoder direction and of the decoder"})
    embed_dim: int = field(default=512, metadata={"help": "size of the symbol embeddings and of the readout"})
    attention_size: int = field(
        default=0, metadata={"help": "hidden size of the attention network; 0: as --hidden-size"}
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the readout, the layer below the vocabulary"})
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "one matrix for the target embeddings and the output layer: fewer parameters"}
    )
    share_all_embeddings: bool = field(
        default=False, metadata={"help": "one matrix for source, target and output; needs a joint dictionary"}
    )
    fusion: ChoiceEnum(["shallow", "deep", "both"]) = field(
        default="shallow",
        metadata={"help": "how the memory enters: copy symbols (shallow, Eq. 6), mix states (deep, Eq. 5), or both"},
    )
    memory_keys: ChoiceEnum(["context", "context-state", "target"]) = field(
        default="context",
        metadata={
            "help": "what a slot is found by: the attention context of its step in the retrieved pair (the paper), the "
            "context and the decoder's state of that step, which knows what stands before it (not the paper's), or a "
            "bidirectional GRU over the retrieved target alone (the CopyNet-style baseline)"
        },
    )
    memory_match: ChoiceEnum(["diagonal", "full"]) = field(
        default="diagonal",
        metadata={"help": "the matrix M that compares a context with the keys (Eq. 4); target keys: full"},
    )
    gate_hidden: int = field(default=512, metadata={"help": "hidden size of the copy gate; 0: a linear gate"})
    gate_bias: float = field(
        default=0.0,
        metadata={"help": "initial bias of the copy gate: below 0 it starts closed, and trusts the memory later"},
    )
    coverage_penalty: float = field(
        default=0.0,
        metadata={
            "help": "initial lambda: how much a slot that was copied from loses (Eq. 7). It is learnt, but Adam moves "
            "it by no more than the learning rate a step: from 0, the paper's value, it takes thousands of updates"
        },
    )
    detach_memory: bool = field(
        default=False, metadata={"help": "no gradient through the memory's keys and values: cheaper, not the paper's"}
    )
    memory_k: int = II("task.memory_k")  # a checkpoint remembers what it was trained with


@dataclass
class SegGRUSmallConfig(SegGRUConfig):
    """Sizes that train on a CPU."""

    hidden_size: int = 256
    embed_dim: int = 256
    dropout: float = 0.2
    gate_hidden: int = 128
    coverage_penalty: float = 8.0


def _embedding(size: int, dim: int, pad: int) -> nn.Embedding:
    embedding = nn.Embedding(size, dim, padding_idx=pad)
    nn.init.uniform_(embedding.weight, -0.1, 0.1)
    nn.init.zeros_(embedding.weight[pad])
    return embedding


class FromContext(NamedTuple):
    """All that the decoder makes of the context c_t, linear in it, for T steps or for T annotations."""

    readout: Tensor  # W_c c, (B, T, E)
    gate: Tensor | None  # the gate's projection of c, (B, T, G)
    scores: Tensor | None  # c M c' of Eq. 4, fp32, (B, T, slots); not where the keys are compared with z alone


def each(parts: NamedTuple, function: Callable[[Tensor], Tensor]) -> NamedTuple:
    """The tuple with a function applied to all that is there."""
    return type(parts)(*(None if part is None else function(part) for part in parts))


def stack_rows(a: Tensor, b: Tensor, value: int) -> Tensor:
    """Two right-padded batches (A, S), (B, S') as one (A + B, max(S, S'))."""
    width = max(a.size(1), b.size(1))
    return torch.cat([F.pad(rows, (0, width - rows.size(1)), value=value) for rows in (a, b)])


def _symbols(dictionary) -> Tensor:
    """Identifies a dictionary, (16,), in every checkpoint: one of the same size may hold other symbols."""
    return torch.tensor(list(bytes.fromhex(dictionary_fingerprint(dictionary.symbols))), dtype=torch.uint8)


class SegGRUEncoder(FairseqEncoder):
    """Source sentences to annotations, and, for decoding, retrieved pairs to memory."""

    def __init__(self, dictionary, cfg: SegGRUConfig, embed: nn.Embedding, decoder: "SegGRUDecoder"):
        super().__init__(dictionary)
        self.register_buffer("symbols", _symbols(dictionary))
        self.embed = embed
        self.gru = BiGRU(cfg.embed_dim, cfg.hidden_size)
        # The decoder's cell prepares the annotations and makes the memory's keys. It is registered with the model, not
        # here again: a tuple hides it from nn.Module.
        self._decoder = (decoder,)

    def annotate(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        """tokens (B, S) right-padded, lengths (B,)."""
        states = self.gru(self.embed(tokens), lengths)
        return self._decoder[0].cell.annotate(states, padding_mask(lengths, tokens.size(1)))

    def pair_entries(self, pairs: dict) -> Entries:
        """What the memory keeps of P retrieved pairs, from a pass over them alone: for a cache, which has the rest."""
        decoder = self._decoder[0]
        if decoder.target_keys is not None:
            return decoder.target_entries(pairs)
        annotations = self.annotate(pairs["src_tokens"], pairs["src_lengths"])
        states, contexts, _ = decoder.cell(decoder.embed(pairs["prev_output_tokens"]), annotations)
        return decoder.entries(contexts, states)

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor, pairs: dict | None = None, slots: Memory | None = None, **unused
    ) -> dict:
        """The annotations of B sentences, and their memory from a translator pass over the retrieved pairs.

        A `Memory`, which a cache wrote, stays as it is.
        """
        decoder = self._decoder[0]
        memory = pairs if slots is None else slots
        if memory is None or isinstance(memory, Memory):
            annotations, slots = self.annotate(src_tokens, src_lengths), memory
        elif decoder.target_keys is not None:
            annotations = self.annotate(src_tokens, src_lengths)
            slots = decoder.write_memory(decoder.target_entries(memory), memory)
        else:
            batch = src_tokens.size(0)
            together = self.annotate(
                stack_rows(src_tokens, memory["src_tokens"], decoder.pad),
                torch.cat([src_lengths, memory["src_lengths"]]),
            )
            annotations, pairs = each(together, lambda x: x[:batch]), each(together, lambda x: x[batch:])
            states, contexts, _ = decoder.cell(decoder.embed(memory["prev_output_tokens"]), pairs)
            slots = decoder.write_memory(decoder.entries(contexts, states), memory)
        return {"annotations": annotations, "memory": slots}

    def forward_torchscript(self, net_input: dict) -> dict:
        """What fairseq's generator calls: everything that its steps read of a batch, per sentence.

        What a step needs of its context c_t is linear in it. So it is made of all annotations here, and c_t itself,
        their weighted sum, is never made, nor a step's product with a matrix or with the keys.
        """
        out = self.forward(
            net_input["src_tokens"], net_input["src_lengths"], net_input.get("slots", net_input.get("pairs"))
        )
        annotations, memory = out["annotations"], out["memory"]
        decoder = self._decoder[0]
        if memory is not None:
            out["memory"] = memory._replace(keys=decoder.state_keys(memory))
        return {
            **out,
            "annotations": annotations._replace(states=None),
            "linear": decoder.from_context(annotations.states, memory),
            "rows": net_input["src_tokens"].size(0),
        }

    def reorder_encoder_out(self, encoder_out: dict, new_order: Tensor) -> dict:
        """Follow fairseq's beam: rows of a sentence stand together, so all is kept once a sentence, not once a row.

        At most steps the beams of a sentence only change places, and nothing here moves. Sentences that finished leave.
        """
        rows, sentences = encoder_out["rows"], encoder_out["annotations"].mask.size(0)
        encoder_out = {**encoder_out, "rows": new_order.size(0)}
        if new_order.size(0) < rows:
            beam = rows // sentences
            keep = torch.div(new_order[::beam], beam, rounding_mode="floor")
            for part in ("annotations", "memory", "linear"):
                if encoder_out[part] is not None:
                    encoder_out[part] = each(encoder_out[part], lambda x: x.index_select(0, keep))
        return encoder_out

    def max_positions(self) -> int:
        return int(1e6)


class SegGRUDecoder(FairseqIncrementalDecoder):
    """Conditional GRU, readout, and the memory read beside them."""

    def __init__(self, dictionary, cfg: SegGRUConfig, embed: nn.Embedding):
        super().__init__(dictionary)
        self.register_buffer("symbols", _symbols(dictionary))
        units, annotation_size = cfg.hidden_size, 2 * cfg.hidden_size
        self.embed = embed
        self._nan: Tensor | None = None
        self.fusion = str(cfg.fusion)
        self.detach_memory = cfg.detach_memory
        self.cell = ConditionalGRU(cfg.embed_dim, annotation_size, units, cfg.attention_size or units)
        self.readout = Readout(units, cfg.embed_dim, annotation_size, cfg.dropout)
        self.output = (
            embed if cfg.share_decoder_input_output_embed else _embedding(len(dictionary), cfg.embed_dim, self.pad)
        )
        # The states of the CopyNet-style baseline stand in for both c' and z', so they have the size of z.
        self.target_keys = BiGRU(cfg.embed_dim, units // 2) if cfg.memory_keys == "target" else None
        self.memory = KeyValueMemory(
            key_size=units if self.target_keys is not None else annotation_size,
            context_size=annotation_size,
            units=units,
            gate_hidden=cfg.gate_hidden,
            gate_bias=cfg.gate_bias,
            coverage_penalty=cfg.coverage_penalty,
            full=self.target_keys is not None or cfg.memory_match == "full",
            state_keys=cfg.memory_keys == "context-state",
        )

    @property
    def pad(self) -> int:
        return self.dictionary.pad()

    def entries(self, contexts: Tensor, states: Tensor) -> Entries:
        """What is kept of pairs that the translator passed over: contexts c' (P, T', 2H), states z' (P, T', H)."""
        if self.detach_memory:
            contexts, states = contexts.detach(), states.detach()
        return self.memory.entries(contexts, states, keep_values=self.fusion != "shallow")

    def target_entries(self, pairs: dict) -> Entries:
        """What is kept of pairs in the CopyNet-style baseline: bidirectional GRU states over the embeddings of Y'."""
        states = self.target_keys(self.embed(pairs["tokens"]), pairs["lengths"])
        return self.entries(states, states)

    def write_memory(self, entries: Entries, memory: dict) -> Memory:
        """The entries of P distinct pairs (P, T', ...) laid out as the sentences' memory."""
        slots = memory["slots"]
        return self.memory.write(each(entries, lambda x: lay_out(x, slots)), memory["tokens"], slots, self.pad)

    def from_context(self, contexts: Tensor, memory: Memory | None) -> FromContext:
        """contexts (B, T, 2H), or annotations in their place."""
        readout = self.readout.from_context(contexts)
        if memory is None:
            return FromContext(readout, None, None)
        gate = self.memory.gate.from_context(contexts)
        scores = None
        if self.target_keys is None:
            scores = self.memory.match(contexts, memory.keys[..., : contexts.size(-1)])
        return FromContext(readout, gate, scores)

    def state_keys(self, memory: Memory) -> Tensor | None:
        """The part of the keys that is compared with z_t, the last, (B, S, H), or None."""
        if self.target_keys is None and self.memory.state_metric is None:
            return None
        return memory.keys[..., -self.cell.units :]

    def memory_queries(self, states: Tensor, linear: FromContext, memory: Memory) -> tuple[Tensor, Tensor]:
        """states (B, T, H) -> content scores (B, T, S) and the gate's query (B, T, G)."""
        scores, keys = linear.scores, self.state_keys(memory)
        if keys is not None:
            by_state = self.memory.match(states, keys)
            scores = by_state if scores is None else scores + by_state
        return scores, self.memory.gate.query(linear.gate, states)

    def output_layer(
        self, states: Tensor, embeddings: Tensor, linear: FromContext, read: SlotRead | None, memory: Memory | None
    ) -> Tensor:
        """states (B, T, H), embeddings (B, T, E) -> generator logits (B, T, V)."""
        if read is not None and self.fusion != "shallow":
            states = deep_fusion(states, memory.values, read)
        return self.readout(states, embeddings, linear.readout, self.output.weight)

    def extra(self, attention: Tensor, read: SlotRead | None) -> dict:
        """What goes along with the logits: `copy` is to be mixed in, `read` is what the memory gave, for logs."""
        copy = None if self.fusion == "deep" else read
        return {"attn": [attention], "read": read, "copy": copy, "lambda": self.memory.coverage_penalty}

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict | None = None,
        incremental_state: dict | None = None,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Teacher forcing over (B, T), or, given an incremental state, one step for R = B * beam rows.

        Returns:
            The generator's logits (B, T, V), or (R, 1, V), and `extra`; mix them with `get_normalized_probs`.
        """
        if incremental_state is not None:
            return self.step(prev_output_tokens[:, -1], encoder_out, incremental_state)
        embeddings = self.embed(prev_output_tokens)
        states, contexts, attention = self.cell(embeddings, encoder_out["annotations"])
        return self.read_out(embeddings, states, contexts, attention, encoder_out["memory"])

    def read_out(
        self, embeddings: Tensor, states: Tensor, contexts: Tensor, attention: Tensor, memory: Memory | None
    ) -> tuple[Tensor, dict]:
        """From the translator's pass over B sentences to logits, with the memory read at all steps."""
        linear = self.from_context(contexts, memory)
        read = None
        if memory is not None:
            read = self.memory(*self.memory_queries(states, linear, memory), memory)
        return self.output_layer(states, embeddings, linear, read, memory), self.extra(attention, read)

    def step(self, tokens: Tensor, encoder_out: dict, incremental_state: dict) -> tuple[Tensor, dict]:
        """One beam step; tokens (R,). The state is {z (R, H), beta (R, S)}, both reordered with the beam."""
        annotations, memory = encoder_out["annotations"], encoder_out["memory"]
        rows, sentences = tokens.size(0), annotations.mask.size(0)
        beam = rows // sentences
        saved = self.get_incremental_state(incremental_state, "cell")
        state = saved["state"] if saved else annotations.start.repeat_interleave(beam, dim=0)
        embeddings = self.embed(tokens)
        from_input = self.cell.first_input(embeddings)
        state, attention = self.cell.step(from_input, state, annotations, self.cell.plain(annotations))
        # from here on a sentence's beam stands where teacher forcing has the steps: (B, beam, ...)
        linear = each(encoder_out["linear"], lambda x: torch.bmm(attention.type_as(x), x))
        states, embeddings = (x.view(sentences, beam, -1) for x in (state, embeddings))
        read = coverage = None
        if memory is not None:
            scores, gate_query = self.memory_queries(states, linear, memory)
            coverage = saved["coverage"].view_as(scores) if saved else torch.zeros_like(scores)
            weights, gate, coverage = self.memory.step(scores, gate_query, coverage, memory)
            read = SlotRead(weights, gate, memory.symbols, memory.first)
            coverage = coverage.view(rows, -1)
        self.set_incremental_state(incremental_state, "cell", {"state": state, "coverage": coverage})
        logits = self.output_layer(states, embeddings, linear, read, memory)
        return logits.view(rows, 1, -1), self.extra(attention.view(rows, 1, -1), read)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        saved = self.get_incremental_state(incremental_state, "cell")
        if saved is not None:
            saved = {name: None if x is None else x.index_select(0, new_order) for name, x in saved.items()}
            self.set_incremental_state(incremental_state, "cell", saved)

    def get_normalized_probs(
        self, net_output: tuple[Tensor, dict], log_probs: bool, sample: dict | None = None
    ) -> Tensor:
        """The output distribution (B, T, V): the generator's softmax, mixed with the copies (Eq. 6)."""
        logits, extra = net_output
        log_p = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        read = extra["copy"]
        if read is not None:  # in a beam step the read is (B, beam), the logits (B * beam, 1)
            if read.gate.numel() != log_p.size(0) * log_p.size(1):
                raise SegError("The memory's mixture needs whole sentences: leave out --softmax-batch.")
            log_p = mixture_log_probs(log_p.view(*read.gate.shape, -1), read).view_as(log_p)
        if not self.training:
            # fairseq's search turns a NaN silently into -inf. One NaN spoils its whole row, so one column tells; kept
            # on the device, because looking at it here would be a sync a step.
            nan = torch.isnan(log_p[..., 0].sum())
            self._nan = nan if self._nan is None else self._nan | nan
        return log_p if log_probs else log_p.exp()

    def pop_nan(self) -> Tensor | None:
        """NaN if any step since the last call gave one, else 0, as a tensor (); None if there was no step."""
        nan, self._nan = self._nan, None
        return None if nan is None else torch.where(nan, float("nan"), 0.0)

    def max_positions(self) -> int:
        return int(1e6)


@register_model("seg_gru", dataclass=SegGRUConfig)
class SegGRUModel(FairseqEncoderDecoderModel):
    """Search-engine-guided NMT (Gu et al., AAAI 2018); without retrieved pairs, the plain attention translator."""

    @classmethod
    def build_model(cls, cfg: SegGRUConfig, task) -> "SegGRUModel":
        source, target = task.source_dictionary, task.target_dictionary
        if cfg.share_all_embeddings:
            if source != target:
                raise SegError(
                    "--share-all-embeddings needs one dictionary for both: fairseq-preprocess --joined-dictionary."
                )
            cfg.share_decoder_input_output_embed = True
        if cfg.memory_keys == "target" and (cfg.detach_memory or cfg.hidden_size % 2):
            raise SegError("--memory-keys target needs an even --hidden-size, and cannot learn with --detach-memory.")
        if cfg.memory_k == 0 and task.cfg.memory_k > 0:
            logger.warning(
                "the checkpoint was trained without memory, so its copy gate means nothing: use --memory-k 0, or "
                "continue its training with a memory (fairseq-train --finetune-from-model)"
            )
        target_embed = _embedding(len(target), cfg.embed_dim, target.pad())
        source_embed = (
            target_embed if cfg.share_all_embeddings else _embedding(len(source), cfg.embed_dim, source.pad())
        )
        decoder = SegGRUDecoder(target, cfg, target_embed)
        return cls(SegGRUEncoder(source, cfg, source_embed, decoder), decoder)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        pairs: dict | None = None,
        slots: Memory | None = None,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Teacher forcing. Sentences (B rows) and retrieved pairs (P rows) go through the translator in one pass."""
        encoder, decoder = self.encoder, self.decoder
        memory = pairs if slots is None else slots
        if memory is None or isinstance(memory, Memory) or decoder.target_keys is not None:
            encoder_out = encoder(src_tokens, src_lengths, pairs, slots)
            if memory is None and self.training:
                # Distributed training waits for a gradient of every parameter, also of the memory this batch has not.
                # They touch the smallest tensor that all steps depend on.
                idle = [m for m in (decoder.memory, decoder.target_keys) if m is not None]
                nothing = 0 * sum(p.sum() for module in idle for p in module.parameters())
                annotations = encoder_out["annotations"]
                encoder_out["annotations"] = annotations._replace(start=annotations.start + nothing)
            return decoder(prev_output_tokens, encoder_out=encoder_out)
        batch, steps, memory_steps = src_tokens.size(0), prev_output_tokens.size(1), memory["tokens"].size(1)
        annotations = encoder.annotate(
            stack_rows(src_tokens, memory["src_tokens"], decoder.pad), torch.cat([src_lengths, memory["src_lengths"]])
        )
        embeddings = decoder.embed(stack_rows(prev_output_tokens, memory["prev_output_tokens"], decoder.pad))
        states, contexts, attention = decoder.cell(embeddings, annotations)
        entries = decoder.entries(contexts[batch:, :memory_steps], states[batch:, :memory_steps])
        slots = decoder.write_memory(entries, memory)
        own = (x[:batch, :steps] for x in (embeddings, states, contexts, attention))
        return decoder.read_out(*own, slots)

    def get_normalized_probs(self, net_output, log_probs: bool, sample: dict | None = None) -> Tensor:
        return self.decoder.get_normalized_probs(net_output, log_probs, sample)

    def upgrade_state_dict_named(self, state_dict: dict, name: str) -> None:
        """Let a checkpoint continue with another memory: what it lacks of the memory starts fresh, the rest goes."""
        fresh = self.state_dict()
        for side, part in (("source", "encoder"), ("target", "decoder")):
            sizes = [state.get(f"{part}.embed.weight", ()) for state in (state_dict, fresh)]
            saved, given = map(len, sizes)
            key = f"{part}.symbols"
            # Checkpoints of an earlier version do not say which symbols they know.
            known = state_dict.setdefault(key, fresh[key])
            if saved not in (0, given):
                difference = f"has {saved} {side} symbols and the data folder's dictionary {given}"
            elif not fresh[key].is_meta and not torch.equal(known.cpu(), fresh[key].cpu()):
                difference = f"knows other {side} symbols than the data folder's dictionary"
            else:
                continue
            raise SegError(
                f"The checkpoint {difference}: binarize with the dictionaries it was trained with "
                "(fairseq-preprocess --srcdict, --tgtdict)."
            )
        memory = ("decoder.memory.", "decoder.target_keys.")
        for key in [key for key in state_dict if key.startswith(memory)]:
            if key not in fresh or fresh[key].shape != state_dict[key].shape:
                del state_dict[key]
        missing = [key for key in fresh if key.startswith(memory) and key not in state_dict]
        state_dict.update({key: fresh[key] for key in missing})
        if missing:
            logger.info("the memory's parameters %s are not in the checkpoint and start fresh", ", ".join(missing))
        super().upgrade_state_dict_named(state_dict, name)


@register_model("seg_gru_small", dataclass=SegGRUSmallConfig)
class SegGRUSmallModel(SegGRUModel):
    """The same model in sizes for a CPU."""
