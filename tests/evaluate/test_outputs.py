"""Translations and references as they are read, and those that are refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.evaluate.outputs import Output, read_output
from fairseq_seg.evaluate.split import Split, load_split
from fairseq_seg.tasks.seg_translation import memory_line
from tests.evaluate.running import generated, write


def test_output_of_generate_equals_text(split: Split, guesses: list[str], tmp_path: Path):
    def logged(name: str, counts: list[int]) -> str:
        line = memory_line(name, 2, "topk", SimpleNamespace(counts=np.array(counts)))
        return f"2026-11-18 10:00:00 | INFO | fairseq_seg.tasks.seg_translation | {line}"

    log = [
        logged("valid", [1, 1]),
        logged("test", [2, 2, 2, 1])[:-9],  # a log that ends within a line
        logged("test", [2, 2, 2, 1]),
        "Translated 40 sentences (421 tokens) in 2.0s (20.25 sentences/s, 210.50 tokens/s)",
    ]
    path = write(tmp_path / "nmt.gen", generated(split.sources, guesses))
    assert read_output(path, split) == Output(guesses, None, None)
    write(tmp_path / "nmt.err", log)
    assert read_output(path, split) == Output(guesses, 1.75, 20.25)
    assert read_output(write(tmp_path / "nmt.txt", guesses), split).lines == guesses


@pytest.mark.parametrize(("subword", "cut"), [("sentencepiece", "▁{0}x"), ("@@", "{0}@@ x")])
def test_subwords_left_in_an_output_are_undone(split: Split, guesses: list[str], tmp_path: Path, subword, cut):
    lines = [" ".join(cut.format(word) for word in line.split()) for line in guesses]
    whole = [" ".join(f"{word}x" for word in line.split()) for line in guesses]
    other = Split(**(vars(split) | {"subword": subword}))
    assert read_output(write(tmp_path / "cut.txt", lines), other).lines == whole
    assert read_output(write(tmp_path / "cut.gen", generated(split.sources, lines)), other).lines == whole


def test_output_that_is_not_of_the_whole_split_is_refused(split: Split, guesses: list[str], tmp_path: Path):
    path = tmp_path / "bad.gen"
    lines = generated(split.sources, guesses)
    for bad, message in (
        (guesses[:-1], r"has 39 lines but test has 40 sentences: give one line per sentence"),
        (
            [line for line in lines if "-17\t" not in line],
            r"39 of the 40 sentences of test, and sentence 17 is missing",
        ),
        (
            [*lines, "H-40\t-1\tx", "D-40\t-1\tx"],
            r"translates 41 sentences but test has 40: give the output for this split",
        ),
        (generated(split.sources[::-1], guesses), r"does not translate the sentences of test \(sentence \d+ differs\)"),
        ([], r"has 0 lines but test has 40"),
    ):
        with pytest.raises(SegError, match=message):
            read_output(write(path, bad), split)
    with pytest.raises(SegError, match=r"none.gen cannot be read: No such file"):
        read_output(tmp_path / "none.gen", split)


def test_wrong_references_are_refused(attached: Path, split: Split, tmp_path: Path):
    for lines, message in (
        (split.references[1:], "has 39 lines but test has 40 sentences: give the text that the split was made from"),
        (split.references[::-1], "has little in common with the target side of test"),
        (split.sources, "has little in common with the target side of test"),
    ):
        with pytest.raises(SegError, match=message):
            load_split(attached, "test", references=write(tmp_path / "wrong.fr", lines))
