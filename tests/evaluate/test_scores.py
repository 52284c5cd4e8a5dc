"""BLEU by score bin, several seeds, and Moses tokens."""

import numpy as np
import pytest
from sacremoses import MosesTokenizer

from fairseq_seg.evaluate.outputs import Output, System
from fairseq_seg.evaluate.scores import moses_tokenize, paired_bootstrap, score_systems
from fairseq_seg.evaluate.split import Split
from fairseq_seg.evaluate.table import headline
from tests.corpus import Corpus


def test_bins_are_those_of_the_best_pair(split: Split, corpus: Corpus, capsys):
    """Where a bin's sentences are all wrong, its BLEU is 0 and that of the others is whole."""
    best_bin = int(np.bincount(split.bins).argmax())
    lines = ["x y z w" if bin == best_bin else target for bin, target in zip(split.bins, split.references, strict=True)]
    [scored] = score_systems(split, [System("TM", [Output(lines)])], "TM").systems
    assert scored.bin_bleu.keys() == set(split.bins.tolist())
    assert all(bleu == pytest.approx(0 if bin == best_bin else 100) for bin, bleu in scored.bin_bleu.items())


def test_several_seeds(split: Split, guesses: list[str]):
    """The mean is shown with its range, and the p value is that of the worst pair of runs."""
    half = [*split.references[:20], *guesses[20:]]
    nmt, seg = System("NMT", [Output(guesses), Output(half)]), System("SEG", [Output(split.references), Output(half)])
    tested, _ = paired_bootstrap(nmt, [seg], split.references)
    assert tested["SEG"][1] == 1  # half against half
    tested, _ = paired_bootstrap(System("NMT", nmt.runs[:1]), [seg], split.references)
    assert tested["SEG"][1] < 0.05
    scores = score_systems(split, [nmt, seg], "NMT")
    assert len(scores.systems[1].bleu) == 2
    table = headline(scores)
    low, high = sorted(scores.systems[1].bleu)
    assert table.rows[1][-1] == f"2: {low:.1f}–{high:.1f}" and table.rows[1][1] == f"{(low + high) / 2:.1f}"


def test_moses_tokens():
    line = "L'autorité (no 12/2005) décide: «oui», etc."
    [tokens] = moses_tokenize([line], "fr")
    assert tokens == MosesTokenizer("fr").tokenize(line, return_str=True, escape=False)
    assert tokens.startswith("L' autorité ( no 12 / 2005 )")
