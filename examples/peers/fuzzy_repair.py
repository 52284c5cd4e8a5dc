"""Neural fuzzy repair (Bulté and Tezcan, ACL 2019): write the augmented corpus from an attached data-bin.

    python examples/peers/fuzzy_repair.py data-bin augmented -s en -t fr --threshold 0.5

A sentence whose best pair reaches the threshold gets the pair's target behind a separator: "X @@@ Y'". The training
set holds its own pairs and, after them, the augmented ones. In the other splits a sentence is augmented if it can be.
The source dictionary gets the separator and the symbols of the target. Any translator can be trained on it, here
with --memory-k 0.

As in the paper: one pair per sentence, the separator, the threshold. Not as in the paper: the fuzzy score is Eq. 3 on
subwords, of the candidates that seg-attach found, and each language has its own subwords.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairseq_seg.corpus.databin import DataBin
from fairseq_seg.corpus.dictionary import EOS, SPECIAL
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.errors import SegError, command
from fairseq_seg.files import make_whole
from fairseq_seg.source.pair_source import Attached

SEPARATOR = "@@@"


def source_dictionary(source: list[str], target: list[str]) -> list[str]:
    """Return the symbols of augmented sources: source, separator, and what the target has besides."""
    return list(dict.fromkeys([*source, SEPARATOR, *target]))


def augmented(sentence: np.ndarray, retrieved: np.ndarray, separator: int, renumbered: np.ndarray) -> np.ndarray:
    """Return X, the separator, Y' and eos; `renumbered` maps target ids to ids of the source dictionary."""
    return np.concatenate([sentence, [separator], renumbered[retrieved], [EOS]])


def augment(data: DataBin, split: str, threshold: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the sources and targets of a split, as ids with eos, the training set's own pairs first."""
    sides = data.sides(split) if split == "test" else data.pair(split)
    source, target = sides if sides[1] is not None else (sides[0], sides[0])
    attached = Attached(data, split, Selection(1, min_score=threshold))
    symbols = source_dictionary(*data.dictionaries)
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    renumbered = np.array([numbers[symbol] for symbol in data.dictionaries[1]])
    plain = [(np.append(x, EOS), np.append(y, EOS)) for x, y in zip(source, target, strict=True)]
    repaired = [
        (augmented(source[row], attached.home.pair("train")[1][ids[0]], numbers[SEPARATOR], renumbered), plain[row][1])
        if len(ids)
        else None
        for row, (ids, _, _) in enumerate(attached.ranked)
    ]
    if split == "train":
        yield from plain
        yield from (pair for pair in repaired if pair is not None)
    else:
        yield from (new or old for new, old in zip(repaired, plain, strict=True))


def write(data: DataBin, output: Path, threshold: float) -> None:
    """Write the augmented data-bin, whole or not at all."""
    import torch
    from fairseq.data import indexed_dataset
    from tqdm import tqdm

    symbols = source_dictionary(*data.dictionaries)
    separator = symbols.index(SEPARATOR)
    if SEPARATOR in data.dictionaries[0]:
        raise SegError(f"{data.folder} has the symbol {SEPARATOR} already: it cannot separate a sentence from a pair.")
    with make_whole(output) as folder:
        lines = "".join(f"{symbol} 1\n" for symbol in symbols[len(SPECIAL) :])
        (folder / f"dict.{data.source_lang}.txt").write_text(lines, encoding="utf-8")
        shutil.copy(data.dictionary_path(data.target_lang), folder)
        for split in ("train", "valid", "test"):
            counts, names = [0, 0], (data.source_lang, data.target_lang)
            prefixes = [str(folder / f"{split}.{data.pair_name}.{language}") for language in names]
            builders = [indexed_dataset.make_builder(f"{prefix}.bin", "mmap", len(symbols)) for prefix in prefixes]
            for pair in tqdm(augment(data, split, threshold), desc=split, unit=" pairs"):
                counts[0] += 1
                counts[1] += separator in pair[0]
                for builder, side in zip(builders, pair, strict=True):
                    builder.add_item(torch.from_numpy(side.astype(np.int64)))
            for builder, prefix in zip(builders, prefixes, strict=True):
                builder.finalize(f"{prefix}.idx")
            print(f"{split}: {counts[0]:,} sentences, {counts[1]:,} of them with a pair of {threshold} or more")


@command("fuzzy_repair.py")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA-BIN", help="a data-bin that seg-attach has run on")
    parser.add_argument("output", type=Path, metavar="FOLDER", help="the data-bin to write")
    parser.add_argument("-s", "--source", metavar="LANG", help="source language (default: the first of the data-bin)")
    parser.add_argument("-t", "--target", metavar="LANG", help="target language (default: the second of the data-bin)")
    parser.add_argument("--threshold", type=float, default=0.5, help="least fuzzy score of a pair (default: 0.5)")
    args = parser.parse_args()
    write(DataBin(args.data, args.source, args.target), args.output, args.threshold)


if __name__ == "__main__":
    main()
