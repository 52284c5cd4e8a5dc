"""The plain attention translator against its literal version, and what makes it fast against what it stands for."""

import pytest
import torch

from fairseq_seg.modules.attention import AdditiveAttention
from fairseq_seg.modules.cgru import ConditionalGRU
from fairseq_seg.modules.encoder import BiGRU, reverse_by_length
from tests.tiny import by_sentence, literal, make_batch, make_model, predict, random_pairs

SENTENCES = random_pairs(1, 5)


@pytest.mark.parametrize(
    "options", [{}, {"attention_size": 0}, {"share_decoder_input_output_embed": True}], ids=lambda o: "-".join(o)
)
def test_every_probability_and_attention_weight_equals_the_literal_one(options):
    model = make_model(**options)
    batch = make_batch(SENTENCES)
    attention = by_sentence(batch, model(**batch["net_input"])[1]["attn"][0])
    slow = literal(model)
    for found, weights, (source, target) in zip(predict(model, batch), attention, SENTENCES, strict=True):
        expected = torch.stack([step.probabilities for step in slow.predict(source, target, [])])
        torch.testing.assert_close(found.exp().double(), expected, rtol=0, atol=1e-5)
        expected = torch.stack([step.attention for step in slow.translate(source, target)])
        torch.testing.assert_close(weights[:, : len(source)].double(), expected, rtol=0, atol=1e-5)
        assert weights[:, len(source) :].abs().sum() == 0


def test_padding_and_batch_mates_do_not_matter():
    model = make_model()
    together = predict(model, make_batch([*SENTENCES, *random_pairs(2, 1, longest=50)]))
    for sentence, expected in zip(SENTENCES, together, strict=False):
        torch.testing.assert_close(predict(model, make_batch([sentence]))[0], expected, rtol=0, atol=1e-5)


def test_the_real_part_of_each_row_is_reversed():
    x = torch.arange(1, 9).view(2, 4, 1)
    reversed_x = reverse_by_length(x, torch.tensor([4, 2]))
    assert reversed_x[0, :, 0].tolist() == [4, 3, 2, 1]
    assert reversed_x[1, :2, 0].tolist() == [6, 5]
    assert torch.equal(reverse_by_length(reversed_x, torch.tensor([4, 2])), x)


def test_encoder_equals_the_packed_bidirectional_gru():
    torch.manual_seed(1)
    ours, lengths = BiGRU(3, 4), torch.tensor([5, 2, 1])
    theirs = torch.nn.GRU(3, 4, batch_first=True, bidirectional=True)
    for name, parameter in ours.forwards.named_parameters():
        getattr(theirs, name).data.copy_(parameter)
    for name, parameter in ours.backwards.named_parameters():
        getattr(theirs, name + "_reverse").data.copy_(parameter)
    x = torch.randn(3, 5, 3)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    for found, wanted, length in zip(ours(x, lengths), expected, lengths, strict=True):
        torch.testing.assert_close(found[:length], wanted[:length])


def cell_inputs() -> tuple[ConditionalGRU, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a cell, embeddings (2, 5, 3), encoder states (2, 6, 8) and their mask: the second sentence is padded."""
    torch.manual_seed(1)
    cell = ConditionalGRU(embedding_size=3, annotation_size=8, units=4, attention_size=5)
    embeddings, states = torch.randn(2, 5, 3, requires_grad=True), torch.randn(2, 6, 8, requires_grad=True)
    return cell, embeddings, states, torch.arange(6) >= torch.tensor([[6], [4]])


def test_gradients_of_the_loop_equal_plain_autograd():
    """The one product after the loop gives what autograd gives step by step, for weights, biases and inputs."""
    cell, embeddings, states, mask = cell_inputs()
    inputs = [embeddings, states, *cell.parameters()]

    def run() -> torch.Tensor:
        return torch.cat([x.flatten() for x in cell(embeddings, cell.annotate(states, mask))])

    fast = run()
    cell.looped = lambda annotations: (cell.plain(annotations), annotations.start)
    plain = run()
    torch.testing.assert_close(fast, plain)
    weights = torch.randn(fast.shape)
    expected = torch.autograd.grad((plain * weights).sum(), inputs)
    # The second backward over the same graph starts from empty tapes.
    for _ in range(2):
        found = torch.autograd.grad((fast * weights).sum(), inputs, retain_graph=True)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


def test_the_same_states_with_and_without_gradients():
    cell, embeddings, states, mask = cell_inputs()
    with torch.no_grad():
        expected = cell(embeddings, cell.annotate(states, mask))
    for found, wanted in zip(cell(embeddings, cell.annotate(states, mask)), expected, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_trains(dtype):
    model = make_model().to(dtype).train()
    batch = make_batch(SENTENCES)
    loss = -sum(log_p.max(-1).values.sum() for log_p in predict(model, batch))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.dtype == dtype for p in model.parameters())


def test_autocast_is_close_to_single_precision():
    model = make_model().train()
    batch = make_batch(SENTENCES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = predict(model, batch)
    for a, b in zip(found, predict(model, batch), strict=True):
        torch.testing.assert_close(a.exp(), b.exp(), rtol=0, atol=0.05)
    sum(log_p.sum() for log_p in found).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_quick_attention_is_the_attention_with_tanh(scale):
    torch.manual_seed(5)
    attention = AdditiveAttention(6, 5, 7)
    projected, query = scale * torch.randn(3, 4, 7), scale * torch.randn(6, 7)
    mask = torch.tensor([[False] * 4, [False, False, True, True], [False, True, True, True]])
    with torch.no_grad():
        expected = attention(query, projected, mask)
        found = attention.quick(query, attention.exponential(projected), mask)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
