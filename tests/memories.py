"""Translation memories of the generated corpus for the tests; no fairseq is needed to make one."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

from fairseq_seg.store.pair import StoredPair
from fairseq_seg.store.store import TranslationMemory
from tests.corpus import SOURCE, TARGET, make_corpus, write_text


def create_memory(folder: Path) -> TranslationMemory:
    """Make an empty memory of whole words, `memory` in `folder`, and beside it the dictionaries it was made with."""
    write_text(make_corpus(groups=6, held_out=2), folder / "words")
    return TranslationMemory.create(folder / "memory", SOURCE, TARGET, folder / "words")


def pairs(memory: TranslationMemory) -> list[tuple[str, str]]:
    """List the texts of a memory by id."""
    return [(entry.source, entry.target) for entry in memory.pairs()]


def comparable(entry: StoredPair) -> tuple:
    """Return an entry in a form that == can compare, symbols included."""
    return entry._replace(source_symbols=entry.source_symbols.tolist(), target_symbols=entry.target_symbols.tolist())


def unprivileged(function: Callable[[], str], meanwhile: Callable[[], object] = lambda: None) -> str:
    """Run a function in a process without root's right to write anywhere, and return what it returns."""

    def run(results) -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        results.put(function())

    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=run, args=(results,))
    process.start()
    meanwhile()
    process.join(60)
    assert process.exitcode == 0
    return results.get()
