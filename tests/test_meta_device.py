"""No host sync and no stray CPU tensor: the model runs on the meta device, where no value can be looked at."""

import pytest
import torch

from fairseq_seg.data.example_pairs import limit
from tests.meta import RefuseCPU, on_meta
from tests.tiny import PAIRS, ROWS, SENTENCES, TARGET, every_option, make_batch, make_criterion, make_model


@pytest.mark.parametrize("rows", [ROWS, None], ids=["memory", "plain"])
@every_option
def test_decoding_steps(options, rows):
    model, beam = make_model(**options).to("meta"), 3
    batch = on_meta(make_batch(SENTENCES, PAIRS, rows))
    tokens = torch.zeros(beam * len(SENTENCES), 1, dtype=torch.long, device="meta")
    everyone = torch.zeros(len(tokens), dtype=torch.long, device="meta")
    fewer = torch.zeros(beam * 2, dtype=torch.long, device="meta")
    state: dict = {}
    with RefuseCPU(let_shapes_pass="translator" in options), torch.no_grad():
        encoder_out = model.encoder.forward_torchscript(batch["net_input"])
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, everyone)
        for order in (everyone, fewer, fewer):
            output = model.decoder(tokens, encoder_out=encoder_out, incremental_state=state)
            log_p = model.get_normalized_probs(output, log_probs=True)
            assert log_p.shape == (len(tokens), 1, len(TARGET))
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            tokens = tokens.index_select(0, order)
        model.decoder.pop_nan()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [ROWS, None], ids=["memory", "plain"])
@every_option
def test_training_step(options, rows, smoothing):
    model = make_model(**options).to("meta").train()
    batch = on_meta(make_batch(SENTENCES, PAIRS, rows))
    criterion = make_criterion(smoothing)
    with RefuseCPU(let_shapes_pass="translator" in options):
        if rows is not None:
            batch["net_input"]["pairs"] = limit(batch["net_input"]["pairs"], 1)
        loss, _, _ = criterion(model, batch)
        loss.backward()
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in model.parameters())
