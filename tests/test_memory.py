"""The memory inside the whole model: equal to the literal Alg. 2, whatever the options and the batch."""

import random

import pytest
import torch
from torch.nn import functional as F

from fairseq_seg.data.example_pairs import limit
from fairseq_seg.errors import SegError
from tests.literal import EOS
from tests.tiny import (
    PAD,
    PAIRS,
    ROWS,
    SENTENCES,
    SOURCE,
    TARGET,
    by_sentence,
    every_option,
    literal,
    literal_predictions,
    make_batch,
    make_criterion,
    make_model,
    predict,
    random_pairs,
)

BOS = 0  # in no sentence


@every_option
def test_every_probability_equals_the_literal_one(options):
    model = make_model(**options)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    _, extra = model(**batch["net_input"])
    reads = zip(by_sentence(batch, extra["read"].weights), by_sentence(batch, extra["read"].gate), strict=True)
    expected = literal_predictions(literal(model))
    for found, (weights, gate), steps in zip(predict(model, batch), reads, expected, strict=True):
        wanted = torch.stack([step.probabilities for step in steps])
        torch.testing.assert_close(found.exp().double(), wanted, rtol=0, atol=1e-5)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(steps)), rtol=0, atol=1e-5)
        torch.testing.assert_close(
            torch.sigmoid(gate).double(), torch.stack([s.gate.double() for s in steps]), rtol=0, atol=1e-5
        )
        for row, step in zip(weights, steps, strict=True):
            slots = len(step.weights)
            literal_weights = torch.stack(step.weights) if slots else torch.zeros(0, dtype=torch.float64)
            torch.testing.assert_close(row[:slots].double(), literal_weights, rtol=0, atol=1e-5)
            assert row[slots:].abs().sum() == 0


def test_the_random_model_really_reads_its_memory():
    """Guards the tests above: a gate near 0, an even q or a coverage of no weight would hide a fault."""
    model = make_model()
    steps = [step for prediction in literal_predictions(literal(model)) for step in prediction if step.weights]
    assert sum(0.1 < step.gate < 0.9 for step in steps) > len(steps) / 2
    assert max(max(step.weights) - min(step.weights) for step in steps) > 0.2
    without_coverage = make_model()
    without_coverage.decoder.memory.coverage_penalty.data.zero_()
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    assert (predict(model, batch)[0] - predict(without_coverage, batch)[0]).abs().max() > 0.01


@pytest.mark.parametrize("detach", [False, True], ids=["dynamic-keys", "detached"])
@every_option
def test_gradients_equal_the_literal_ones(options, detach):
    """Of every parameter: through the shared pass, the keys, M, lambda, coverage and gate, and the one-product loop."""
    if detach and options["memory_keys"].startswith("target"):
        with pytest.raises(SegError, match="cannot learn"):
            make_model(detach_memory=True, **options)
        return
    model = make_model(detach_memory=detach, **options).train()
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    symbols = [torch.tensor(target) for _, target in SENTENCES]
    loss = -sum(p.gather(1, y[:, None]).sum() for p, y in zip(predict(model, batch), symbols, strict=True))
    loss.backward()
    literal_model = literal(model)
    expected = -sum(
        step.probabilities[y].log()
        for steps, (_, target) in zip(literal_predictions(literal_model), SENTENCES, strict=True)
        for step, y in zip(steps, target, strict=True)
    )
    expected.backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    for name, parameter in model.named_parameters():
        wanted = literal_model[name].grad
        torch.testing.assert_close(parameter.grad.double(), wanted, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: n + m)


@every_option
def test_a_batch_without_pairs_is_the_plain_translator_bit_for_bit(options):
    model = make_model(**options)
    plain = make_batch(SENTENCES)  # --memory-k 0
    nothing_found = make_batch(SENTENCES, PAIRS, [[], [], [], []])
    expected = predict(model, plain)
    others = [predict(model, nothing_found), predict(model.train(), nothing_found)]
    with torch.no_grad():
        for parameter in model.decoder.memory.parameters():
            parameter.add_(1.0)
    others.append(predict(model.eval(), nothing_found))
    for found in others:
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@every_option
def test_a_sentence_without_pair_in_a_mixed_batch_is_translated_plainly(options):
    model = make_model(**options)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    _, extra = model(**batch["net_input"])
    without = ROWS.index([])
    assert torch.sigmoid(by_sentence(batch, extra["read"].gate)[without]).abs().max() == 0
    found, expected = predict(model, batch)[without], predict(model, make_batch(SENTENCES))[without]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@every_option
def test_order_padding_batch_mates_and_mixed_k_do_not_matter(options):
    model = make_model(**options)
    # The Transformer's matrix products have other sizes in other batches: one value differs by 1.03e-5, of 2.6.
    rtol = 1e-5 if options.get("translator") == "transformer" else 0
    together = predict(model, make_batch(SENTENCES, PAIRS, ROWS))
    backwards = predict(model, make_batch(SENTENCES, PAIRS, [row[::-1] for row in ROWS]))
    long_mate = random_pairs(3, 1, longest=40)
    crowded = predict(model, make_batch([*SENTENCES, *long_mate], [*PAIRS, *long_mate], [*ROWS, [4, 5]]))
    for index, (sentence, row) in enumerate(zip(SENTENCES, ROWS, strict=True)):
        alone = predict(model, make_batch([sentence], PAIRS, [row]))[0]
        for other in (alone, backwards[index], crowded[index]):
            torch.testing.assert_close(other, together[index], rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_limited_memory_is_that_of_the_best_pairs(k):
    model = make_model()
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    batch["net_input"]["pairs"] = limit(batch["net_input"]["pairs"], k)
    expected = predict(model, make_batch(SENTENCES, PAIRS, [row[:k] for row in ROWS]))
    for a, b in zip(predict(model, batch), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("training", [True, False], ids=["shared-pass", "encoder"])
def test_a_shared_pair_is_computed_once_and_changes_nothing(training):
    model = make_model()
    rows = []
    model.decoder.cell.register_forward_hook(lambda cell, inputs, output: rows.append(inputs[0].size(0)))
    batch = make_batch(SENTENCES, PAIRS, [[2, 0], [2], [2, 0], [0, 2]])
    # The same pair under two ids is two pairs.
    separate = make_batch(SENTENCES, PAIRS * 4, [[2, 0], [7], [12, 5], [10, 17]])
    if training:
        found, expected = predict(model, batch), predict(model, separate)
        assert rows == [len(SENTENCES) + 2, len(SENTENCES) + 7]
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    else:
        memories = [model.encoder.forward_torchscript(b["net_input"])[0].slots for b in (batch, separate)]
        assert rows == [2, 7]
        for a, b in zip(*memories, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


def assert_finite_gradients(model, batch):
    loss, _, _ = make_criterion(smoothing=0.1)(model, batch)
    assert torch.isfinite(loss)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@every_option
def test_gradients_are_finite_where_no_slot_holds_the_target(options):
    strangers = [(source, [BOS, BOS]) for source, _ in PAIRS]
    assert_finite_gradients(make_model(**options).train(), make_batch(SENTENCES, strangers, ROWS))


@every_option
def test_gradients_are_finite_where_all_slots_are_one_symbol(options):
    monotonous = [(source, [EOS]) for source, _ in PAIRS]
    assert_finite_gradients(make_model(**options).train(), make_batch(SENTENCES, monotonous, ROWS))


@pytest.mark.parametrize("penalty", [1e4, -1e4])
@pytest.mark.parametrize("bias", [200.0, -200.0], ids=["gate-open", "gate-closed"])
def test_gradients_are_finite_at_the_extremes(penalty, bias):
    model = make_model().train()
    with torch.no_grad():
        model.decoder.memory.coverage_penalty.fill_(penalty)
        model.decoder.memory.gate.score.bias.fill_(bias)
    assert_finite_gradients(model, make_batch(SENTENCES, PAIRS, ROWS))


def self_retrieving_batch(seed: int) -> dict:
    """Return 16 sentences, each with itself for a memory; no symbol stands twice in one, so the right slot is known."""
    rng = random.Random(seed)
    sentences = []
    for _ in range(16):
        length = rng.randint(2, 7)
        words = (rng.sample(range(4, len(dictionary)), length) for dictionary in (SOURCE, TARGET))
        sentences.append(tuple([*side, EOS] for side in words))
    return make_batch(sentences, sentences, [[index] for index in range(16)])


def test_a_memory_of_the_sentence_itself_is_read_on_the_diagonal():
    """After a little training, q of step t is highest at slot t: key, value and symbol are of the same step."""
    model = make_model(randomize=False, hidden_size=32, embed_dim=16, attention_size=16, gate_hidden=8).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for update in range(100):
        batch = self_retrieving_batch(seed=update)
        log_p = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
        loss = F.nll_loss(log_p.flatten(0, 1), batch["target"].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    batch = self_retrieving_batch(seed=1000)
    _, extra = model(**batch["net_input"])
    on_diagonal = [q.argmax(-1) == torch.arange(len(q)) for q in by_sentence(batch, extra["read"].weights)]
    assert torch.cat(on_diagonal).float().mean() > 0.9


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_option
def test_half_precision_is_close_to_single(options, dtype):
    model = make_model(**options)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    expected = predict(model, batch)
    model.to(dtype)
    logits, extra = model(**batch["net_input"])
    assert logits.dtype == dtype
    assert extra["read"].weights.dtype == extra["read"].gate.dtype == torch.float32
    for a, b in zip(predict(model, batch), expected, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a.exp(), b.exp(), rtol=0, atol=0.01 if dtype == torch.float16 else 0.06)
