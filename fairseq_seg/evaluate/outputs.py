"""A system's translations of a split, from a text file or from the output of fairseq-generate."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_seg.corpus.subwords import has_subwords, join_subwords
from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.split import Split
from fairseq_seg.files import read_text_file

TAGGED = re.compile(r"([SHD])-(\d+)\t(.*)")
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.]+) sentences/s")
# The log of fairseq-generate is in the output itself, or beside it with one of these extensions.
LOG_EXTENSIONS = (".err", ".log")


@dataclass
class Output:
    """The translations (N,) of one run of a system."""

    lines: list[str]
    pairs: float | None = None  # retrieved pairs per sentence, if logged
    speed: float | None = None  # sentences per second, if logged


@dataclass
class System:
    """A system and its runs, one per seed."""

    name: str
    runs: list[Output]


def read_output(path: Path, split: Split) -> Output:
    """Read translations; refuse them unless there is exactly one per sentence of the split."""
    lines = read_text_file(path)
    tagged = [match for line in lines if (match := TAGGED.fullmatch(line))]
    if any(match[1] in "HD" for match in tagged):
        return Output(_in_order(tagged, path, split), *_read_log(lines, path, split.name))
    if len(lines) != len(split):
        raise SegError(
            f"{path} has {len(lines):,} lines but {split.name} has {len(split):,} sentences: "
            "give one line per sentence, or the output of fairseq-generate."
        )
    return Output(_join(lines, split.subword))


def _join(lines: list[str], subword: str) -> list[str]:
    """Join subwords that fairseq-generate left in place, as it does without --remove-bpe."""
    return [join_subwords(line, subword) for line in lines] if has_subwords(lines, subword) else lines


def _in_order(tagged: list[re.Match[str]], path: Path, split: Split) -> list[str]:
    """Return the best hypothesis of every sentence; `D` is `H` after fairseq-generate's own detokenisation."""
    texts: dict[str, dict[int, str]] = {"S": {}, "H": {}, "D": {}}
    for match in tagged:
        # The first of an n-best list is the best.
        texts[match[1]].setdefault(int(match[2]), match[3])
    best = texts["D"] or texts["H"]
    missing = next((index for index in range(len(split)) if index not in best), None)
    if missing is not None:
        raise SegError(
            f"{path} translates {len(best):,} of the {len(split):,} sentences of {split.name}, and sentence {missing} "
            "is missing: let fairseq-generate finish."
        )
    if len(best) > len(split):
        raise SegError(
            f"{path} translates {len(best):,} sentences but {split.name} has {len(split):,}: give the output for this "
            "split."
        )
    for index, text in texts["S"].items():
        if _letters(text) != _letters(split.sources[index]):
            raise SegError(
                f"{path} does not translate the sentences of {split.name} (sentence {index} differs): "
                "give the output for this split and this data-bin."
            )
    return _join([best[index].partition("\t")[2] for index in range(len(split))], split.subword)


def _letters(text: str) -> str:
    """Drop spaces and subword marks, whether or not subwords were joined."""
    return re.sub(r"[\s▁]|@@(?=\s|$)", "", text)


def _read_log(lines: list[str], path: Path, split: str) -> tuple[float | None, float | None]:
    """Return pairs per sentence and sentences per second, as the task and fairseq-generate log them."""
    logged = [line for line in lines if not TAGGED.match(line)]
    for extension in LOG_EXTENSIONS:
        if (log := path.with_suffix(extension)) != path and log.is_file():
            logged += read_text_file(log)
    pairs = next((count for line in logged if (count := _pairs_per_sentence(line, split)) is not None), None)
    speed = next((float(match[1]) for line in logged if (match := SPEED.search(line))), None)
    return pairs, speed


def _pairs_per_sentence(line: str, split: str) -> float | None:
    """Read the line of JSON that the task logs for a split (`memory_line`)."""
    brace = line.find('{"seg_memory"')
    if brace < 0:
        return None
    try:
        facts = json.loads(line[brace:])["seg_memory"]
        return float(facts["pairs_per_sentence"]) if facts["split"] == split else None
    except (ValueError, KeyError, TypeError):  # the log ends within a line
        return None
