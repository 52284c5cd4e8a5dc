"""How retrieved pairs are laid out in a batch, counted, and cut to a batch's size."""

import numpy as np
import pytest
import torch

from fairseq_seg.data.example_pairs import limit, prefix_max
from tests.literal import EOS
from tests.tiny import PAD, make_pairs, random_pairs

PAIRS = [([4, 5, EOS], [6, EOS]), ([4, EOS], [7, 8, 9, EOS]), ([5, 6, 7, 8, EOS], [10, 4, EOS])]


def test_each_distinct_pair_stands_once():
    memory = make_pairs(PAIRS, [[1, 0], [], [2, 1]])
    batch = memory.collate([memory.row(index) for index in range(3)])
    # Lowest rank first: pairs 1 and 2 are the best of a sentence, pair 0 is a second choice.
    assert batch["tokens"].tolist() == [[7, 8, 9, EOS], [10, 4, EOS, PAD], [6, EOS, PAD, PAD]]
    assert batch["prev_output_tokens"].tolist() == [[EOS, 7, 8, 9], [EOS, 10, 4, PAD], [EOS, 6, PAD, PAD]]
    assert batch["lengths"].tolist() == [4, 3, 2]
    assert batch["src_tokens"][:, :2].tolist() == [[4, EOS], [5, 6], [4, 5]]
    assert batch["src_lengths"].tolist() == [2, 5, 3]


def test_slots_point_at_the_symbols_of_a_sentences_own_pairs():
    memory = make_pairs(PAIRS, [[1, 0], [], [2, 1]])
    batch = memory.collate([memory.row(index) for index in range(3)])
    slots, ranks = batch["slots"], batch["ranks"]
    symbols = batch["tokens"].flatten()[slots.clamp(min=0)].masked_fill(slots < 0, PAD)
    assert symbols.tolist() == [[7, 8, 9, EOS, 6, EOS, PAD], [PAD] * 7, [10, 4, EOS, 7, 8, 9, EOS]]
    assert ranks.tolist() == [[0, 0, 0, 0, 1, 1, -1], [-1] * 7, [0, 0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_limited_batch_is_what_fewer_pairs_would_have_given(k):
    rows = [[1, 0], [], [2, 1]]
    memory = make_pairs(PAIRS, rows)
    limited = limit(memory.collate(rows), k)
    expected = memory.collate([row[:k] for row in rows])
    assert limited["sizes"] == expected["sizes"]
    for name in ("src_lengths", "lengths"):
        assert torch.equal(limited[name], expected[name])
    tokens = [batch["tokens"].flatten()[batch["slots"].clamp(min=0)] for batch in (limited, expected)]
    assert torch.equal(*(x.masked_fill(expected["slots"] < 0, PAD) for x in tokens))
    assert torch.equal(limited["slots"] < 0, expected["slots"] < 0)


def test_no_pair_no_memory():
    memory = make_pairs(PAIRS, [[], []])
    assert memory.collate([memory.row(0), memory.row(1)]) is None
    assert limit(make_pairs(PAIRS, [[0]]).collate([[0]]), 0) is None


def test_an_example_without_memory_counts_alone():
    memory = make_pairs(PAIRS, [[], []])
    assert memory.num_tokens(np.arange(2), np.array([5, 7])).tolist() == [5, 7]


def test_running_maximum_restarts_with_each_row():
    values, starts = np.array([3, 1, 4, 1, 5, 9, 2]), np.array([0, 2, 2, 6, 7])
    assert prefix_max(values, starts).tolist() == [3, 3, 4, 4, 5, 9, 2]


def test_an_example_counts_with_its_memory():
    memory = make_pairs(PAIRS, [[1, 0], [], [2], [1, 2]])
    # (1 + pairs) x longest row: 3 x 4, 1 x 6, 2 x 8 (the example itself is longest), 3 x 5
    assert memory.num_tokens(np.arange(4), np.array([2, 6, 8, 3])).tolist() == [12, 6, 16, 15]


@pytest.mark.parametrize("max_tokens", [5, 12, 20, 1000])
def test_fit_drops_last_pairs_only_where_it_must(max_tokens):
    pairs = random_pairs(1, 30, longest=9)
    rng = np.random.default_rng(1)
    rows = [rng.permutation(30)[: rng.integers(5)].tolist() for _ in range(50)]
    own, memory, everyone = rng.integers(2, 12, size=50), make_pairs(pairs, rows), np.arange(50)
    lost = memory.fit(everyone, own, max_tokens)
    sizes = memory.num_tokens(everyone, own)
    shorter = 0
    for index, row in enumerate(rows):
        kept = memory.row(index).tolist()
        assert kept == row[: len(kept)]
        assert sizes[index] <= max_tokens or not kept
        if len(kept) < len(row):
            shorter += 1
            longest = max(own[index], *(max(map(len, pairs[pair])) for pair in row[: len(kept) + 1]))
            assert (2 + len(kept)) * longest > max_tokens  # one pair more would not fit
    assert lost == shorter
    assert (lost > 0) == (max_tokens < 1000)
