"""A generated corpus in fairseq's binary format, for benchmarks that need a data-bin and are given none."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SYMBOLS = 8000
VARIANTS = 8  # of a pattern in the training set, on average
CHANGED = 0.2  # share of a pattern's symbols that are others in a variant
SPECIAL, EOS = 4, 2  # of a fairseq dictionary


def generate(folder: Path, pairs: int, sentences: int, seed: int = 1) -> None:
    """Binarize a corpus in which a few symbols are frequent, as in a language, and every sentence has variants.

    ``pairs`` is the size of the training set, ``sentences`` that of the test set.
    """
    import torch
    from fairseq.data import indexed_dataset

    rng = np.random.default_rng(seed)
    reach = np.cumsum(1 / np.arange(3, SYMBOLS + 3))

    def draw(count: int) -> np.ndarray:
        return SPECIAL + np.searchsorted(reach, rng.random(count) * reach[-1], side="right")

    lengths = rng.integers(5, 60, max(pairs // VARIANTS, 1))
    patterns = np.split(draw(lengths.sum()), np.cumsum(lengths)[:-1])
    for split, count in (("train", pairs), ("test", sentences)):
        rows = [patterns[number] for number in rng.integers(len(patterns), size=count)]
        ends = np.cumsum([len(row) for row in rows])
        flat = np.concatenate(rows)
        changed = rng.random(len(flat)) < CHANGED
        for lang in ("en", "fr"):
            prefix = folder / f"{split}.en-fr.{lang}"
            builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", SYMBOLS + SPECIAL)
            for row in np.split(np.where(changed, draw(len(flat)), flat), ends[:-1]):
                builder.add_item(torch.from_numpy(np.append(row, EOS)))
            builder.finalize(f"{prefix}.idx")
    for lang in ("en", "fr"):
        (folder / f"dict.{lang}.txt").write_text("".join(f"s{number} 1\n" for number in range(SYMBOLS)))
