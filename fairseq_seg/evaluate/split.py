"""The split that systems are scored on: its sentences, references and best retrieved pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.best_pair import best_pairs, best_scores, score_bins
from fairseq_seg.files import read_text_file
from fairseq_seg.source.pair_source import Attached

# References with a lower mean character similarity cannot belong to these sentences. On EU law, a file in the other
# language reaches 0.54, and the right references in another order 0.31.
LEAST_SIMILARITY = 0.6


@dataclass
class Split:
    """N sentences in the order of the data-bin, as text."""

    name: str
    data: Path
    source_lang: str
    target_lang: str
    subword: str  # how the target text was split into symbols
    sources: list[str]
    source_symbols: list[str]  # the same, as symbols
    references: list[str]
    references_from: str
    best: np.ndarray  # (N,) the fuzzy score of the best pair, -1 for none
    pair_sources: list[str]
    pair_targets: list[str]  # the translations of TM
    signature: str  # of the retrieval
    fingerprint: str
    attached: str  # the fingerprint of the attached pairs

    @property
    def bins(self) -> np.ndarray:
        """The bin (N,) of each best score."""
        return score_bins(self.best)

    @property
    def arguments(self) -> list[str]:
        """The data-bin and languages, as fairseq's command lines take them."""
        return [str(self.data), "-s", self.source_lang, "-t", self.target_lang]

    def __len__(self) -> int:
        return len(self.sources)


def read_references(path: str | Path, binarized: list[str], split: str) -> list[str]:
    """Read the references of a split; refuse them if they do not look like its binarized target side."""
    from rapidfuzz.fuzz import ratio

    references = read_text_file(path)
    if len(references) != len(binarized):
        raise SegError(
            f"--references {path} has {len(references):,} lines but {split} has {len(binarized):,} sentences: "
            "give the text that the split was made from."
        )
    similarity = np.mean([ratio(*pair) / 100 for pair in zip(references, binarized, strict=True)])
    if similarity < LEAST_SIMILARITY:
        raise SegError(
            f"--references {path} has little in common with the target side of {split} ({similarity:.0%} of the "
            "characters): give the text that the split was made from, in the same order."
        )
    return references


def load_split(
    folder: str | Path,
    name: str,
    source_lang: str | None = None,
    target_lang: str | None = None,
    references: str | Path | None = None,
) -> Split:
    """Read a split and its attached pairs; without a file, the binarized target side is the reference."""
    data = DataBin(folder, source_lang, target_lang)
    source, target = data.pair(name)
    if not len(source):
        raise SegError(f"{name} of {folder} is empty: there is nothing to evaluate.")
    pairs = Attached(data, name, Selection(1))
    table = pairs.home.table()
    source_spelling, target_spelling = data.spellings
    binarized = list(target_spelling.texts(target))
    return Split(
        name=name,
        data=data.folder,
        source_lang=data.source_lang,
        target_lang=data.target_lang,
        subword=target_spelling.kind,
        sources=list(source_spelling.texts(source)),
        source_symbols=[source_spelling.line(ids, source.values_of(row)) for row, ids in enumerate(source)],
        references=read_references(references, binarized, name) if references else binarized,
        references_from=str(references) if references else "the binarized target side, subwords undone",
        best=best_scores(pairs.ranked),
        pair_sources=best_pairs(pairs.ranked, table.source, source_spelling),
        pair_targets=best_pairs(pairs.ranked, table.target, target_spelling),
        signature=pairs.signature,
        fingerprint=pairs.attached.split_fingerprint,
        attached=pairs.attached.fingerprint,
    )
