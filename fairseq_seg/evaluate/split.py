"""The split that systems are judged on: its sentences, references and best retrieved pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.best_pair import best_pairs, best_scores, score_bins
from fairseq_seg.files import read_text_file
from fairseq_seg.source.pair_source import Attached

# Mean similarity of characters below which references cannot be of these sentences. On EU law a file of the other
# language reaches 0.54, the right references but in another order 0.31.
LEAST_SIMILARITY = 0.6


@dataclass
class Split:
    """N sentences in the order of the data-bin, as text."""

    name: str
    data: Path
    source_lang: str
    target_lang: str
    subword: str  # how the target text was cut into symbols
    sources: list[str]
    source_symbols: list[str]  # the same as the model reads them
    references: list[str]
    references_from: str
    best: np.ndarray  # (N,) the fuzzy score of the best pair, -1 for none
    pair_sources: list[str]
    pair_targets: list[str]  # the translations of TM
    signature: str  # of the retrieval
    fingerprint: str
    memory: str  # identifies what was attached

    @property
    def bins(self) -> np.ndarray:
        """The bin (N,) of each best score."""
        return score_bins(self.best)

    def __len__(self) -> int:
        return len(self.sources)


def read_references(path: str | Path, binarized: list[str], split: str) -> list[str]:
    """The references of a split, refused where they do not look like its binarized target side."""
    from rapidfuzz.fuzz import ratio

    references = read_text_file(path)
    if len(references) != len(binarized):
        raise SegError(
            f"--references {path} has {len(references):,} lines but {split} has {len(binarized):,} sentences; "
            "give the text that the split was made from."
        )
    similarity = np.mean([ratio(*pair) / 100 for pair in zip(references, binarized, strict=True)])
    if similarity < LEAST_SIMILARITY:
        raise SegError(
            f"--references {path} has little in common with the target side of {split} ({similarity:.0%} of the "
            "characters); give the text that the split was made from, in its order."
        )
    return references


def load_split(
    folder: str | Path,
    name: str,
    source_lang: str | None = None,
    target_lang: str | None = None,
    references: str | Path | None = None,
) -> Split:
    """Reads a split and its attached memory; references are the binarized target side where no file is given."""
    data = DataBin(folder, source_lang, target_lang)
    source, target = data.pair(name)
    if not len(source):
        raise SegError(f"{name} of {folder} is empty; there is nothing to evaluate.")
    attached = Attached(data, name, Selection(1)).attached
    ranked = attached.ranked
    home = DataBin(data.folder / (attached.memory_data or ""), data.source_lang, data.target_lang)
    memory_source, memory_target = home.pair(TRAIN)
    source_spelling, target_spelling = data.spellings
    binarized = [target_spelling.text(sentence) for sentence in target]
    return Split(
        name=name,
        data=data.folder,
        source_lang=data.source_lang,
        target_lang=data.target_lang,
        subword=target_spelling.kind,
        sources=[source_spelling.text(sentence) for sentence in source],
        source_symbols=[" ".join(source_spelling.read(sentence)) for sentence in source],
        references=read_references(references, binarized, name) if references else binarized,
        references_from=str(references) if references else "the binarized target side, subwords undone",
        best=best_scores(ranked),
        pair_sources=best_pairs(ranked, memory_source, source_spelling),
        pair_targets=best_pairs(ranked, memory_target, target_spelling),
        signature=attached.signature,
        fingerprint=attached.split_fingerprint,
        memory=attached.fingerprint,
    )
