"""BLEU and chrF by sacrebleu, overall and by score bin, with its paired bootstrap against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_seg.evaluate.outputs import System
from fairseq_seg.evaluate.split import Split

# Per system, half of its 95 % interval and its p value, None for the baseline itself.
Tested = dict[str, tuple[float, float | None]]


@dataclass
class SystemScores:
    """The figures of a system; a list has one figure per run."""

    name: str
    sentences: int
    bleu: list[float]
    bleu_ci: float  # half of the 95 % interval of the bootstrap, the mean over the runs
    p_value: float | None  # against the baseline, the largest of several runs; None for the baseline itself
    chrf: list[float]
    moses_bleu: list[float]
    pairs: float | None
    speed: float | None
    bin_bleu: dict[int, float]  # for each bin with sentences, the mean over the runs

    @property
    def mean_bleu(self) -> float:
        """The mean over the runs."""
        return float(np.mean(self.bleu))


@dataclass
class Scores:
    """All systems on one split."""

    systems: list[SystemScores]
    baseline: str
    signatures: dict[str, str]

    def system(self, name: str) -> SystemScores:
        """Return a system by its name."""
        return next(system for system in self.systems if system.name == name)


def bleu_by_bin(translations: list[str], references: list[str], bins: np.ndarray) -> tuple[dict, str]:
    """Return BLEU for each score bin with sentences and for "all" of them, and sacrebleu's signature."""
    from sacrebleu.metrics import BLEU

    metric = BLEU()

    def score(rows: np.ndarray) -> float:
        return metric.corpus_score([translations[row] for row in rows], [[references[row] for row in rows]]).score

    bleu: dict[int | str, float] = {int(bin): score(np.flatnonzero(bins == bin)) for bin in np.unique(bins)}
    bleu["all"] = score(np.arange(len(translations)))
    return bleu, str(metric.get_signature())


def moses_tokenize(lines: list[str], lang: str) -> list[str]:
    """Tokenize text with sacremoses, as MT papers of that time did."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang)
    return [tokenizer.tokenize(line, return_str=True, escape=False) for line in lines]


def paired_bootstrap(baseline: System, others: list[System], references: list[str]) -> tuple[Tested, str]:
    """Run sacrebleu's paired bootstrap of BLEU with 1000 samples.

    Return, per system, the half 95 % interval (the mean over its runs) and the p value against the baseline (the
    largest of any run against any run of the baseline); and the signature.
    """
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest, Result

    intervals: dict[str, list[float]] = {system.name: [] for system in (baseline, *others)}
    p_values: dict[str, list[float]] = {system.name: [] for system in others}
    runs: list[tuple[str, Sequence[str]]] = [(system.name, run.lines) for system in others for run in system.runs]
    for base in baseline.runs:
        named = [(baseline.name, base.lines), *runs]
        signatures, results = PairedTest(named, {"BLEU": BLEU()}, [references], test_type="bs")()
        for (name, lines), result in zip(named, results["BLEU"], strict=True):
            assert isinstance(result, Result) and result.ci is not None
            intervals[name].append(float(result.ci))
            if result.p_value is not None:
                # sacrebleu counts differences greater than the real one, so it would call equal systems different.
                p_values[name].append(1.0 if lines == base.lines else float(result.p_value))
    summary: Tested = {
        name: (float(np.mean(ci)), max(p_values.get(name, []), default=None)) for name, ci in intervals.items()
    }
    return summary, str(signatures["BLEU"])


def score_systems(split: Split, systems: list[System], baseline: str) -> Scores:
    """Score every run of every system."""
    from sacrebleu.metrics import BLEU, CHRF
    from tqdm import tqdm

    # Passed here, the references are processed once, not once per system.
    chrf = CHRF(references=[split.references])
    tokenized = [moses_tokenize(split.references, split.target_lang)]
    moses = BLEU(tokenize="none", force=True, references=tokenized)
    reference_system = next(system for system in systems if system.name == baseline)
    others = [system for system in systems if system is not reference_system]
    bar = tqdm(desc="scoring", total=len(systems) + 1, unit=" steps")  # the bootstrap, and each system
    tested, bootstrap_signature = paired_bootstrap(reference_system, others, split.references)
    bar.update()
    scored = []
    for system in systems:
        bins = [bleu_by_bin(run.lines, split.references, split.bins)[0] for run in system.runs]
        runs = [run.lines for run in system.runs]
        ci, p_value = tested[system.name]
        scored.append(
            SystemScores(
                name=system.name,
                sentences=len(split),
                bleu=[bleu["all"] for bleu in bins],
                bleu_ci=ci,
                p_value=p_value,
                chrf=[chrf.corpus_score(lines, None).score for lines in runs],
                moses_bleu=[moses.corpus_score(moses_tokenize(lines, split.target_lang), None).score for lines in runs],
                pairs=_mean([run.pairs for run in system.runs]),
                speed=_mean([run.speed for run in system.runs]),
                bin_bleu={bin: float(np.mean([bleu[bin] for bleu in bins])) for bin in bins[0] if isinstance(bin, int)},
            )
        )
        bar.update()
    bar.close()
    signatures = {
        "BLEU": bootstrap_signature,
        "chrF": str(chrf.get_signature()),
        "BLEU on Moses tokens": f"{moses.get_signature()} after sacremoses:{_version('sacremoses')}|"
        f"lang:{split.target_lang}|escape:no",
    }
    return Scores(scored, baseline, signatures)


def _mean(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return float(np.mean(known)) if len(known) == len(figures) else None


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)
