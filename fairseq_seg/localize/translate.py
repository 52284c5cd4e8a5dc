"""Translate the distinct sources of files in batches of like length, with their codes, paragraphs and exact matches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.corpus.faults import faults
from fairseq_seg.corpus.notation import Notation
from fairseq_seg.corpus.tokens import find_tokens
from fairseq_seg.documents.codes import code_fault, place_codes, split_tokens
from fairseq_seg.documents.segment import Pair
from fairseq_seg.localize.journal import Journal, Result, Task
from fairseq_seg.localize.paragraphs import join_paragraphs, split_paragraphs

if TYPE_CHECKING:
    from fairseq_seg.translator import Translation, Translator

CHUNK = 256


def translate_journal(
    journal: Journal, translator: Translator, notations: tuple[Notation, Notation], provenance: bool = False
) -> None:
    """Translate all that waits in the journal, the shortest first; what has been translated is kept."""
    from tqdm import tqdm

    total, done = journal.count(False) + journal.count(True), journal.count(True)
    with tqdm(total=total, initial=done, desc="translating", unit=" segments", disable=total == done) as progress:
        while tasks := journal.waiting(CHUNK):
            journal.save(tasks, translate_tasks(tasks, translator, notations, provenance))
            progress.update(len(tasks))


def translate_tasks(
    tasks: Sequence[Task], translator: Translator, notations: tuple[Notation, Notation], provenance: bool
) -> list[Result]:
    """Translate sources: a source of several paragraphs as a whole if the memory has it, else one by one."""
    keeps = any(task.codes for task in tasks) and translator.protects_tags
    plain = [without_codes(task.source) if task.codes and not keeps else task.source for task in tasks]
    parts = [split_paragraphs(text) for text in plain]
    whole = whole_matches([text for text, cut in zip(plain, parts, strict=True) if len(cut) > 1], translator)
    texts: list[str] = []
    previous: list[tuple[str, str] | None] = []
    for task, text, cut in zip(tasks, plain, parts, strict=True):
        if text in whole or not speaks(text):
            continue
        texts += [paragraph.text for paragraph in cut]
        previous += previous_parts(task.previous, len(cut))
    stream = iter(translator.translate(texts, provenance, previous))
    results = []
    for task, text, cut in zip(tasks, plain, parts, strict=True):
        if text in whole:
            result = as_result(task, [whole[text]], whole[text].text)
        elif not speaks(text):
            result = Result(task.source, flags=("copied",))
        else:
            found = list(itertools.islice(stream, len(cut)))
            result = as_result(task, found, join_paragraphs(cut, [translation.text for translation in found]))
        results.append(examined(task, result, notations))
    return results


def speaks(text: str) -> bool:
    """Tell whether a text has words; numbers, placeholders and tags alone stay as they are."""
    for token in reversed(find_tokens(text)):
        text = text[: token.start] + text[token.end :]
    return any(map(str.isalpha, text))


def whole_matches(texts: Sequence[str], translator: Translator) -> dict[str, Translation]:
    """Find texts of several lines that the memory has as they are, where its exact matches are to be copied."""
    found = translator.exact_matches(texts) if texts else []
    return {text: match for text, match in zip(texts, found, strict=True) if match is not None}


def previous_parts(previous: tuple[str, str] | None, count: int) -> list[tuple[str, str] | None]:
    """Return the previous version of each paragraph, if both its sides have as many."""
    if previous is None:
        return [None] * count
    if count == 1:
        return [previous]
    sides = [[paragraph.text for paragraph in split_paragraphs(side)] for side in previous]
    if len(sides[0]) == len(sides[1]) == count:
        return [(source, target) for source, target in zip(*sides, strict=True)]
    return [None] * count


def as_result(task: Task, found: Sequence[Translation], text: str) -> Result:
    """Return the result of a task from the translations of its paragraphs."""
    flags = list(dict.fromkeys(flag for translation in found for flag in translation.flags if flag != "empty"))
    if "cut" in flags or not text.strip():
        return Result(None, flags=("too long" if "cut" in flags else "empty",))
    exact = all("exact" in translation.flags for translation in found)
    flags = [flag for flag in flags if flag != "exact"]
    if task.codes and code_fault(text, task.codes):  # the model was not given them, or lost one
        text = place_codes(text, task.source, task.codes)
        inner = split_tokens(task.source, task.codes)[2:-2:2]
        if any(part.strip() for part in inner[:-1]) or len(inner) > 1:
            flags.append("codes")
    pair = explanation = None
    if len(found) == 1 and found[0].pairs:
        best = max(found[0].pairs, key=lambda pair: pair.score)
        same = best.source.strip() == found[0].source.strip()
        pair = Pair(best.source, best.target, best.origin, best.score if same else min(best.score, 0.99))
    if len(found) == 1 and found[0].explanation is not None:
        explanation = asdict(found[0].explanation) | {"symbols": []}
    return Result(text, exact and "codes" not in flags, pair, tuple(flags), explanation)


def examined(task: Task, result: Result, notations: tuple[Notation, Notation]) -> Result:
    """Flag what can be seen to be wrong with a translation; then it is not final."""
    if result.text is None:
        return result
    broken = code_fault(result.text, task.codes) if task.codes else None
    if broken:
        return Result(None, flags=(f"codes: {broken}",))
    found = faults(task.source, result.text, *notations)
    weak = "copied" in result.flags or result.final
    result.flags += tuple(f"{fault.kind} {fault.detail}".strip() for fault in found if not (weak and fault.is_weak))
    result.final = result.final and not any(not fault.is_weak for fault in found)
    return result
