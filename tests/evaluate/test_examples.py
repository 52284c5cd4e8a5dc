"""Which sentences are shown as examples, and their gates from a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.examples import choose_sentences, explained_examples, find_sources
from fairseq_seg.evaluate.outputs import Output, System
from fairseq_seg.evaluate.split import Split
from tests.evaluate.running import write


def test_choice_of_examples():
    gains = np.random.default_rng(1).normal(size=100)
    chosen = choose_sentences(gains, np.arange(100.0))
    assert len(set(chosen)) == 20
    assert chosen[:6] == np.argsort(-gains)[:6].tolist() and set(chosen[6:12]) == set(np.argsort(gains)[:6].tolist())
    assert max(np.diff(sorted(chosen[12:]))) < 25  # the rest is spread
    assert sorted(choose_sentences(gains[:7], np.arange(7.0))) == list(range(7))
    assert choose_sentences(gains[:1], np.arange(1.0)) == [0]


def test_repeated_sources_are_located_in_order(split: Split):
    other = Split(**(vars(split) | {"sources": ["a b", "c", "a b"]}))
    assert find_sources(["a  b", "a b", "c"], other, "x") == [0, 2, 1]
    with pytest.raises(SegError, match="x explains a sentence that test does not have: 'd'"):
        find_sources(["d"], other, "x")


def test_examples_from_a_file(split: Split, guesses: list[str], tmp_path: Path):
    token = {"text": "x", "gate": 0.25, "copied": 0, "share": 0, "probability": 1, "p_copy": None, "p_gen": 1}
    lines = [
        json.dumps(
            {
                "source": source,
                "translation": reference,
                "fusion": "shallow",
                "pairs": [],
                "symbols": [],
                "words": [token | {"slot": None}, token | {"gate": 0.75, "slot": None}],
                "exact": False,
                "baseline": {"system": "other", "translation": "other"},
                "reference": None,
            }
        )
        for source, reference in zip(split.sources, split.references, strict=True)
    ]
    seg, nmt = System("SEG", [Output(split.references)]), System("NMT", [Output(guesses)])
    path = write(tmp_path / "explained.jsonl", lines)
    examples = explained_examples(str(path), split, seg, nmt, tmp_path, same=False)
    assert len(examples) == 20 and all(example.gate == 0.5 and example.gain >= 0 for example in examples)
    for example in examples:
        assert example.explanation.baseline.translation == guesses[example.index]
        assert example.explanation.reference == split.references[example.index]
    write(path, [lines[0], "{}"])
    with pytest.raises(SegError, match="line 2, is not a line of seg-explain --json"):
        explained_examples(str(path), split, seg, nmt, tmp_path, same=False)
