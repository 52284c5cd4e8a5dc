"""Example translations: the largest gains and losses against the baseline, with gates if they are known."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.decode import kept_path, run_kept
from fairseq_seg.evaluate.outputs import System
from fairseq_seg.evaluate.split import Split
from fairseq_seg.evaluate.systems import parse_checkpoint
from fairseq_seg.explain.records import Baseline, Explanation, RetrievedPair
from fairseq_seg.files import read_text_file

COUNT = 20


@dataclass
class Example:
    """A sentence translated by a system and by the baseline; `gain` is the difference in sentence chrF."""

    index: int
    system: str
    score: float  # of the best pair, -1 for none
    gain: float
    gate: float | None  # the mean over the words
    baseline: Baseline
    explanation: Explanation  # without words if the gates are not known

    def as_dict(self, split: Split) -> dict:
        """Return plain values for JSON; the words' provenance is in seg-explain's own file."""
        return {name: value for name, value in vars(self).items() if name != "explanation"} | {
            "source": split.sources[self.index],
            "reference": split.references[self.index],
            "translation": self.explanation.translation,
            "baseline": self.baseline.system,
            "baseline_translation": self.baseline.translation,
            "pair_source": split.pair_sources[self.index],
            "pair_target": split.pair_targets[self.index],
        }


def sentence_gains(translations: list[str], baseline: list[str], references: list[str]) -> np.ndarray:
    """Return the gain (N,) of each sentence over the baseline, in points of chrF."""
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return np.array(
        [
            metric.sentence_score(ours, [reference]).score - metric.sentence_score(theirs, [reference]).score
            for ours, theirs, reference in zip(translations, baseline, references, strict=True)
        ]
    )


def choose_sentences(gains: np.ndarray, spread: np.ndarray, count: int = COUNT) -> list[int]:
    """Choose the largest gains (a third), the largest losses (a third), and the rest evenly over `spread`."""
    third = min(count, len(gains)) // 3
    order = np.argsort(-gains, kind="stable")
    chosen = dict.fromkeys([*order[:third].tolist(), *order[len(order) - third :].tolist()])
    rest = [row for row in np.argsort(spread, kind="stable").tolist() if row not in chosen]
    places = np.linspace(0, len(rest) - 1, min(count - len(chosen), len(rest))).round().astype(int)
    return [*chosen, *(rest[place] for place in places)]


def examples_of_outputs(split: Split, system: System, baseline: System) -> list[Example]:
    """Return examples of a system without gates, from its first run."""
    explanations = []
    pairs = zip(split.best.tolist(), split.pair_sources, split.pair_targets, strict=True)
    for source, translation, (score, pair_source, pair_target) in zip(
        split.sources, system.runs[0].lines, pairs, strict=True
    ):
        retrieved = [RetrievedPair(-1, "best pair", score, pair_source, pair_target, [], [])] if score >= 0 else []
        explanations.append(Explanation(source, translation, "", retrieved, [], []))
    return _choose_examples(split, list(range(len(split))), system.name, explanations, baseline)


def explained_examples(
    text: str, split: Split, system: System, baseline: System, folder: Path, same: bool
) -> list[Example]:
    """Return examples with gates, from a file of `seg-explain --json` or from a checkpoint explained now.

    For a checkpoint, the translations of `system`, which may be the `same` checkpoint, decide which sentences to show.
    """
    checkpoint = parse_checkpoint(text)
    if checkpoint is None:
        label, explanations = text, read_explanations(Path(text))
        rows = find_sources([explanation.source for explanation in explanations], split, text)
    else:
        label = system.name if same else f"{' '.join([checkpoint[0].name, *checkpoint[1]])}, chosen by {system.name}"
        rows = sorted(example.index for example in examples_of_outputs(split, system, baseline))
        explanations = read_explanations(run_explain(*checkpoint, rows, split, folder))
    gates = [float(np.mean([word.gate for word in explanation.words] or [0])) for explanation in explanations]
    return _choose_examples(split, rows, label, explanations, baseline, gates)


def _choose_examples(
    split: Split,
    rows: list[int],
    system: str,
    explanations: list[Explanation],
    baseline: System,
    gates: list[float] | None = None,
) -> list[Example]:
    """Choose from some rows of the split, spread over the gates or, without any, over the scores of the best pairs."""
    theirs = [baseline.runs[0].lines[row] for row in rows]
    references = [split.references[row] for row in rows]
    gains = sentence_gains([explanation.translation for explanation in explanations], theirs, references)
    examples = []
    for place in choose_sentences(gains, split.best[rows] if gates is None else np.array(gates)):
        explanation, gate = explanations[place], None if gates is None else gates[place]
        # The explanation may have been made with another baseline, or with the binarized reference.
        explanation.baseline = compared = Baseline(baseline.name, theirs[place])
        explanation.reference = references[place]
        score, gain = float(split.best[rows[place]]), float(gains[place])
        examples.append(Example(rows[place], system, score, gain, gate, compared, explanation))
    return examples


def run_explain(checkpoint: Path, options: list[str], rows: list[int], split: Split, folder: Path) -> Path:
    """Run seg-explain on some sentences, or reuse an earlier output; return its path."""
    path = kept_path(folder, checkpoint, [*options, *map(str, rows)], split, ".jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    sentences = path.with_suffix(".txt")
    sentences.write_text("".join(f"{split.source_symbols[row]}\n" for row in rows), encoding="utf-8")
    arguments = [*split.arguments, "--path", str(checkpoint), "--input", str(sentences), "--json", *options]
    run_kept("fairseq_seg.cli.explain", arguments, path, b'\n{"source"', len(rows), "examples")
    return path


def read_explanations(path: Path) -> list[Explanation]:
    """Read what seg-explain --json printed."""
    explanations = []
    for number, line in enumerate(read_text_file(path), 1):
        try:
            explanations.append(Explanation.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            raise SegError(f"{path}, line {number}, is not a line of seg-explain --json.") from None
    if not explanations:
        raise SegError(f"{path} is empty: write it with seg-explain --json.")
    return explanations


def find_sources(sources: list[str], split: Split, path: str) -> list[int]:
    """Return the rows of the split that have these sources; repeated sources are taken in their order."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for row, source in enumerate(split.sources):
        places[" ".join(source.split())].append(row)
    rows = []
    for source in sources:
        found = places[" ".join(source.split())]
        if not found:
            raise SegError(f"{path} explains a sentence that {split.name} does not have: {source[:60]!r}.")
        rows.append(found.popleft())
    return rows
