"""Examples with their memories in batches: none is lost, none gets another's memory, and batches keep their size."""

import logging

import numpy as np
import pytest

from tests.literal import EOS
from tests.tiny import PAD, make_dataset, make_pairs, random_pairs

SENTENCES, PAIRS = random_pairs(1, 60, longest=9), random_pairs(2, 40, longest=9)


def make_rows(largest: int) -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [rng.permutation(len(PAIRS))[: rng.integers(largest + 1)].tolist() for _ in SENTENCES]


def test_memories_follow_their_sentences():
    """fairseq sorts the rows of a batch by length; the memories must move with them."""
    rows = make_rows(3)
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, rows))
    shortest_first = sorted(range(8), key=lambda index: len(SENTENCES[index][0]))
    batch = dataset.collater([dataset[index] for index in shortest_first])
    order = batch["id"].tolist()
    assert sorted(order) == list(range(8)) and order != shortest_first
    memory = batch["net_input"]["pairs"]
    symbols = memory["tokens"].flatten()
    for place, index in enumerate(order):
        slots = memory["slots"][place]
        found = symbols[slots[slots >= 0]].tolist()
        assert found == [symbol for pair in rows[index] for symbol in PAIRS[pair][1]]


def test_rows_are_padded_on_the_right():
    dataset = make_dataset([([4, 5, 6, EOS], [4, EOS]), ([4, EOS], [5, 6, EOS])])
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["net_input"]["src_tokens"].tolist() == [[4, 5, 6, EOS], [4, EOS, PAD, PAD]]
    assert batch["net_input"]["prev_output_tokens"].tolist() == [[EOS, 4, PAD], [EOS, 5, 6]]
    assert "pairs" not in batch["net_input"]


def test_no_memory_in_a_batch_without_pairs():
    dataset = make_dataset(SENTENCES[:2], make_pairs(PAIRS, [[], []]))
    assert "pairs" not in dataset.collater([dataset[0], dataset[1]])["net_input"]
    assert dataset.collater([]) == {}


def test_sizes_count_the_memory():
    rows = make_rows(3)
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, rows))
    sizes = dataset.num_tokens_vec(np.arange(len(SENTENCES)))
    for index, row in enumerate(rows):
        longest = max(len(side) for pair in [SENTENCES[index], *(PAIRS[pair] for pair in row)] for side in pair)
        assert sizes[index] == dataset.num_tokens(index) == (1 + len(row)) * longest


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("multiple", [1, 3, 8, 64])
@pytest.mark.parametrize("limits", [(None, 7), (None, 8), (70, None), (70, 5), (5, None)])
@pytest.mark.parametrize("count", [1, 7, 21, 60])
def test_no_index_is_lost_and_batches_keep_their_size(k, multiple, limits, count):
    max_tokens, max_sentences = limits
    dataset = make_dataset(SENTENCES[:count], make_pairs(PAIRS, make_rows(k)[:count]) if k else None)
    indices = np.random.default_rng(count).permutation(count)
    batches = dataset.batch_by_size(indices, max_tokens, max_sentences, multiple)
    assert [index for batch in batches for index in batch] == indices.tolist()
    for batch in batches:
        sizes = dataset.num_tokens_vec(np.asarray(batch))
        assert max_sentences is None or len(batch) <= max_sentences
        # A sentence that is too long by itself stands alone.
        assert max_tokens is None or len(batch) == 1 or sizes.max() * len(batch) <= max_tokens
    assert dataset.batch_by_size(indices[:0], max_tokens, max_sentences, multiple) == []


def test_lost_pairs_are_counted_in_the_log(caplog):
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, make_rows(3)))
    before = dataset.retrieved.counts.copy()
    with caplog.at_level(logging.INFO):
        dataset.batch_by_size(np.arange(len(SENTENCES)), 20, None, 8)
    lost = int((dataset.retrieved.counts < before).sum())
    assert lost > 0 and f"{lost} examples lost their last retrieved pairs, to fit --max-tokens 20" in caplog.text
