"""The loss: the literal mixture's negative log likelihood, exact label smoothing, true figures in the log."""

import math

import pytest
import torch
from fairseq.logging import metrics

from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy
from fairseq_seg.errors import SegError
from fairseq_seg.tasks.seg_translation import SegTranslationConfig, SegTranslationTask
from tests.tiny import (
    PAIRS,
    ROWS,
    SENTENCES,
    SOURCE,
    TARGET,
    every_option,
    literal,
    literal_predictions,
    make_batch,
    make_criterion,
    make_model,
    predict,
)

SYMBOLS = sum(len(target) for _, target in SENTENCES)


def literal_steps(model) -> list[tuple]:
    """Return the literal prediction, its target symbol and the symbols in its memory, for every target symbol."""
    return [
        (step, symbol, [y for pair in row for y in PAIRS[pair][1]])
        for steps, (_, target), row in zip(literal_predictions(literal(model)), SENTENCES, ROWS, strict=True)
        for step, symbol in zip(steps, target, strict=True)
    ]


@pytest.mark.parametrize("rows", [ROWS, None], ids=["memory", "plain"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@every_option
def test_loss_and_gradients_are_those_of_the_whole_mixture(options, smoothing, rows):
    """Against label smoothing on the (B, T, V) mixture, as fairseq defines it."""
    model, batch = make_model(**options).train(), make_batch(SENTENCES, PAIRS, rows)
    loss, sample_size, log = make_criterion(smoothing)(model, batch)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    log_p = torch.cat(predict(model, batch))
    target = torch.tensor([y for _, sentence in SENTENCES for y in sentence])
    nll = -log_p.gather(1, target[:, None]).sum()
    rest = smoothing / (len(TARGET) - 1)
    expected = (1 - smoothing - rest) * nll - rest * log_p.sum()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(log["nll_loss"], nll.detach(), rtol=1e-5, atol=0)
    assert sample_size == SYMBOLS
    for a, b in zip(found, torch.autograd.grad(expected, list(model.parameters()), allow_unused=True), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@every_option
def test_loss_and_figures_equal_the_literal_ones(options):
    model = make_model(**options)
    steps = literal_steps(model)
    _, _, log = make_criterion()(model, make_batch(SENTENCES, PAIRS, ROWS))
    assert log["loss"].item() == pytest.approx(
        -sum(math.log(step.probabilities[y].item()) for step, y, _ in steps), rel=1e-5
    )
    read = [(step, y, memory) for step, y, memory in steps if memory]
    expected = {
        "ntokens": len(read),
        "gate": sum(step.gate for step, _, _ in read),
        "present": sum(y in memory for _, y, memory in read),
        "copied": sum(
            step.gate * w
            for step, y, memory in read
            for w, symbol in zip(step.weights, memory, strict=True)
            if symbol == y
        ),
        "entropy": -sum(w * w.log() for step, _, _ in read for w in step.weights if w > 0),
        "lambda": len(read) * model.decoder.memory.coverage_penalty,
    }
    for name, value in expected.items():
        assert float(log[f"memory_{name}"]) == pytest.approx(float(value), rel=1e-4), name


def test_means_in_the_log():
    """Sums of two batches, one of them without memory, become means over the symbols they belong to."""
    model = make_model()
    batches = [make_batch(SENTENCES, PAIRS, ROWS), make_batch(SENTENCES)]
    logs = [make_criterion()(model, batch)[2] for batch in batches]
    with metrics.aggregate() as log:
        SegCrossEntropy.reduce_metrics(logs)
    values = log.get_smoothed_values()
    bits = sum(float(log["loss"]) for log in logs) / (2 * SYMBOLS) / math.log(2)
    assert values["loss"] == values["nll_loss"] == pytest.approx(bits, abs=1e-3)
    assert values["ppl"] == pytest.approx(2**bits, abs=0.02)
    for name in ("gate", "present", "copied", "entropy", "lambda"):
        mean = float(logs[0][f"memory_{name}"]) / float(logs[0]["memory_ntokens"])
        assert float(values[name]) == pytest.approx(mean, abs=1e-3), name
    assert SegCrossEntropy.logging_outputs_can_be_summed()
    with metrics.aggregate() as log:
        SegCrossEntropy.reduce_metrics(logs[1:])
    assert "gate" not in log.get_smoothed_values()


def test_generator_weight_adds_the_plain_translators_loss():
    """With shallow fusion p_gen is what the same model predicts without a memory; the log's nll stays the mixture's."""
    model, batch = make_model().eval(), make_batch(SENTENCES, PAIRS, ROWS)
    mixture, _, _ = make_criterion()(model, batch)
    plain, _, _ = make_criterion()(model, make_batch(SENTENCES))
    loss, _, log = make_criterion(generator_weight=0.5)(model, batch)
    torch.testing.assert_close(loss, mixture + 0.5 * plain)
    torch.testing.assert_close(log["nll_loss"], mixture.detach())
    without, _, _ = make_criterion(generator_weight=0.5)(model, make_batch(SENTENCES))
    torch.testing.assert_close(without, plain)


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_copy_weight_adds_the_copies_loss_where_there_is_something_to_copy(fusion):
    model, batch = make_model(fusion=fusion).eval(), make_batch(SENTENCES, PAIRS, ROWS)
    mixture, _, _ = make_criterion()(model, batch)
    loss, _, log = make_criterion(copy_weight=0.5)(model, batch)
    copies = [
        sum(weight.item() for weight, symbol in zip(step.weights, memory, strict=True) if symbol == y)
        for step, y, memory in literal_steps(model)
        if y in memory
    ]
    assert len(copies) > 3
    assert loss.item() == pytest.approx(mixture.item() - 0.5 * sum(math.log(p + 1e-6) for p in copies), rel=1e-5)
    torch.testing.assert_close(log["nll_loss"], mixture.detach())


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_copy_weight_teaches_the_match_where_the_gate_is_closed(fusion):
    model, batch = make_model(fusion=fusion), make_batch(SENTENCES, PAIRS, ROWS)
    model.decoder.memory.gate.score.bias.data.fill_(-30.0)
    gradients = []
    for weight in (0.0, 0.5):
        model.zero_grad()
        make_criterion(copy_weight=weight)(model, batch)[0].backward()
        gradients.append(model.decoder.memory.keys.metric.grad.norm().item())
    assert gradients[0] < 1e-6 and gradients[1] > 1e-4


@pytest.mark.parametrize("option", ["generator_weight", "copy_weight"])
def test_a_negative_weight_is_refused(option):
    with pytest.raises(SegError, match=f"--{option.replace('_', '-')} -1"):
        make_criterion(**{option: -1})


def test_sentence_average():
    _, sample_size, _ = make_criterion(sentence_avg=True)(make_model(), make_batch(SENTENCES))
    assert sample_size == len(SENTENCES)


@pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
def test_nan_names_the_batch(training):
    task = SegTranslationTask(SegTranslationConfig(), SOURCE, TARGET)
    model, batch = make_model(), make_batch(SENTENCES, PAIRS, ROWS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.backward = lambda loss: loss.backward()  # as fairseq's optimizers

    def step() -> None:
        if training:
            task.train_step(batch, model, make_criterion(), optimizer, update_num=0)
        else:
            task.valid_step(batch, model, make_criterion())

    step()
    with torch.no_grad():
        model.decoder.memory.keys.metric[0] = float("nan")
    with pytest.raises(SegError, match=r"NaN in the batch \[(\d, ){3}\d\]"):
        step()
