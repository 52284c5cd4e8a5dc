"""The fairseq model: its state, its checkpoints, and decoding step by step as fairseq's generator does it."""

import copy
from pathlib import Path

import pytest
import torch
from fairseq.dataclass.utils import interpret_dc_type
from fairseq.sequence_generator import SequenceGenerator

from fairseq_seg.errors import SegError
from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel
from fairseq_seg.tasks.seg_translation import SegTranslationConfig, SegTranslationTask
from tests.literal import EOS
from tests.tiny import (
    OPTIONS,
    PAD,
    PAIRS,
    ROWS,
    SENTENCES,
    SOURCE,
    TARGET,
    every_option,
    make_batch,
    make_model,
    predict,
    random_pairs,
)


def make_generator(model: SegGRUModel, beam: int) -> SequenceGenerator:
    return SequenceGenerator([model], TARGET, beam_size=beam, max_len_a=0, max_len_b=12)


@pytest.mark.parametrize("options", [{}, {"share_decoder_input_output_embed": True}, {"memory_keys": "target"}])
def test_no_parameter_is_registered_twice(options):
    model = make_model(**options)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    shared = {"decoder.output.weight"} if "share_decoder_input_output_embed" in options else set()
    assert set(names) - shared == {name for name, _ in model.named_parameters()}
    assert not [name for name in model.state_dict() if name.startswith("encoder.") and "cell" in name]


def test_a_copy_stands_alone():
    model = make_model()
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    expected = predict(model, batch)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(a, b) for a, b in zip(predict(twin, batch), expected, strict=True))
    # The encoder makes the memory with the cell of its own copy.
    assert twin.encoder.forward_torchscript(batch["net_input"])[0].slots.gate_values.abs().sum() > 0


@every_option
def test_save_and_load(options, tmp_path: Path):
    model, other = make_model(seed=1, **options), make_model(seed=2, **options)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    assert all(torch.equal(a, b) for a, b in zip(predict(other, batch), predict(model, batch), strict=True))


def test_half_precision_decodes():
    model = make_model().half()
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    hypotheses = make_generator(model, beam=3).generate([model], make_batch(SENTENCES, PAIRS, ROWS))
    assert all(torch.isfinite(best[0]["score"]) for best in hypotheses)


@pytest.mark.parametrize(
    "fresh",
    [
        {"memory_match": "full"},
        {"gate_hidden": 0},
        {"memory_keys": "context-state"},
        {"memory_keys": "target"},
        {"memory_keys": "target-context"},
    ],
    ids=str,
)
def test_a_checkpoint_goes_on_with_another_memory(fresh):
    """What fits is taken over, the translator always; what the checkpoint lacks starts as it was initialized."""
    trained, model = make_model(seed=1), make_model(seed=2, randomize=False, **fresh)
    initial = copy.deepcopy(model.state_dict())
    state = trained.state_dict()
    model.load_state_dict(state, strict=True)
    for name, value in model.state_dict().items():
        old = trained.state_dict().get(name)
        taken_over = old is not None and old.shape == value.shape
        assert taken_over or name.startswith("decoder.memory.")
        assert torch.equal(value, old if taken_over else initial[name]), name
    plain = make_batch(SENTENCES)
    assert all(torch.equal(a, b) for a, b in zip(predict(model, plain), predict(trained, plain), strict=True))


@pytest.mark.parametrize("match", ["diagonal", "full"])
def test_keys_with_states_start_as_the_papers(match):
    """N is zero at the start, so the whole model is the paper's; and it matters as soon as it is something else."""
    paper, model = make_model(memory_match=match), make_model(seed=2, memory_keys="context-state", memory_match=match)
    fresh = make_model(randomize=False, memory_keys="context-state", memory_match=match)
    state = model.state_dict() | paper.state_dict()
    model.load_state_dict(state)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    expected = torch.cat(predict(paper, batch))
    assert (torch.cat(predict(model, batch)) - expected).abs().max() > 0.01
    initial = "decoder.memory.keys.state_metric"
    model.load_state_dict(state | {initial: fresh.state_dict()[initial]})
    torch.testing.assert_close(torch.cat(predict(model, batch)), expected, rtol=0, atol=1e-6)


@every_option
def test_incremental_equals_teacher_forcing_under_reordering_and_leaving(options):
    """Random symbols and random beams, as the search would choose them; sentences leave in the middle.

    Each row's step must give what teacher forcing gives on that row's own history.
    """
    model, beam = make_model(**options), 3
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    sentence_of = batch["id"].tolist()  # the sentence at each place of the batch
    torch.manual_seed(1)
    encoder_out = model.encoder.forward_torchscript(batch["net_input"])
    order = torch.arange(len(SENTENCES)).repeat_interleave(beam)
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
    places = list(range(len(SENTENCES)))
    history = torch.full((len(order), 1), EOS)
    state: dict = {}
    for step in range(6):
        output = model.decoder(history, encoder_out=encoder_out, incremental_state=state)
        found = model.get_normalized_probs(output, log_probs=True)[:, -1]
        # Teacher forcing over the histories; the last target symbol is not read.
        targets = [[*row[1:], EOS] for row in history.tolist()]
        rows = [sentence_of[places[row // beam]] for row in range(len(history))]
        forced = make_batch(
            [(SENTENCES[sentence][0], target) for sentence, target in zip(rows, targets, strict=True)],
            PAIRS,
            [ROWS[sentence] for sentence in rows],
        )
        for row, expected in enumerate(predict(model, forced)):
            torch.testing.assert_close(found[row], expected[-1], rtol=0, atol=1e-5)
        history = torch.cat([history, torch.randint(4, len(TARGET), (len(history), 1))], dim=1)
        staying = [i for i in range(len(places)) if not (step in (1, 3) and i == step - 1)]
        order = torch.cat([beam * i + torch.randint(beam, (beam,)) for i in staying])
        places = [places[i] for i in staying]
        history = history[order]
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
    assert len(places) == 2


@every_option
def test_beam_of_one_is_greedy(options):
    model = make_model(**options)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    found = make_generator(model, beam=1).generate([model], batch)
    for place, sentence in enumerate(batch["id"].tolist()):
        target: list[int] = []
        while not target or (target[-1] != EOS and len(target) <= 12):
            log_p = predict(model, make_batch([(SENTENCES[sentence][0], [*target, EOS])], PAIRS, [ROWS[sentence]]))[0]
            last = log_p[-1].clone()
            last[PAD] = float("-inf")  # which the search never chooses
            if not target:
                last[EOS] = float("-inf")  # nor an empty translation
            target.append(EOS if len(target) == 12 else int(last.argmax()))
        assert found[place][0]["tokens"].tolist() == target


@every_option
def test_the_score_of_a_hypothesis_is_its_teacher_forced_probability(options):
    model = make_model(**options)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    found = make_generator(model, beam=4).generate([model], batch)
    for place, sentence in enumerate(batch["id"].tolist()):
        for hypothesis in found[place]:
            tokens = hypothesis["tokens"]
            row = (SENTENCES[sentence][0], tokens.tolist())
            log_p = predict(model, make_batch([row], PAIRS, [ROWS[sentence]]))[0]
            expected = log_p.gather(1, tokens[:, None]).squeeze(1)
            torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("k", [0, 1, 2, 16])
def test_any_number_of_pairs_decodes(k):
    pairs = random_pairs(5, 20)
    model = make_model()
    batch = make_batch(SENTENCES, pairs, [list(range(first, first + k)) for first in range(4)])
    assert ("pairs" in batch["net_input"]) == (k > 0)
    assert all(torch.isfinite(best[0]["score"]) for best in make_generator(model, beam=5).generate([model], batch))


@pytest.mark.parametrize("poisoned", ["decoder.memory.keys.metric", "decoder.output.weight"])
def test_nan_in_decoding_names_the_batch(poisoned):
    """Whether the search survives a NaN (as -inf) or trips over it."""
    task = SegTranslationTask(SegTranslationConfig(), SOURCE, TARGET)
    model = make_model()
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    task.inference_step(make_generator(model, beam=2), [model], batch)
    with torch.no_grad():
        model.get_parameter(poisoned).fill_(float("nan"))
    with pytest.raises(SegError, match=r"NaN in the batch \[(\d, ){3}\d\]"):
        task.inference_step(make_generator(model, beam=2), [model], batch)


def test_options_cover_every_choice():
    """Guards the parametrization: a new choice of the configuration must enter OPTIONS."""
    fields = SegGRUConfig.__dataclass_fields__
    for name in ("fusion", "memory_keys", "memory_match"):
        choices = interpret_dc_type(fields[name].type)
        assert {str(choice.value) for choice in choices} == {options[name] for options in OPTIONS}


def test_a_plain_checkpoint_leaves_the_memory_to_the_options():
    """A checkpoint trained without a memory carries its parameters untouched; one trained with it keeps them."""
    plain = make_model(seed=1, randomize=False, coverage_penalty=0.0, gate_bias=0.0)
    wanted = {"coverage_penalty": 5.0, "gate_bias": -2.0}
    guided = make_model(seed=2, randomize=False, **wanted)
    state = plain.state_dict()
    guided.upgrade_state_dict_named(state, "")
    guided.load_state_dict(state)
    assert guided.decoder.memory.coverage_penalty.item() == 5.0
    assert guided.decoder.memory.gate.score.bias.item() == -2.0
    assert torch.equal(guided.encoder.embed.weight, plain.encoder.embed.weight)
    guided.train()(**make_batch(SENTENCES, PAIRS, ROWS)["net_input"])
    again = make_model(seed=3, randomize=False, coverage_penalty=0.0)
    state = guided.state_dict()
    again.upgrade_state_dict_named(state, "")
    again.load_state_dict(state)
    assert again.decoder.memory.coverage_penalty.item() == 5.0
