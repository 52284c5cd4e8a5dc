"""Provenance: the figures are the model's, the words are the reader's, and no text can act on a page or a terminal."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import post_process

from fairseq_seg.corpus.subwords import Spelling
from fairseq_seg.explain import html, terminal
from fairseq_seg.explain.records import Baseline, Explanation, RetrievedPair, Slot, Token, merge_words
from fairseq_seg.explain.trace import trace
from tests.tiny import literal, make_batch, make_model, predict, random_pairs

ROWS = [[0, 1], [], [2, 0, 1]]  # the retrieved pairs of three sentences

# ------------------------------------------------------------------------------------------------------------- figures


def traced(model, sentences, pairs=(), rows=None) -> list[list[Token]]:
    """Return the provenance of each sentence, in their order."""
    batch = make_batch(sentences, pairs, rows)
    found = trace(model, batch["net_input"], batch["target"])
    return [found[row] for row in batch["id"].argsort().tolist()]


@pytest.mark.parametrize("options", [{}, {"fusion": "both"}, {"memory_keys": "target"}], ids=str)
def test_figures_are_those_of_the_equations(options):
    model = make_model(**options)
    sentences, pairs = random_pairs(5, 3, longest=12), random_pairs(6, 3, longest=12)
    slow = literal(model)
    choices = []
    for (source, target), row, found in zip(sentences, ROWS, traced(model, sentences, pairs, ROWS), strict=True):
        slots = [(rank, place, symbol) for rank, pair in enumerate(row) for place, symbol in enumerate(pairs[pair][1])]
        steps = slow.predict(source, target, [pairs[pair] for pair in row])
        assert len(found) == len(target)
        for symbol, token, step in zip(target, found, steps, strict=True):
            same = [(q.item(), *slot[:2]) for q, slot in zip(step.weights, slots, strict=True) if slot[2] == symbol]
            p_copy, gate = sum(q for q, _, _ in same), step.gate.item()
            assert token.text == model.decoder.dictionary[symbol]
            assert token.gate == pytest.approx(gate, abs=1e-5)
            assert token.p_gen == pytest.approx(step.generated[symbol].item(), abs=1e-5)
            assert token.probability == pytest.approx(step.probabilities[symbol].item(), abs=1e-5)
            assert token.copied == pytest.approx(gate * p_copy, abs=1e-5)
            assert token.copied + (1 - token.gate) * token.p_gen == pytest.approx(token.probability, abs=1e-5)
            assert token.share == pytest.approx(token.copied / token.probability)
            assert token.p_copy == (pytest.approx(p_copy, abs=1e-5) if row else None)
            assert (token.slot is None) == (not same)
            if same:
                weight, pair, position = max(same)
                assert (token.slot.pair, token.slot.position) == (pair, position)
                assert token.slot.weight == pytest.approx(weight, abs=1e-5)
                choices.append(len(same))
    assert sum(count > 1 for count in choices) >= 5  # slots to choose from


def test_probability_is_what_the_search_sees():
    model = make_model()
    sentences, pairs = random_pairs(3, 3), random_pairs(4, 3)
    log_probs = predict(model, make_batch(sentences, pairs, ROWS))
    for (_, target), tokens, log_p in zip(sentences, traced(model, sentences, pairs, ROWS), log_probs, strict=True):
        for symbol, token, row in zip(target, tokens, log_p, strict=True):
            assert token.probability == pytest.approx(row[symbol].exp().item(), abs=1e-6)


def test_deep_fusion_copies_nothing():
    model = make_model(fusion="deep")
    sentences, pairs = random_pairs(1, 3), random_pairs(2, 3)
    slow = literal(model)
    tokens = traced(model, sentences, pairs, ROWS)
    for (source, target), row, found in zip(sentences, ROWS, tokens, strict=True):
        steps = slow.predict(source, target, [pairs[pair] for pair in row])
        for symbol, token, step in zip(target, found, steps, strict=True):
            assert (token.copied, token.share, token.p_copy, token.slot) == (0.0, 0.0, None, None)
            assert token.gate == pytest.approx(step.gate.item(), abs=1e-5)
            assert token.probability == token.p_gen == pytest.approx(step.probabilities[symbol].item(), abs=1e-5)


@pytest.mark.parametrize("rows", [None, [[], [], []]], ids=["K=0", "nothing found"])
def test_without_memory_all_is_generated(rows):
    for sentence in traced(make_model(), random_pairs(1, 3), random_pairs(2, 3), rows):
        for token in sentence:
            assert (token.gate, token.copied, token.p_copy, token.slot) == (0.0, 0.0, None, None)
            assert token.probability == token.p_gen > 0


# --------------------------------------------------------------------------------------------------------------- words


def spelling(*symbols: str) -> Spelling:
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return Spelling(dictionary.symbols)


@pytest.mark.parametrize(
    "symbols, kind",
    [
        ("▁l ' art icle ▁ 33 , ▁of", "sentencepiece"),
        ("art icle ▁a <unk> b ▁<unk> ▁c", "sentencepiece"),
        ("l@@ ' art@@ icle 33 of@@", "subword_nmt"),
        ("l ' article 33 <unk> of", "none"),
        ("", "sentencepiece"),
    ],
)
def test_words_are_those_of_fairseq(symbols, kind):
    symbols = symbols.split()
    words = spelling("▁x", *symbols).words(symbols) if kind == "sentencepiece" else spelling(*symbols).words(symbols)
    assert " ".join(text for text, _ in words) == post_process(" ".join(symbols), kind)
    assert [position for _, positions in words for position in positions] == list(range(len(symbols)))


def token(text: str, share: float = 0.0, slot: Slot | None = None, p_copy: float | None = 0.5) -> Token:
    return Token(text, gate=share, copied=share / 2, share=share, probability=0.5, p_copy=p_copy, p_gen=0.25, slot=slot)


def pair(*target_symbols: str, origin: str = "train:7") -> RetrievedPair:
    words = [text for text, _ in spelling("▁").words(list(target_symbols))]
    return RetrievedPair(7, origin, 0.75, "a source", " ".join(words), list(target_symbols), words)


def test_a_word_merges_its_symbols():
    pairs = [pair("▁x", "▁la", "▁viol", "ation"), pair("▁viol", "e")]
    symbols = [
        token("▁la", 0.2, Slot(0, 1, 0.6)),
        token("▁viol", 0.4, Slot(1, 0, 0.3)),
        token("ation", 0.9, Slot(0, 3, 0.7)),
        token("▁!", p_copy=None),
    ]
    la, violation, mark = merge_words(symbols, pairs, spelling("▁"))
    assert (la.text, la.gate, la.slot) == ("la", 0.2, Slot(0, 1, 0.6))
    assert violation.text == "violation"
    assert violation.slot == Slot(0, 2, pytest.approx(0.35))  # of two words named, the one with more weight
    assert (violation.gate, violation.share) == (pytest.approx(0.65), pytest.approx(0.65))
    assert violation.copied == pytest.approx(0.325)
    assert (violation.probability, violation.p_copy, violation.p_gen) == (0.25, 0.25, 0.0625)
    assert violation.copied_from == violation.slot and la.copied_from is None
    assert (mark.slot, mark.p_copy) == (None, None)


# --------------------------------------------------------------------------------------------------- page and terminal

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> &amp; \x1b[31m\x07"


def explanation(text: str = "mot") -> Explanation:
    """Everything that can be shown, with a text in every place that holds one."""
    retrieved = pair(f"▁{text}", "▁b", origin=text)
    retrieved.target_words = [text, "b"]
    retrieved.source = text
    words = [token(text, 0.9, Slot(0, 0, 0.8)), token(text, 0.1), token(text, 1.0, Slot(0, 0, 0.8))]
    return Explanation(text, text, "shallow", [retrieved], words, words, False, Baseline(text, text), text)


class Page(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def test_no_text_can_act_in_the_page():
    page = html.render([explanation(EVIL)], EVIL)
    parsed, harmless = Page(page), Page(html.render([explanation()], "mot"))
    assert [tag for tag, _ in parsed.elements] == [tag for tag, _ in harmless.elements]
    assert [list(attributes) for _, attributes in parsed.elements] == [list(a) for _, a in harmless.elements]
    assert not any(name.startswith("on") or name == "style" for _, a in parsed.elements for name in a)
    # every place shows it as it is: title, S, RS, RT, A three times, its symbols, B, T, and the two names
    assert "".join(parsed.texts).count(EVIL) == 2 + 1 + 3 + 3 + 3 + 2 + 1


def test_the_policy_admits_the_page_s_own_style_and_script_alone():
    page = html.render([explanation()], "title")
    [policy] = [a["content"] for tag, a in Page(page).elements if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for element in ("style", "script"):
        [inline] = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert rules[f"{element}-src"] == f"'sha256-{digest}'"
    assert "http:" not in page and "https:" not in page  # nothing is fetched


def test_copied_words_and_their_origins_are_linked_both_ways():
    elements = [attributes for tag, attributes in Page(html.render([explanation()], "")).elements if tag == "a"]
    links = [attributes for attributes in elements if "id" in attributes]
    there, *ours = links
    assert [link["id"] for link in ours] == ["s1a0", "s1a2"]
    assert [link["href"] for link in ours] == ["#s1r1w0", "#s1r1w0"]
    assert (there["id"], there["href"]) == ("s1r1w0", "#s1a0")
    assert {link["data-slot"] for link in links} == {"s1r1w0"}
    assert [link["class"] for link in links] == ["w g10", "w g9", "w g10"]  # there: the stronger of the two


def test_a_page_says_what_there_is_not():
    deep, alone = explanation(), explanation()
    deep.fusion = "deep"
    deep.words = [token("mot", p_copy=None)]
    alone.pairs, alone.words, alone.baseline, alone.reference = [], [token("mot", p_copy=None)], None, None
    page = html.render([deep, alone], "title")
    assert page.count("copies nothing") == 1 and page.count("No pair was retrieved") == 1
    assert "copies nothing" in terminal.render(deep, colour=False)
    assert terminal.render(alone, colour=False) == "S    mot\nA    mot\n"


def test_terminal():
    text = terminal.render(explanation(), colour=False)
    assert text.splitlines() == [
        "S    mot",
        "     pair 1: mot, score 0.75",
        "RS1  mot",
        "RT1  [mot] b",
        "A    [mot]¹ mot [mot]¹",
        "B    mot   (mot)",
        "T    mot",
    ]
    coloured = terminal.render(explanation(), colour=True)
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == text.replace("[", "").replace("]", "")
    assert "\x1b" not in terminal.render(explanation(EVIL), colour=False)
    codes = re.findall("\x1b[^m]*m|\x07", terminal.render(explanation(EVIL), colour=True))
    assert codes == re.findall("\x1b[^m]*m", coloured)
