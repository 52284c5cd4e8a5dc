"""Finds and opens the files that fairseq-preprocess made, and refuses what is missing or cut off."""

import os
from itertools import count

from fairseq.data import ConcatDataset, Dictionary, data_utils, indexed_dataset

from ..errors import SegError
from ..retrieval.sequences import Sequences


def shard_prefixes(data: str, split: str, source: str, target: str) -> list[str]:
    """`data/train.en-fr.`, `data/train1.en-fr.` ...: the files of a split and of its numbered shards.

    As in fairseq, a folder made for the opposite direction serves too.
    """
    prefixes = []
    for number in count():
        shard = f"{split}{number or ''}"
        options = (os.path.join(data, f"{shard}.{pair}.") for pair in (f"{source}-{target}", f"{target}-{source}"))
        found = next((p for p in options if os.path.exists(p + source + ".idx") or os.path.exists(p + source)), None)
        if found is None:
            break
        prefixes.append(found)
    if not prefixes:
        raise SegError(f"{data} holds no split {split} for {source}-{target}: make it with fairseq-preprocess.")
    return prefixes


def check_whole(path: str) -> None:
    """Refuse a binarized file that is cut off, before fairseq trips over it in the middle of the work."""
    if not os.path.exists(path + ".idx"):
        return  # raw text, or a target that a test set need not have
    try:
        Sequences.from_mmap(path)
    except OSError as error:
        raise SegError(f"{path}.bin cannot be read ({error.strerror}): run fairseq-preprocess again.") from None
    except ValueError as error:
        if "cut off" in str(error):
            raise SegError(f"{error}: run fairseq-preprocess again.") from None
        if indexed_dataset.infer_dataset_impl(path) is None:
            raise SegError(f"{path}.idx is no index of fairseq's: run fairseq-preprocess again.") from None


def check_sides(prefixes: list[str], source: str, target: str, target_needed: bool) -> None:
    """Refuse a split whose files are damaged, whose sides differ in length, or that lacks a target it needs."""
    for prefix in prefixes:
        check_whole(prefix + source)
        check_whole(prefix + target)
        sides = [data_utils.load_indexed_dataset(prefix + lang, Dictionary()) for lang in (source, target)]
        if sides[1] is None:
            if target_needed:
                raise SegError(f"{prefix}{target}.idx is missing: run fairseq-preprocess again.")
        elif len(sides[0]) != len(sides[1]):
            raise SegError(
                f"{prefix}* has {len(sides[0])} sentences in {source} and {len(sides[1])} in {target}: "
                "make both files equally long and run fairseq-preprocess again."
            )


def load_side(prefixes: list[str], lang: str, dictionary: Dictionary):
    """One side of a split with all its shards, as a fairseq dataset of token ids."""
    for prefix in prefixes:
        check_whole(prefix + lang)
    shards = [data_utils.load_indexed_dataset(prefix + lang, dictionary) for prefix in prefixes]
    return shards[0] if len(shards) == 1 else ConcatDataset(shards)
