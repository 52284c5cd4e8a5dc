"""Search-engine-guided NMT around any translator: retrieved pairs become slots, slots are read, reads enter the output.

Pairs come as a dictionary. Of the P distinct pairs of a batch, right-padded, eos at the end: src_tokens (P, S') and
src_lengths (P,); tokens (P, T') and lengths (P,) of the targets; prev_output_tokens (P, T'), the targets shifted by
one step. Of the B sentences: slots (B, S), where in the targets each of their slots is, see `lay_out`; ranks (B, S),
the rank of each slot's pair; for the overlap, shared (B, R, S'), see `overlap`; symbols (B, S), if slots have other
symbols for a sentence than `tokens` says.

The memory feeds back into no recurrence: z_t depends on z_{t-1}, y_{t-1} and c_t alone, in both fusions. So in training
one translator pass runs over sentences and pairs together, and gradients flow through keys and values (Alg. 2).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fairseq_seg.modules.fusion import deep_fusion
from fairseq_seg.modules.memory import Entries, SlotRead, SlotReader, Slots, lay_out
from fairseq_seg.modules.translator import Pass, Translator, each

Pairs = dict[str, Tensor]


class FromContext(NamedTuple):
    """All that a step needs of its context c_t, linear in it; of T steps or of T annotations."""

    logits: Tensor | None  # the translator's part of the logits, (B, T, E)
    gate: Tensor | None  # the gate's projection of c, (B, T, G)
    scores: Tensor | None  # c M c' of Eq. 4, fp32, (B, T, slots)


class Output(NamedTuple):
    """The output at T steps, or at one step of a beam of T; `fusion.log_probs` mixes logits and copies."""

    logits: Tensor  # the generator's, (B, T, V)
    attention: Tensor  # alpha, (B, T, S)
    read: SlotRead | None  # None where the batch has no pairs
    copies: SlotRead | None  # the read, if it is to be mixed in (Eq. 6)


class Prepared(NamedTuple):
    """All that beam steps need of B sentences, once per sentence: the rows of a beam share it."""

    annotations: Any  # the translator's
    from_annotations: FromContext | None  # None if the translator computes c_t at each step
    slots: Slots | None  # None where the batch has no pairs


class State(NamedTuple):
    """What a beam step hands on to the next, per row."""

    translator: Any
    coverage: Tensor | None  # beta, (R, S)


def stack_rows(a: Tensor, b: Tensor, pad: int) -> Tensor:
    """Return two right-padded batches (A, S), (B, S') as one (A + B, max(S, S'))."""
    width = max(a.size(1), b.size(1))
    return torch.cat([F.pad(rows, (0, width - rows.size(1)), value=pad) for rows in (a, b)])


class GuidedTranslator(nn.Module):
    """A translator and the memory around it.

    Args:
        memory: the memory's parameters.
        fusion: shallow (copy symbols, Eq. 6), deep (mix states, Eq. 5) or both.
        detach: no gradient through what the translator's pass over the pairs gives.
        pad: the padding symbol, of both sides.
    """

    def __init__(self, translator: Translator, memory: SlotReader, fusion: str, pad: int, detach: bool = False):
        super().__init__()
        self.translator, self.memory = translator, memory
        self.fusion, self.pad, self.detach = fusion, pad, detach

    def forward(
        self, tokens: Tensor, lengths: Tensor, previous: Tensor, pairs: Pairs | None = None, slots: Slots | None = None
    ) -> Output:
        """Return the output under teacher forcing, guided by pairs or by slots that were written before.

        Args:
            tokens, lengths: the right-padded sources, (B, S) and (B,).
            previous: y_{t-1}, (B, T).
        """
        batch, steps = previous.shape
        together = pairs is not None and self.memory.keys.needs_pass
        if together:
            tokens = stack_rows(tokens, pairs["src_tokens"], self.pad)
            lengths = torch.cat([lengths, pairs["src_lengths"]])
            previous = stack_rows(previous, pairs["prev_output_tokens"], self.pad)
        passed, of_pairs = self.translator.run(previous, self.translator.encode(tokens, lengths)), None
        if together:
            width = pairs["tokens"].size(1)
            of_pairs = each(passed, lambda x: x[batch:, :width])
            passed = each(passed, lambda x: x[:batch, :steps])
        if pairs is not None:
            slots = self.write_pairs(pairs, of_pairs)
        elif slots is None and self.memory.training:
            # Distributed training waits for a gradient of every parameter, also of the memory that this batch lacks.
            nothing = 0 * sum(parameter.sum() for parameter in self.memory.parameters())
            passed = passed._replace(states=passed.states + nothing)
        linear = self.from_context(passed.contexts, slots)
        read = None if slots is None else self.memory(*self.queries(passed.states, linear, slots), slots)
        return self._output(passed, linear, read, slots)

    def read_passed(self, passed: Pass, pairs: Pairs | None, of_pairs: Pass | None) -> SlotRead | None:
        """Return the read of sentences whose pass is known, and that over their pairs; see `forward`."""
        if pairs is None:
            return None
        slots = self.write_pairs(pairs, of_pairs)
        return self.memory(*self.queries(passed.states, self.from_context(passed.contexts, slots), slots), slots)

    def run_pairs(self, pairs: Pairs) -> Pass | None:
        """Return a pass over P pairs alone, if their keys need one."""
        if not self.memory.keys.needs_pass:
            return None
        annotations = self.translator.encode(pairs["src_tokens"], pairs["src_lengths"])
        return self.translator.run(pairs["prev_output_tokens"], annotations)

    def entries(self, pairs: Pairs, passed: Pass | None) -> Entries:
        """Return what is kept of P pairs, (P, T', ...), from the pass over them."""
        passed = each(passed, Tensor.detach) if self.detach else passed
        keys, values = self.memory.keys(passed, pairs, self.translator.embed)
        values_kept = None if self.fusion == "shallow" else values
        attention = None if self.memory.overlap is None else passed.attention
        return Entries(keys, self.memory.gate.from_value(values), values_kept, attention)

    @property
    def entry_sizes(self) -> tuple[int, int, int]:
        """How many numbers each part of a slot's entry has, 0 for a part that is not kept."""
        value_size = 0 if self.fusion == "shallow" else self.translator.state_size
        return self.memory.keys.size, self.memory.gate.from_value.out_features, value_size

    def write(self, entries: Entries, pairs: Pairs) -> Slots:
        """Return the slots of B sentences from entries that are laid out by sentence already, (B, S, ...)."""
        return self.memory.write(entries, pairs, self.pad)

    def write_pairs(self, pairs: Pairs, passed: Pass | None) -> Slots:
        """Return the slots of B sentences from a pass over their P distinct pairs."""
        return self.write(each(self.entries(pairs, passed), lambda x: lay_out(x, pairs["slots"])), pairs)

    def prepare(
        self, tokens: Tensor, lengths: Tensor, pairs: Pairs | None = None, slots: Slots | None = None
    ) -> Prepared:
        """Return what the beam steps of B sentences need; arguments as of `forward`."""
        annotations = self.translator.for_steps(self.translator.encode(tokens, lengths))
        if pairs is not None:
            slots = self.write_pairs(pairs, self.run_pairs(pairs))
        if not self.translator.sums_annotations:
            return Prepared(annotations, None, slots)
        # Steps need neither c_t nor a product with a matrix or with the keys: the sum of all these products over the
        # annotations, weighted by the attention, is the same.
        from_annotations = self.from_context(annotations.states, slots)
        if slots is not None:
            slots = slots._replace(keys=self.memory.keys.for_states(slots.keys))
        return Prepared(annotations._replace(states=None), from_annotations, slots)

    def step(self, previous: Tensor, state: State | None, prepared: Prepared) -> tuple[State, Output]:
        """Return the state after one beam step, None before the first, and its output (B, beam, ...).

        Args:
            previous: y_{t-1}, (R,), R = B * beam, the rows of a sentence next to each other.
        """
        own, coverage = (None, None) if state is None else state
        own, passed = self.translator.step(previous, own, prepared.annotations)
        slots, linear = prepared.slots, prepared.from_annotations
        if linear is None:
            linear = self.from_context(passed.contexts, slots)
        else:
            linear = each(linear, lambda x: torch.bmm(passed.attention.type_as(x), x))
        read = None
        if slots is not None:
            scores, gate_query = self.queries(passed.states, linear, slots)
            coverage = torch.zeros_like(scores) if coverage is None else coverage.view_as(scores)
            weights, gate, coverage = self.memory.step(scores, gate_query, coverage, slots)
            read, coverage = SlotRead(weights, gate, slots.symbols, slots.first), coverage.flatten(0, 1)
        return State(own, coverage), self._output(passed, linear, read, slots)

    def reorder(self, state: State, order: Tensor) -> State:
        """Return the state of other rows; order (R',)."""
        coverage = each(state.coverage, lambda x: x.index_select(0, order))
        return State(self.translator.reorder(state.translator, order), coverage)

    def from_context(self, contexts: Tensor, slots: Slots | None) -> FromContext:
        """Return what is linear in contexts (B, T, C), or in annotations in their place."""
        logits = self.translator.logits_from_context(contexts)
        if slots is None:
            return FromContext(logits, None, None)
        scores = self.memory.keys.by_context(contexts, slots.keys)
        if scores is not None and slots.bias is not None:
            scores = scores + slots.bias.unsqueeze(1)  # may stand in for each annotation: attention sums to one
        return FromContext(logits, self.memory.gate.from_context(contexts), scores)

    def queries(self, states: Tensor, linear: FromContext, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return the content scores (B, T, S) and the gate's query (B, T, G) of states (B, T, H)."""
        scores = self.memory.keys.scores(linear.scores, states, slots.keys)
        return scores, self.memory.gate.query(linear.gate, states)

    def _output(self, passed: Pass, linear: FromContext, read: SlotRead | None, slots: Slots | None) -> Output:
        states = passed.states
        if read is not None and self.fusion != "shallow":
            states = deep_fusion(states, slots.values, read)
        logits = self.translator.logits(states, linear.logits, passed.inputs)
        return Output(logits, passed.attention, read, None if self.fusion == "deep" else read)
