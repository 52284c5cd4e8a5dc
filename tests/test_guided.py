"""The memory around a translator that is no GRU: beam steps give what teacher forcing gives, whatever the options."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from fairseq_seg.modules.guided import GuidedTranslator
from fairseq_seg.modules.keys import KINDS
from fairseq_seg.modules.memory import Gate, SlotReader
from fairseq_seg.modules.overlap import Overlap
from fairseq_seg.modules.translator import Pass, Translator

PAD, SYMBOLS, SIZE = 1, 12, 6


class Annotations(NamedTuple):
    states: Tensor  # (B, S, SIZE)
    mask: Tensor  # (B, S)


class BagTranslator(Translator):
    """A translator without recurrence, whose contexts are not weighted sums of annotations."""

    sums_annotations = False
    state_size = context_size = embedding_size = SIZE

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({"embed": nn.Embedding(SYMBOLS, SIZE)})
        self.decoder = nn.ModuleDict({"embed": nn.Embedding(SYMBOLS, SIZE), "output": nn.Linear(SIZE, SYMBOLS)})

    def encode(self, tokens: Tensor, lengths: Tensor) -> Annotations:
        mask = torch.arange(tokens.size(1)) >= lengths.unsqueeze(1)
        return Annotations(self.encoder["embed"](tokens), mask)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.decoder["embed"](tokens)

    def attend(self, sums: Tensor, annotations: Annotations) -> Pass:
        """Sums of previous embeddings, (B, T, SIZE)."""
        scores = sums @ annotations.states.transpose(1, 2)
        attention = scores.masked_fill(annotations.mask.unsqueeze(1), float("-inf")).softmax(-1)
        contexts = torch.tanh(3 * attention @ annotations.states)
        return Pass(torch.tanh(sums + contexts), contexts, attention, None)

    def run(self, previous: Tensor, annotations: Annotations) -> Pass:
        return self.attend(self.embed(previous).cumsum(1), annotations)

    def step(self, previous: Tensor, state: Tensor | None, annotations: Annotations) -> tuple[Tensor, Pass]:
        state = self.embed(previous) + (0 if state is None else state)
        return state, self.attend(state.view(len(annotations.mask), -1, SIZE), annotations)

    def logits_from_context(self, contexts: Tensor) -> None:
        return None

    def logits(self, states: Tensor, from_context: None, inputs: None) -> Tensor:
        return self.decoder["output"](states)


def make_guided(kind: str, full: bool, fusion: str) -> GuidedTranslator:
    torch.manual_seed(1)
    translator, with_overlap = BagTranslator(), kind.endswith("overlap")
    keys = KINDS[kind.removesuffix("-overlap")](translator, full)
    memory = SlotReader(keys, Gate(SIZE, SIZE, 3, 0.0), 2.0, Overlap(3) if with_overlap else None)
    guided = GuidedTranslator(translator, memory, fusion, PAD).eval()
    for parameter in guided.parameters():
        nn.init.uniform_(parameter, -0.9, 0.9)
    memory.keys.metric.data.mul_(10.0)  # or q would be nearly even, and hide faults
    return guided


# Two sentences; the first has two pairs, the second has none.
SOURCES, LENGTHS = torch.tensor([[4, 5, 6, 2], [7, 8, 2, PAD]]), torch.tensor([4, 3])
PAIRS = {
    "src_tokens": torch.tensor([[4, 5, 9, 2, PAD], [6, 4, 7, 8, 2]]),
    "src_lengths": torch.tensor([4, 5]),
    "prev_output_tokens": torch.tensor([[2, 5, 6], [2, 9, PAD]]),
    "tokens": torch.tensor([[5, 6, 2], [9, 2, PAD]]),
    "lengths": torch.tensor([3, 2]),
    "slots": torch.tensor([[0, 1, 2, 3, 4], [-1, -1, -1, -1, -1]]),
    "ranks": torch.tensor([[0, 0, 0, 1, 1], [-1, -1, -1, -1, -1]]),
    "shared": torch.tensor([[[1, 1, 0, 1, 0], [0, 1, 0, 0, 1]], [[0] * 5] * 2], dtype=torch.bool),
}


@pytest.mark.parametrize("given", ["pairs", "slots", "nothing"])
@pytest.mark.parametrize(
    "kind, full, fusion",
    [*product([*KINDS, "context-state-overlap"], (False, True), ("shallow", "deep", "both"))],
    ids=lambda x: str(x),
)
@torch.no_grad()
def test_beam_steps_equal_teacher_forcing(kind: str, full: bool, fusion: str, given: str):
    """Rows change places after each step, and take their state along."""
    guided, beam = make_guided(kind, full, fusion), 3
    entries = guided.entries(PAIRS, guided.run_pairs(PAIRS))
    assert tuple(0 if part is None else part.size(-1) for part in entries[:3]) == guided.entry_sizes
    flat = type(entries)(*(None if x is None else x.flatten(0, 1)[PAIRS["slots"].clamp(min=0)] for x in entries))
    memory = {"pairs": {"pairs": PAIRS}, "slots": {"slots": guided.write(flat, PAIRS)}, "nothing": {}}[given]
    prepared, state = guided.prepare(SOURCES, LENGTHS, **memory), None
    history, reads = torch.full((2 * beam, 1), 2), []
    for _ in range(5):
        state, found = guided.step(history[:, -1], state, prepared)
        for hypothesis in range(beam):
            expected = guided(SOURCES, LENGTHS, history[hypothesis::beam], **memory)
            torch.testing.assert_close(found.logits[:, hypothesis], expected.logits[:, -1], rtol=0, atol=1e-5)
            # The pass over sentences and pairs together may be wider than the sentences.
            torch.testing.assert_close(found.attention[:, hypothesis, :4], expected.attention[:, -1, :4])
            assert (found.read is None) == (expected.read is None) == (given == "nothing")
            assert (found.copies is None) == (fusion == "deep" or given == "nothing")
            if found.read is not None:
                torch.testing.assert_close(found.read.weights[:, hypothesis], expected.read.weights[:, -1])
                torch.testing.assert_close(found.read.gate[:, hypothesis], expected.read.gate[:, -1])
                reads.append(found.read.weights[0, hypothesis])
        order = torch.cat([first + torch.randint(beam, (beam,)) for first in (0, beam)])
        history = torch.cat([history[order], torch.randint(4, SYMBOLS, (2 * beam, 1))], dim=1)
        state = guided.reorder(state, order)
    # Or coverage and match would not be seen: some slot is preferred, and not always the same.
    assert given == "nothing" or (torch.stack(reads).std(0).max() > 0.05 and torch.stack(reads).max() > 0.3)
