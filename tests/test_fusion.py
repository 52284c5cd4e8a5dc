"""The mixture in log space against the same mixture written over the whole vocabulary, values and gradients."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fairseq_seg.modules.fusion import deep_fusion, mixture_log_probs, safe_log, sum_log_probs, target_log_prob
from fairseq_seg.modules.memory import SlotRead, first_slots

BATCH, STEPS, SLOTS, VOCABULARY, UNITS = 3, 4, 6, 9, 5


def random_inputs(gate_scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, gate and match scores that ask for a gradient; the last sentence has no slot but padding."""
    torch.manual_seed(1)
    logits = torch.randn(BATCH, STEPS, VOCABULARY, requires_grad=True)
    gate = (gate_scale * torch.randn(BATCH, STEPS)).requires_grad_()
    scores = torch.randn(BATCH, STEPS, SLOTS, requires_grad=True)
    return logits, gate, scores


# Symbols that stand in one slot, in two and in all; symbol 1 is padding.
SYMBOLS = torch.tensor([[4, 5, 4, 8, 2, 1], [7, 7, 7, 7, 7, 7], [1, 1, 1, 1, 1, 1]])


def read_memory(gate: Tensor, scores: Tensor) -> SlotRead:
    mask = SYMBOLS == 1
    weights = torch.softmax(scores.masked_fill(mask.unsqueeze(1), -1e30), dim=-1).masked_fill(mask.unsqueeze(1), 0)
    gate = gate.masked_fill(mask.all(-1, keepdim=True), float("-inf"))
    return SlotRead(weights, gate, SYMBOLS, first_slots(SYMBOLS))


def naive_mixture(log_gen: Tensor, read: SlotRead) -> Tensor:
    """zeta p_copy + (1 - zeta) p_gen (Eq. 6), with a copy distribution of the vocabulary's size: (B, T, V)."""
    zeta = torch.sigmoid(read.gate.double()).unsqueeze(-1)
    one_hot = F.one_hot(read.symbols, VOCABULARY).double()
    return zeta * (read.weights.double() @ one_hot) + (1 - zeta) * log_gen.double().exp()


def gradients(loss: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, inputs, retain_graph=True)


def assert_same(found: Tensor, expected: Tensor, inputs: tuple[Tensor, ...]) -> None:
    """Compare values, and gradients under random weights of the values."""
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    torch.manual_seed(2)
    weights = torch.randn(found.shape)
    pairs = zip(
        gradients((found * weights).sum(), inputs), gradients((expected * weights.double()).sum(), inputs), strict=True
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate_scale", [1.0, 10.0])
def test_mixture_is_that_of_the_whole_vocabulary(gate_scale):
    inputs = random_inputs(gate_scale)
    logits, gate, scores = inputs
    log_gen, read = F.log_softmax(logits, dim=-1), read_memory(gate, scores)
    expected = naive_mixture(log_gen, read).log()
    found = mixture_log_probs(log_gen, read)
    assert_same(found, expected, inputs)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(BATCH, STEPS))


def test_target_probability_is_an_entry_of_the_mixture():
    inputs = random_inputs()
    logits, gate, scores = inputs
    log_gen, read = F.log_softmax(logits, dim=-1), read_memory(gate, scores)
    # In a slot, in no slot, and the padding symbol itself, which carries no copied mass.
    for symbol in (4, 7, 3, 1):
        target = torch.full((BATCH, STEPS), symbol)
        found, p_copy = target_log_prob(log_gen[..., symbol], read, target)
        assert_same(found, naive_mixture(log_gen, read).log()[..., symbol], inputs)
        torch.testing.assert_close(p_copy, (read.weights * (SYMBOLS == symbol).unsqueeze(1)).sum(-1))


@pytest.mark.parametrize("gate_scale", [1.0, 10.0])
def test_sum_over_the_vocabulary_for_label_smoothing(gate_scale):
    inputs = random_inputs(gate_scale)
    logits, gate, scores = inputs
    log_gen, read = F.log_softmax(logits, dim=-1), read_memory(gate, scores)
    assert_same(sum_log_probs(log_gen, read), naive_mixture(log_gen, read).log().sum(-1), inputs)


@pytest.mark.parametrize("gate_value", [300.0, -300.0])
def test_wide_open_and_closed_gates_stay_finite(gate_value):
    logits, gate, scores = random_inputs()
    gate = torch.full_like(gate, gate_value).requires_grad_()
    log_gen, read = F.log_softmax(logits, dim=-1), read_memory(gate, scores)
    target = torch.full((BATCH, STEPS), 3)  # in no slot
    total = sum_log_probs(log_gen, read).sum() + target_log_prob(log_gen[..., 3], read, target)[0].sum()
    total = total + mixture_log_probs(log_gen, read).sum()
    assert torch.isfinite(total)
    for gradient in gradients(total, (logits, gate, scores)):
        assert torch.isfinite(gradient).all()


def test_logarithm_of_nothing():
    p = torch.tensor([0.0, 0.5], requires_grad=True)
    log_p = safe_log(p)
    assert log_p[0] == float("-inf") and log_p[1] == torch.tensor(0.5).log()
    log_p.exp().sum().backward()
    assert p.grad.tolist() == [0.0, 1.0]


def test_deep_fusion_is_the_gated_mean_of_states():
    """zeta z~ + (1 - zeta) z (Eq. 5), row by row."""
    _, gate, scores = random_inputs()
    read = read_memory(gate, scores)
    state, values = torch.randn(BATCH, STEPS, UNITS), torch.randn(BATCH, SLOTS, UNITS)
    found = deep_fusion(state, values, read)
    for row in range(BATCH):
        for step in range(STEPS):
            retrieved = sum(read.weights[row, step, slot] * values[row, slot] for slot in range(SLOTS))
            zeta = torch.sigmoid(read.gate[row, step])
            torch.testing.assert_close(found[row, step], zeta * retrieved + (1 - zeta) * state[row, step])
    assert torch.equal(found[2], state[2])  # no slot, no change
