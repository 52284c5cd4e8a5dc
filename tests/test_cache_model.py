"""The cache of a frozen model: the same memory as without, from a translator pass over what is new alone."""

import copy
from pathlib import Path

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_seg.cache.frozen import EntryCache, model_fingerprint
from fairseq_seg.cache.rows import RowFormat
from fairseq_seg.errors import SegError
from fairseq_seg.models.seg_gru import SegGRUModel
from fairseq_seg.modules.encoder import BiGRU
from fairseq_seg.modules.memory import Slots
from tests.meta import RefuseCPU, on_meta
from tests.tiny import (
    EOS,
    PAIRS,
    ROWS,
    SENTENCES,
    TARGET,
    every_option,
    make_dataset,
    make_model,
    make_pairs,
    predict,
    random_pairs,
)

LIMIT = 2**20
UNKNOWN = 3


def make_batch(rows: list[list[int]] = ROWS, pairs: list = PAIRS) -> dict:
    """A batch whose memory knows the addresses of its pairs."""
    memory = make_pairs(pairs, rows)
    memory.cached = True
    dataset = make_dataset(SENTENCES[: len(rows)], memory)
    return dataset.collater([dataset[index] for index in range(len(rows))])


def through(cache: EntryCache, batch: dict) -> dict:
    """The batch with the memory that the cache wrote."""
    rest = {name: value for name, value in batch["net_input"].items() if name != "pairs"}
    return {**batch, "net_input": {**rest, "slots": cache.write(batch["net_input"]["pairs"])}}


def slots_without_cache(model: SegGRUModel, batch: dict) -> Slots:
    """The slots that teacher forcing writes."""
    written = []
    with pytest.MonkeyPatch.context() as patch:
        write = model.guided.write
        patch.setattr(model.guided, "write", lambda *arguments: written.append(write(*arguments)) or written[-1])
        model(**batch["net_input"])
    return written[0]


def assert_same_slots(found: Slots, wanted: Slots) -> None:
    for name, a, b in zip(Slots._fields, found, wanted, strict=True):
        if b is None:
            assert a is None
            continue
        if a.is_floating_point():  # where there is no slot, the numbers mean nothing
            nowhere = wanted.mask if a.dim() == 2 else wanted.mask.unsqueeze(-1)
            a, b = (x.masked_fill(nowhere, 0) for x in (a, b))
        assert a.dtype == b.dtype, name
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-5)


@torch.no_grad()
@every_option
def test_cold_warm_and_mixed_batches_equal_those_without_a_cache(options, tmp_path: Path):
    model = make_model(**options)
    cache = EntryCache(model, tmp_path / "cache", "fp32", LIMIT)
    # First some of the pairs, then all of them, then with another cache object, from the files.
    for rows in ([[3], [0]], ROWS, [[4, 2, 1], [2], [0]], ROWS):
        if rows is ROWS and len(cache.pairs) == len(PAIRS):
            cache = EntryCache(model, tmp_path / "cache", "auto", LIMIT)
        batch = make_batch(rows)
        wanted = slots_without_cache(model, batch)
        assert_same_slots(cache.write(batch["net_input"]["pairs"]), wanted)
        for found, expected in zip(predict(model, through(cache, batch)), predict(model, batch), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        generator = SequenceGenerator([model], TARGET, beam_size=3, max_len_a=0, max_len_b=12)
        plain, cached = generator.generate([model], batch), generator.generate([model], through(cache, batch))
        for a, b in zip(plain, cached, strict=True):
            assert [x["tokens"].tolist() for x in a] == [x["tokens"].tolist() for x in b]
            assert [float(x["score"]) for x in a] == pytest.approx([float(x["score"]) for x in b], abs=1e-5)


def test_a_pair_runs_through_the_translator_once(tmp_path: Path, passes: list[int]):
    cache = EntryCache(make_model(), tmp_path / "cache", "fp16", LIMIT)
    cache.write(make_batch([[3, 0], [0]])["net_input"]["pairs"])
    assert passes == [2]
    cache.write(make_batch()["net_input"]["pairs"])  # 0, 1, 2 and 3
    assert passes == [2, 2]
    again = EntryCache(make_model(), tmp_path / "cache", "auto", LIMIT)
    for pairs, rows in ((PAIRS, ROWS), (PAIRS[::-1], [[1], [2, 3, 4]])):  # other numbers, the same pairs
        again.write(make_batch(rows, pairs)["net_input"]["pairs"])
    assert passes == [2, 2]
    edited = [(source, [*target[:-1], 7, EOS]) for source, target in PAIRS]
    again.write(make_batch([[1]], edited)["net_input"]["pairs"])
    assert passes == [2, 2, 1]


def test_target_keys_need_no_pass_either(tmp_path: Path, monkeypatch):
    model = make_model(memory_keys="target")
    cache = EntryCache(model, tmp_path / "cache", "fp32", LIMIT)
    cache.write(make_batch()["net_input"]["pairs"])
    monkeypatch.setattr(BiGRU, "forward", lambda *arguments: pytest.fail("a pair was read again"))
    cache.write(make_batch()["net_input"]["pairs"])


@pytest.mark.parametrize("number_type", ["fp32", "fp16", "int8"])
def test_the_cache_changes_nothing_but_the_time(number_type: str, tmp_path: Path):
    """A pair gives the same memory when it is made and when it is read, and with or without room to keep it."""
    model, batch = make_model(fusion="both"), make_batch()
    memories = []
    for limit in (LIMIT, LIMIT, 100):
        cache = EntryCache(model, tmp_path / str(limit), number_type, limit)
        memories.append(cache.write(batch["net_input"]["pairs"]))
    assert len(cache.pairs) == 0
    for other in memories[1:]:
        assert all(a is b or torch.equal(a, b) for a, b in zip(memories[0], other, strict=True))


def test_a_cache_too_small_for_a_batch_still_translates(tmp_path: Path):
    model, batch = make_model(), make_batch()
    row_bytes = RowFormat("fp32", model.guided.entry_sizes).row_bytes
    cache = EntryCache(model, tmp_path / "cache", "fp32", 12 * row_bytes)
    wanted = predict(model, batch)
    for _ in range(3):
        assert all(
            torch.allclose(a, b, atol=1e-5) for a, b in zip(predict(model, through(cache, batch)), wanted, strict=True)
        )
        assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("[0-9]*")) <= 12 * row_bytes


def test_unknown_symbols_are_no_slots(tmp_path: Path):
    pairs = [([4, 5, EOS], [6, UNKNOWN, 7, EOS]), ([5, EOS], [UNKNOWN]), *random_pairs(3, 2)]
    model, batch = make_model(), make_batch([[0, 1, 2], [1], [3, 0]], pairs)
    cache = EntryCache(model, tmp_path / "cache", "fp32", LIMIT)
    for _ in range(2):
        memory = cache.write(batch["net_input"]["pairs"])
        assert_same_slots(memory, slots_without_cache(model, batch))
    assert not (memory.symbols == UNKNOWN).any()


def test_half_precision(tmp_path: Path):
    model, batch = make_model(fusion="both").half(), make_batch()
    cache = EntryCache(model, tmp_path / "cache", "fp32", LIMIT)
    generator = SequenceGenerator([model], TARGET, beam_size=3, max_len_a=0, max_len_b=12)
    plain = generator.generate([model], batch)
    for _ in range(2):
        for a, b in zip(plain, generator.generate([model], through(cache, batch)), strict=True):
            assert float(a[0]["score"]) == pytest.approx(float(b[0]["score"]), abs=1e-2)
    with pytest.raises(SegError, match="of another checkpoint, or of this one with other numbers .--fp16."):
        EntryCache(make_model(fusion="both"), tmp_path / "cache", "fp32", LIMIT)
    assert cache.serves(model) and not cache.serves(make_model())
    assert not cache.serves(model.float())


def test_the_fingerprint_is_of_all_that_an_entry_depends_on(tmp_path: Path):
    """Each parameter in turn is changed: where the entries change, the fingerprint does, and the other way round."""
    for options in ({}, {"share_decoder_input_output_embed": True}, {"fusion": "deep", "gate_hidden": 0}):
        model, pairs = make_model(**options), make_batch()["net_input"]["pairs"]
        with torch.no_grad():
            wanted = model.guided.entries(pairs, model.guided.run_pairs(pairs))
            for name, _ in model.named_parameters():
                other = copy.deepcopy(model)
                other.get_parameter(name).add_(0.5)
                found = other.guided.entries(pairs, other.guided.run_pairs(pairs))
                same = all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True) if a is not None)
                assert (model_fingerprint(other) == model_fingerprint(model)) == same, name
    assert model_fingerprint(make_model(fusion="both")) != model_fingerprint(make_model(fusion="shallow"))


def test_the_cache_of_another_model_is_refused_and_left_alone(tmp_path: Path):
    EntryCache(make_model(), tmp_path / "cache", "fp32", LIMIT).write(make_batch()["net_input"]["pairs"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()}
    for other in (make_model(seed=2), make_model(fusion="deep"), make_model(hidden_size=8)):
        with pytest.raises(SegError, match="cache is a cache of another checkpoint"):
            EntryCache(other, tmp_path / "cache", "auto", LIMIT)
    with pytest.raises(SegError, match="cache is a cache of type fp32, not int8"):
        EntryCache(make_model(), tmp_path / "cache", "int8", LIMIT)
    assert {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()} == before


@every_option
def test_decoding_from_the_cache_has_no_host_sync(options, tmp_path: Path):
    model, batch = make_model(**options), make_batch()
    cache = EntryCache(model, tmp_path / "cache", "int8", LIMIT)
    batch = on_meta(through(cache, batch))
    model = model.to("meta")
    tokens = torch.zeros(3 * len(SENTENCES), 1, dtype=torch.long, device="meta")
    order = torch.zeros(len(tokens), dtype=torch.long, device="meta")
    state: dict = {}
    with RefuseCPU(let_shapes_pass="translator" in options), torch.no_grad():
        encoder_out = model.encoder.forward_torchscript(batch["net_input"])
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        for _ in range(2):
            output = model.decoder(tokens, encoder_out=encoder_out, incremental_state=state)
            model.get_normalized_probs(output, log_probs=True)
