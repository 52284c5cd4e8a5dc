"""A system's translations of a split: from a text file, or from what fairseq-generate printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_seg.corpus.subwords import has_subwords, join_subwords
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import Split
from fairseq_seg.files import read_text_file

TAGGED = re.compile(r"([SHD])-(\d+)\t(.*)")
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.]+) sentences/s")
PAIRS = re.compile(r"memory: K=.* \| (\S+): ([\d.]+) pairs per sentence")
# The log of fairseq-generate is looked for in the output itself and beside it, under these endings.
LOG_ENDINGS = (".err", ".log")


@dataclass
class Output:
    """The translations (N,) of one run of a system."""

    lines: list[str]
    pairs: float | None = None  # retrieved pairs a sentence, where a log tells
    speed: float | None = None  # sentences per second, where a log tells


@dataclass
class System:
    """A system and its runs: one, or several seeds of it."""

    name: str
    runs: list[Output]


def read_output(path: Path, split: Split) -> Output:
    """Reads translations, refused unless there is exactly one of every sentence of the split."""
    lines = read_text_file(path)
    tagged = [match for line in lines if (match := TAGGED.fullmatch(line))]
    if any(match[1] in "HD" for match in tagged):
        return Output(_in_order(tagged, path, split), *_read_log(lines, path, split.name))
    if len(lines) != len(split):
        raise SegError(
            f"{path} has {len(lines):,} lines but {split.name} has {len(split):,} sentences; "
            "give one line a sentence, or the output of fairseq-generate."
        )
    return Output(_join(lines, split.subword))


def _join(lines: list[str], subword: str) -> list[str]:
    """Undoes subwords that fairseq-generate left in place, as it does without --remove-bpe."""
    return [join_subwords(line, subword) for line in lines] if has_subwords(lines, subword) else lines


def _in_order(tagged: list[re.Match[str]], path: Path, split: Split) -> list[str]:
    """The best hypothesis of every sentence; `D` is `H` after fairseq-generate's own detokenisation."""
    texts: dict[str, dict[int, str]] = {"S": {}, "H": {}, "D": {}}
    for match in tagged:
        # Of an n-best list the first is the best.
        texts[match[1]].setdefault(int(match[2]), match[3])
    best = texts["D"] or texts["H"]
    missing = next((index for index in range(len(split)) if index not in best), None)
    if missing is not None:
        raise SegError(
            f"{path} translates {len(best):,} of the {len(split):,} sentences of {split.name}, and sentence {missing} "
            "is not among them; run fairseq-generate to its end."
        )
    if len(best) > len(split):
        raise SegError(
            f"{path} translates {len(best):,} sentences but {split.name} has {len(split):,}; it is of another split."
        )
    for index, text in texts["S"].items():
        if _letters(text) != _letters(split.sources[index]):
            raise SegError(
                f"{path} translates other sentences than {split.name} has (sentence {index} differs); "
                "give the output for this split and this data-bin."
            )
    return _join([best[index].partition("\t")[2] for index in range(len(split))], split.subword)


def _letters(text: str) -> str:
    """A sentence without spaces and the marks of subwords, whether these were undone or not."""
    return re.sub(r"[\s▁]|@@(?=\s|$)", "", text)


def _read_log(lines: list[str], path: Path, split: str) -> tuple[float | None, float | None]:
    """Pairs a sentence and sentences per second."""
    beside = [log for ending in LOG_ENDINGS if (log := path.with_suffix(ending)) != path and log.is_file()]
    logged = [line for line in lines if not TAGGED.match(line)] + [
        line for log in beside for line in read_text_file(log)
    ]
    log = "\n".join(logged)
    speed = SPEED.search(log)
    pairs = next((float(match[2]) for match in PAIRS.finditer(log) if match[1] == split), None)
    if pairs is None and "'memory_k': 0," in log:
        pairs = 0.0
    return pairs, float(speed[1]) if speed else None
