"""What users notice: numbers, placeholders and tags, terms, wrong copies, and the effort to correct a translation.

A share is that of sentences where all is right. Numbers count in the sentences whose reference has the same numbers as
the source, placeholders and tags in those whose reference has the same as the source: where the translators of the
reference changed them, no system can know. Edit effort is measured against the reference: TER, edits (shifts included)
per 100 words, and character edits (insertions, deletions, substitutions) per 100 characters. Wrong copies are per 100
words; the copied mass is the mean zeta_t p_copy per symbol of the translation, by the same model for all systems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from fairseq_seg.corpus.faults import count_values
from fairseq_seg.corpus.notation import Notation, notation_of
from fairseq_seg.corpus.terms import Terms, is_respected
from fairseq_seg.evaluate.outputs import System
from fairseq_seg.evaluate.split import Split
from fairseq_seg.explain.copies import Copies


@dataclass
class Share:
    """How often something is right, in percent; of several runs the mean, and the largest p."""

    percent: float
    of: int  # sentences, or terms
    p_value: float | None = None  # of a sign test against the baseline; None for the baseline itself


@dataclass
class Quality:
    """What users notice of a system; None where there is nothing to measure."""

    name: str
    numbers: Share | None
    markup: Share | None
    terms: Share | None
    ter: float
    edits: float
    wrong_copies: float | None = None
    copied_mass: float | None = None


# For each sentence (or term) that counts, whether it is right.
Judged = Callable[[Sequence[str]], np.ndarray]


def measure_quality(
    split: Split,
    systems: list[System],
    baseline: str,
    terms: Terms | None = None,
    copies: dict[str, list[list[Copies]]] | None = None,
) -> list[Quality]:
    """Measure every system; `copies` are those of each run's sentences."""
    from sacrebleu.metrics import TER

    notations = notation_of(split.source_lang, split.sources), notation_of(split.target_lang, split.references)
    judges = {
        "numbers": judge_tokens(split, *notations, ("numbers",)),
        "markup": judge_tokens(split, *notations, ("placeholders", "tags")),
        "terms": judge_terms(split, terms),
    }
    right = {
        system.name: {name: [judge(run.lines) for run in system.runs] for name, judge in judges.items()}
        for system in systems
    }
    ter = TER()
    measured = []
    for system in systems:
        compared = None if system.name == baseline else right[baseline]
        shares = {name: _share(runs, compared[name] if compared else None) for name, runs in right[system.name].items()}
        quality = Quality(
            system.name,
            numbers=shares["numbers"],
            markup=shares["markup"],
            terms=shares["terms"],
            ter=float(np.mean([ter.corpus_score(run.lines, [split.references]).score for run in system.runs])),
            edits=float(np.mean([character_edits(run.lines, split.references) for run in system.runs])),
        )
        if copies is not None:
            quality.wrong_copies, quality.copied_mass = _mean_copies(copies[system.name])
        measured.append(quality)
    return measured


def judge_tokens(split: Split, source: Notation, target: Notation, kinds: Sequence[str]) -> Judged:
    """Return what tells in which sentences the tokens of some kinds are all right, of those that count."""
    wanted = []
    for row, (text, reference) in enumerate(zip(split.sources, split.references, strict=True)):
        have = count_values(text, source, kinds)
        if have and have == count_values(reference, target, kinds):
            wanted.append((row, have))

    def judge(lines: Sequence[str]) -> np.ndarray:
        return np.array([count_values(lines[row], target, kinds) == have for row, have in wanted], dtype=bool)

    return judge


def judge_terms(split: Split, terms: Terms | None) -> Judged:
    """Return what tells which terms of all sentences are respected; a term counts once per sentence."""
    found = (
        [] if terms is None else [(row, term) for row, text in enumerate(split.sources) for term in terms.find(text)]
    )

    def judge(lines: Sequence[str]) -> np.ndarray:
        return np.array([is_respected(term, lines[row]) for row, term in found], dtype=bool)

    return judge


def character_edits(lines: Sequence[str], references: Sequence[str]) -> float:
    """Return the number of character edits to the references per 100 of their characters."""
    from rapidfuzz.distance import Levenshtein

    edits = sum(Levenshtein.distance(*pair) for pair in zip(lines, references, strict=True))
    return 100 * edits / max(sum(map(len, references)), 1)


def sign_test(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the two-sided p value of the sign test (McNemar's, exact): are both as often right where they differ?"""
    better, worse = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    both = better + worse
    tail = sum(comb(both, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**both)


def _share(runs: list[np.ndarray], baseline: list[np.ndarray] | None) -> Share | None:
    if not len(runs[0]):
        return None
    p_value = None if baseline is None else max(sign_test(ours, theirs) for ours in runs for theirs in baseline)
    return Share(float(100 * np.mean(runs)), len(runs[0]), p_value)


def _mean_copies(runs: list[list[Copies]]) -> tuple[float, float]:
    """Return wrong copies per 100 words, and the copied mass, the mean over the runs."""
    wrong = [100 * sum(len(c.wrong) for c in run) / max(sum(c.words for c in run), 1) for run in runs]
    mass = [sum(c.mass for c in run) / max(sum(c.symbols for c in run), 1) for run in runs]
    return float(np.mean(wrong)), float(np.mean(mass))
