"""Slots have the numbers of their sentence: against a literal version, in batches and from a cache."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from rapidfuzz.distance import Levenshtein

from fairseq_seg.cache.frozen import EntryCache
from fairseq_seg.corpus.alignment import Renumbering, matching_blocks
from fairseq_seg.corpus.pairs import PairTable, RankedPairs
from fairseq_seg.corpus.reserved import LETTERS, Reserved, ReservedIds, parse, reserved_symbols
from fairseq_seg.corpus.sequences import Sequences
from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.data.example_pairs import ExamplePairs, limit
from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUModel
from fairseq_seg.tasks.presets import resolve
from tests.tiny import PAD

EOS = 2
WORDS = [*"abcdefg", *reserved_symbols(("numbers", "tags"))]


def make_dictionary() -> Dictionary:
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    return dictionary


DICTIONARY = make_dictionary()
IDS = ReservedIds.of(DICTIONARY.symbols)
RENUMBER = Renumbering(IDS, IDS)


def ids(text: str) -> list[int]:
    return [*(DICTIONARY.index(word) for word in text.split()), EOS]


def slots(sentence: str, source: str, target: str) -> str:
    """Return the symbols of the slots of (X', Y') for X, - for no slot, without eos."""
    x, other = ids(sentence), ids(source)
    blocks = matching_blocks(IDS.classes[x].tolist(), IDS.classes[other].tolist())
    found = RENUMBER(x, other, np.array(ids(target)), blocks)[:-1]
    return " ".join("-" if symbol < 0 else DICTIONARY.symbols[symbol] for symbol in found)


@pytest.mark.parametrize(
    ("sentence", "source", "target", "expected"),
    [
        ("a ⟦n1⟧", "a ⟦n1⟧", "⟦n1⟧ b", "⟦n1⟧ b"),
        ("⟦n1⟧ a ▁⟦n2⟧", "c a ⟦n1⟧", "b ⟦n1⟧", "b ⟦n2⟧"),  # the pair's first is the sentence's second
        ("a b", "a b ⟦n1⟧", "a ⟦n1⟧ b", "a - b"),  # of which the sentence has none
        ("a ⟦t1⟧", "a ⟦n1⟧", "⟦n1⟧", "-"),  # another kind
        ("⟦n1⟧ ⟦t1⟧ ⟦t2⟧", "⟦n1⟧ ⟦t1⟧ ⟦t2⟧", "⟦t2⟧ ▁⟦n1⟧ ⟦t1⟧", "⟦t2⟧ ▁⟦n1⟧ ⟦t1⟧"),
        # The form: digits alone are verbatim; a number that depends on the language goes as in the pair, if that tells.
        ("a ⟦n1⟧", "a ⟦N1⟧", "⟦N1⟧", "⟦n1⟧"),
        ("a ⟦N1⟧", "a ⟦N1⟧", "⟦N1⟧", "⟦N1⟧"),
        ("a ⟦N1⟧", "a ⟦N1⟧", "▁⟦n1⟧", "▁⟦n1⟧"),
        ("a ⟦N1⟧", "a ⟦n1⟧", "⟦n1⟧", "⟦N1⟧"),
    ],
)
def test_what_stands_in_the_same_place_is_the_same(sentence: str, source: str, target: str, expected: str):
    assert slots(sentence, source, target) == expected


def literal_slots(sentence: list[str], source: list[str], target: list[str]) -> list[str | None]:
    """Renumber word by word, from a path of edits that is spelled out."""

    def kind(word: str) -> str:
        found = parse(word)
        return word if found is None else found.kind

    alphabet = {word: chr(97 + number) for number, word in enumerate([*"abcdefg", *LETTERS.values(), "</s>"])}
    coded = ["".join(alphabet[kind(word)] for word in [*side, "</s>"]) for side in (sentence, source)]
    partner = {}
    for operation in Levenshtein.opcodes(*coded):
        if operation.tag == "equal":
            for shift in range(operation.src_end - operation.src_start):
                partner[operation.dest_start + shift] = operation.src_start + shift
    result: list[str | None] = []
    for word in target:
        symbol = parse(word)
        if symbol is None:
            result.append(word)
            continue
        own = None
        for place, other in enumerate(source):
            theirs = parse(other)
            if theirs and (theirs.kind, theirs.number) == (symbol.kind, symbol.number) and place in partner:
                own = parse(sentence[partner[place]])
                break
        if own is None:
            result.append(None)
        else:
            form = (symbol.localised if theirs.localised else True) if own.localised else False
            result.append(str(Reserved(symbol.kind, own.number, form, symbol.begins)))
    return result


def random_words(rng: random.Random, longest: int = 9) -> list[str]:
    few = [word for word in WORDS if len(word) == 1 or parse(word).number < 4]
    weights = [6 if len(word) == 1 else 1 for word in few]
    return rng.choices(few, weights, k=rng.randint(1, longest))


def test_renumbering_is_what_the_literal_version_says():
    rng = random.Random(1)
    changed = 0
    for _ in range(1000):
        sentence, source, target = (random_words(rng) for _ in range(3))
        if rng.random() < 0.5:  # near enough to share something
            source = [word if rng.random() < 0.7 else rng.choice(WORDS[:30]) for word in sentence]
        expected = literal_slots(sentence, source, target)
        assert slots(*map(" ".join, (sentence, source, target))).split() == [word or "-" for word in expected]
        changed += expected != target
    assert changed > 300


# In batches


def make_pairs(seed: int, count: int = 12, cached: bool = False) -> tuple[ExamplePairs, list[list[int]]]:
    """Return random pairs of a few sentences, and the sentences."""
    rng = random.Random(seed)
    sides = [Sequences.from_rows([ids(" ".join(random_words(rng))) for _ in range(count)]) for _ in range(2)]
    table = PairTable(*sides, (Spelling(DICTIONARY.symbols),) * 2)
    rows = [rng.sample(range(count), k=rng.randint(0, 4)) for _ in range(6)]
    ranked = [(np.array(row, dtype=np.int64), np.ones(len(row), np.float32), np.ones(len(row), bool)) for row in rows]
    sentences = [ids(" ".join(random_words(rng))) for _ in rows]
    return ExamplePairs(RankedPairs.from_rows(ranked, table), cached=cached), sentences


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_has_the_slots_of_each_sentence_alone(seed: int):
    pairs, sentences = make_pairs(seed)
    batch = pairs.collate([pairs.row(index) for index in range(6)], sentences)
    flat = batch["tokens"].flatten()
    for index, sentence in enumerate(sentences):
        expected = []
        for rank, pair in enumerate(pairs.row(index).tolist()):
            x, source, target = (
                pairs_text(side) for side in (sentence, pairs.table.source[pair], pairs.table.target[pair])
            )
            words = [*literal_slots(x, source, target), "</s>"]
            own = [*pairs_text(pairs.table.target[pair]), "</s>"]
            expected += [(rank, word, mine) for word, mine in zip(words, own, strict=True) if word is not None]
        real = batch["slots"][index] >= 0
        found = zip(
            batch["ranks"][index][real].tolist(),
            (DICTIONARY.symbols[symbol] for symbol in batch["symbols"][index][real].tolist()),
            (DICTIONARY.symbols[symbol] for symbol in flat[batch["slots"][index][real]].tolist()),
            strict=True,
        )
        assert list(found) == expected
        assert (batch["symbols"][index][~real] == PAD).all()


def pairs_text(symbols) -> list[str]:
    return [DICTIONARY.symbols[symbol] for symbol in symbols if symbol != EOS]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_fewer_pairs(k: int):
    pairs, sentences = make_pairs(1)
    rows = [pairs.row(index) for index in range(6)]
    limited, expected = limit(pairs.collate(rows, sentences), k), pairs.collate([row[:k] for row in rows], sentences)
    assert torch.equal(limited["symbols"], expected["symbols"])


def make_model() -> SegGRUModel:
    cfg = SegGRUConfig(hidden_size=6, embed_dim=6, gate_hidden=3, memory_overlap=True, memory_keys="context-state")
    cfg._name = "seg_gru"
    resolve(cfg, "recommended")

    class Task:
        source_dictionary = target_dictionary = DICTIONARY
        cfg = SegGRUConfig(memory_k=2)

    torch.manual_seed(1)
    return SegGRUModel.build_model(cfg, Task).eval()


@torch.no_grad()
@pytest.mark.parametrize("number_type", ["fp32", "int8"])
def test_a_cache_gives_the_same_slots(tmp_path: Path, number_type: str):
    model = make_model()
    pairs, sentences = make_pairs(2, cached=True)
    batch = pairs.collate([pairs.row(index) for index in range(6)], sentences)
    assert any(
        len(kept) < batch["shapes"][place][0]
        for row, places in zip(batch["kept"], batch["places"], strict=True)
        for kept, place in zip(row, places, strict=True)
    )
    cache = EntryCache(model, tmp_path / "cache", number_type, 2**24)
    expected = model.guided.write_pairs(batch, model.guided.run_pairs(batch))
    for _ in range(2):  # written, and read
        slots = cache.write(batch)
        assert torch.equal(slots.symbols, expected.symbols) and torch.equal(slots.first, expected.first)
        real = ~expected.mask
        for name in ("keys", "gate_values", "bias"):
            exact = dict(rtol=0, atol=1e-5 if number_type == "fp32" else 0.05)
            torch.testing.assert_close(getattr(slots, name)[real], getattr(expected, name)[real], **exact)


@torch.no_grad()
def test_only_a_sentences_own_tokens_can_be_generated():
    model = make_model()
    tokens = torch.tensor([ids("a ⟦n1⟧ ▁⟦t2⟧"), ids("a b c"), ids("⟦N3⟧ ⟦n1⟧ a")])
    own = [{("numbers", 1), ("tags", 2)}, set(), {("numbers", 1), ("numbers", 3)}]
    encoder_out = model.encoder(tokens, torch.full((3,), 4))
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, torch.arange(3).repeat_interleave(2))
    rows = [0, 0, 1, 1, 2, 2]
    for order in ([1, 0, 2, 3, 5, 5], [0, 1, 4, 5]):  # beams change places; the second sentence leaves
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, torch.tensor(order))
        rows = [rows[place] for place in order]
        output = model.decoder(torch.full((len(rows), 1), EOS), encoder_out, {})
        log_p = model.get_normalized_probs(output, log_probs=True)[:, 0]
        for row, sentence in zip(log_p, rows, strict=True):
            possible = {word for word, p in zip(DICTIONARY.symbols, row.tolist(), strict=True) if p > float("-inf")}
            for word in DICTIONARY.symbols:
                found = parse(word)
                assert (word in possible) == (found is None or (found.kind, found.number) in own[sentence]), word
    # In training nothing changes.
    logits, extra = model(tokens, torch.full((3,), 4), tokens)
    assert torch.isfinite(model.get_normalized_probs((logits, extra), log_probs=True)).all()
