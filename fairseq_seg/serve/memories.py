"""The memories that clients read and write while the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.errors import SegError
from fairseq_seg.source.memories import parse_memories
from fairseq_seg.store.store import TranslationMemory

Result = TypeVar("Result")


class SharedMemory:
    """A memory of one's own, open for reading and writing in a thread of its own: a writer may have to wait."""

    def __init__(self, path: str):
        self.path, self.name = path, Path(path).name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        try:
            self._memory: TranslationMemory = self._thread.submit(TranslationMemory, path).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def call(self, function: Callable[[TranslationMemory], Result]) -> Result:
        """Run a function with the open memory. Once it has begun it ends, even if nobody waits any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, self._memory)

    def close(self) -> None:
        """Finish what has begun, and close the memory."""
        self._thread.submit(self._memory.close).result()
        self._thread.shutdown()


def divide_memories(names: str, folders: Sequence[ModelFolder]) -> list[str]:
    """Return, for each model, those of the named memories that are for its languages; create one that is missing."""
    shares: list[list[str]] = [[] for _ in folders]
    seen: dict[str, str] = {}
    for part, (path, _) in zip(names.split(","), parse_memories(names), strict=True):
        if path == TRAIN:
            for share in shares:
                share.append(part.strip())
            continue
        name = Path(path).name
        if name in (TRAIN, *seen):
            raise SegError(f"--memory {names}: two memories are called {name}: clients could not tell them apart.")
        seen[name] = path
        if not Path(path).exists():
            create_memory(path, folders)
        with TranslationMemory(path, read_only=True) as memory:
            langs = memory.source_lang, memory.target_lang
        fitting = [share for share, folder in zip(shares, folders, strict=True) if langs_of(folder) == langs]
        if not fitting:
            raise SegError(f"{path} is a memory for {'-'.join(langs)}, which no model here translates: leave it out.")
        fitting[0].append(part.strip())
    return [",".join(share) for share in shares]


def create_memory(path: str, folders: Sequence[ModelFolder]) -> None:
    """Make an empty memory for the only model."""
    if len(folders) > 1:
        raise SegError(f"{path} does not exist, and could be for several models: make it with seg-memory create.")
    [folder] = folders
    subwords = folder.subword_paths or (None, None)
    TranslationMemory.create(path, *langs_of(folder), folder.path, *subwords).close()


def langs_of(folder: ModelFolder) -> tuple[str, str]:
    """Return the languages that a model translates from and to."""
    return folder.source_lang, folder.target_lang
