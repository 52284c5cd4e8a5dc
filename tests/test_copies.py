"""Which word of a retrieved source a copied word translates, and which copies are wrong."""

import pytest
import torch

from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.explain.copies import count_copies
from fairseq_seg.explain.records import Explanation, Slot, Token
from fairseq_seg.explain.trace import attended_sources, explain, most_attended
from tests.tiny import PAIRS, ROWS, SENTENCES, SOURCE, make_batch, make_dataset, make_model, make_pairs


def word(text: str, source: str | None, share: float = 0.9) -> Token:
    return Token(text, 0.5, 0.4, share, 0.5, 0.5, 0.5, Slot(0, 0, 0.5, source))


def test_wrong_copies():
    words = [word("Type", "Type"), word("de", "of"), word("message.", "Message"), word("message", "message", share=0.1)]
    words += [word("14", "14"), word("lien", "Message"), word("?", "message"), word("x", None)]
    explanation = Explanation("(type of hyperlink", "", "shallow", [], words[:4], words)
    found = count_copies(explanation, "Type de lien")
    assert found.wrong == [("message.", "Message"), ("14", "14")]
    assert (found.words, found.copied, found.symbols, found.mass) == (8, 7, 4, pytest.approx(1.6))
    # The source word is compared without case and punctuation; what the reference has is right.
    assert count_copies(explanation, "14 liens, lien; message").wrong == []


def test_the_attended_word_of_a_slot_is_that_of_the_pass_over_its_pair():
    model = make_model(memory_keys="context-state")
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, ROWS))
    explained = explain(model, dataset, [torch.tensor(target) for _, target in SENTENCES])
    spelling, seen = Spelling(SOURCE.symbols), 0
    for explanation, row in zip(explained, ROWS, strict=True):
        for token in explanation.words:
            if token.slot is None:
                continue
            source, target = PAIRS[row[token.slot.pair]]
            # Alone in its batch, without padding.
            batch = make_batch([SENTENCES[0]], [(source, target)], [[0]])
            attention = attended_sources(model, batch)[0, 0][token.slot.position, : len(source) - 1]  # a word a symbol
            assert token.slot.source == spelling.read(source)[int(attention.argmax())]
            seen += 1
    assert seen > 3


def test_words_add_up_their_symbols():
    spelling = Spelling(["<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "▁c"])
    attention = torch.tensor([[0.3, 0.3, 0.4, 0.0], [0.3, 0.3, 0.4, 0.0]])
    assert most_attended(attention, spelling, ["▁a", "b", "▁c"]) == "ab"
    assert most_attended(attention, spelling, []) is None


def test_keys_without_attention_have_no_source():
    model = make_model(memory_keys="target")
    dataset = make_dataset(SENTENCES, make_pairs(PAIRS, ROWS))
    explained = explain(model, dataset, [torch.tensor(target) for _, target in SENTENCES])
    slots = [token.slot for explanation in explained for token in explanation.words if token.slot]
    assert slots and all(slot.source is None for slot in slots)
