"""The result of an evaluation, from which the text, the JSON file, the figures and the page are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from fairseq_seg.evaluate.best_pair import BINS
from fairseq_seg.evaluate.curves import Curve
from fairseq_seg.evaluate.examples import Example
from fairseq_seg.evaluate.quality import Quality
from fairseq_seg.evaluate.scores import Scores, SystemScores
from fairseq_seg.evaluate.split import Split
from fairseq_seg.evaluate.table import by_bin, by_pairs, empty_bins, headline, what_users_notice


@dataclass
class Report:
    """An evaluation of a split."""

    split: Split
    scores: Scores
    sweep: list[SystemScores]
    curves: list[Curve]
    examples: list[Example]
    command: str
    quality: list[Quality] = field(default_factory=list)
    judge: str = ""  # the model that judged the copies

    def best_system(self) -> SystemScores | None:
        """Return the best system other than TM and the baseline."""
        others = [system for system in self.scores.systems if system.name not in ("TM", self.scores.baseline)]
        return max(others, key=lambda system: system.mean_bleu, default=None)

    def checked(self) -> str:
        """Describe how many sentences were scored, and against which references."""
        split = self.split
        return (
            f"{split.source_lang} → {split.target_lang}, {split.name}: all {len(split):,} sentences of every system "
            f"checked against {Path(split.references_from).name}."
        )

    def signatures(self) -> dict[str, str]:
        """Return the signatures of all scores and of the retrieval."""
        return {**self.scores.signatures, "retrieval": self.split.signature}

    def as_text(self) -> str:
        """Return the report for a terminal."""
        parts = [self.checked(), headline(self.scores).as_text()]
        if self.quality:
            parts.append(f"What users notice:\n{what_users_notice(self.quality).as_text()}")
        if self.sweep:
            parts.append("One model, K retrieved pairs:\n" + by_pairs(self.sweep).as_text())
        bins = self.split.bins
        parts.append(f"BLEU by the fuzzy score of the best pair:\n{by_bin(self.scores, bins).as_text()}")
        parts.append(empty_bins(bins))
        parts.append("\n".join(f"{name}: {signature}" for name, signature in self.signatures().items()))
        return "\n\n".join(part for part in parts if part)

    def as_dict(self) -> dict:
        """Return plain lists and dictionaries, for JSON."""
        split = self.split
        return {
            "command": self.command,
            "split": split.name,
            "source_lang": split.source_lang,
            "target_lang": split.target_lang,
            "sentences": len(split),
            "references": split.references_from,
            "baseline": self.scores.baseline,
            "signatures": self.signatures(),
            "bins": [{"bin": bin, "score": name, "sentences": int(np.sum(split.bins == bin))} for name, bin in BINS],
            "systems": [asdict(system) for system in self.scores.systems],
            "judge": self.judge,
            "quality": [asdict(quality) for quality in self.quality],
            "sweep": [asdict(point) for point in self.sweep],
            "training": [asdict(curve) for curve in self.curves],
            "examples": [example.as_dict(split) for example in self.examples],
        }
