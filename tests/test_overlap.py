"""Overlap: which symbols of a retrieved source a sentence shares, and what that does to its slots."""

import random

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

from fairseq_seg.corpus.alignment import matching_blocks
from fairseq_seg.corpus.alignment import shared_positions as of_blocks
from fairseq_seg.errors import SegError
from fairseq_seg.modules.overlap import START, slot_overlap
from tests.tiny import PAIRS, ROWS, SENTENCES, make_batch, make_model


def shared_positions(sentence: list[int], source: list[int]) -> np.ndarray:
    return of_blocks(matching_blocks(sentence, source), source)


@pytest.mark.parametrize(
    ("sentence", "source", "shared"),
    [
        ([5, 6, 7, 2], [5, 6, 8, 2], [1, 1, 0, 1]),  # type of hyperlink, type of message
        ([5, 6, 2], [9, 5, 6, 2], [0, 1, 1, 1]),
        ([5, 6, 2], [5, 2], [1, 1]),
        ([4, 2], [5, 6, 2], [0, 0, 1]),
        ([3, 5, 2], [3, 5, 2], [0, 1, 1]),  # 3 is the unknown symbol: two unknown words need not be the same
        ([2], [2], [1]),
    ],
)
def test_shared_positions(sentence: list[int], source: list[int], shared: list[int]):
    assert shared_positions(sentence, source).tolist() == [bool(x) for x in shared]


def test_shared_symbols_are_those_of_a_shortest_edit():
    rng = random.Random(1)
    for _ in range(200):
        sentence, source = (rng.choices(range(4, 9), k=rng.randint(1, 12)) for _ in range(2))
        shared = shared_positions(sentence, source)
        kept = iter(sentence)
        assert all(symbol in kept for symbol in np.array(source)[shared])  # in the same order in the sentence
        # The rest of the longer side is replaced, inserted or deleted.
        longest = max(len(sentence), len(source))
        assert longest - shared.sum() <= Levenshtein.distance(sentence, source) <= len(sentence) + len(source)


def test_a_slots_overlap_is_the_attention_on_shared_symbols():
    attention = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.6, 0.0], [0.0, 0.0, 0.0]]])
    shared = torch.tensor([[[True, False, True], [False, True, False]]])
    ranks = torch.tensor([[0, 0, 1, -1]])
    assert slot_overlap(attention, shared, ranks)[0, :3].tolist() == pytest.approx([0.7, 0.8, 0.6])


@torch.no_grad()
def test_overlap_moves_weight_to_slots_whose_words_are_shared():
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    model = make_model(memory_overlap=True)
    reads = []
    for mu in (0.0, 50.0):
        model.decoder.memory.overlap.weight.fill_(mu)
        model.decoder.memory.overlap.gate.weight.zero_()
        reads.append(model(**batch["net_input"])[1]["read"].weights)
    without = make_model()
    without.load_state_dict({k: v for k, v in model.state_dict().items() if ".overlap." not in k})
    torch.testing.assert_close(reads[0], without(**batch["net_input"])[1]["read"].weights)
    assert not torch.allclose(reads[0], reads[1], atol=0.05)


def test_mu_starts_where_the_copies_feel_it():
    assert make_model(randomize=False, memory_overlap=True).decoder.memory.overlap.weight.item() == START == 4.0


def test_keys_without_a_look_at_the_source_are_refused():
    with pytest.raises(SegError, match="--memory-overlap needs keys that look at the retrieved source"):
        make_model(memory_overlap=True, memory_keys="target")
