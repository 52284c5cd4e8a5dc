"""A direction of translation: its model, its memories, and the queue before it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_seg.corpus.codes import without_codes
from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.corpus.selection import Selection
from fairseq_seg.corpus.subwords import SubwordModel, SymbolEncoder
from fairseq_seg.corpus.terms import Terms
from fairseq_seg.serve.batching import Batcher
from fairseq_seg.serve.keys import Client
from fairseq_seg.serve.memories import SharedMemory
from fairseq_seg.serve.refusal import Refusal
from fairseq_seg.source.memories import parse_memories
from fairseq_seg.source.pair_source import Wanted, open_live

if TYPE_CHECKING:
    from fairseq_seg.serve.metrics import Metrics
    from fairseq_seg.source.live import Live
    from fairseq_seg.translator import Translation, Translator


class Group(NamedTuple):
    """What the sentences of a batch share: their memories, None for all, and whether provenance is wanted."""

    memories: frozenset[str] | None
    provenance: bool


class Found(NamedTuple):
    """A pair that a search found."""

    memory: str
    id: int
    origin: str
    score: float
    source: str
    target: str


class Direction:
    """One model with its memories, open for requests."""

    def __init__(self, folder: ModelFolder, memories: str, options: dict[str, Any], arguments: Sequence[str]):
        """Open a model and its memories, in the form of --memory; `options` and `arguments` are as in `Translator`."""
        from fairseq_seg.translator import BATCH_SIZE, Translator

        self.source, self.target = folder.source_lang, folder.target_lang
        self.paths = [path for path, _ in parse_memories(memories)] if memories else []
        options = options | ({"memory": memories} if memories else {"memory_k": 0})
        self.translator: Translator = Translator(folder.path, arguments=arguments, **options)
        terms = options.get("terms") or folder.options.get("terms")
        self.terms = Terms.read(str(terms)) if terms else None
        self.memories = {memory.name: memory for memory in map(SharedMemory, own(self.paths))}
        self._lookup = Lookup(folder, memories)
        # Opens the memories, too, so that the first request need not wait for them.
        size, _ = self.translator.call(lambda session: (session.cfg.dataset.batch_size, session.live))
        self.size = size or BATCH_SIZE
        self._protects_tags = self.translator.protects_tags
        self._batcher: Batcher[Group, Translation] | None = None

    @property
    def name(self) -> str:
        """The languages."""
        return f"{self.source}-{self.target}"

    def start(self, most: int, metrics: Metrics) -> None:
        """Begin to take texts, from within the event loop; `most` may wait."""
        sizes, queue = metrics.batches.labels(self.name), metrics.queue.labels(self.name)
        self._batcher = Batcher(self._translate, self.size, most, sizes.observe)
        queue.set_function(lambda: 0 if self._batcher is None else self._batcher.waiting)

    def bare(self, text: str) -> str:
        """Return a text without its inline codes, unless the model knows what to do with them."""
        return text if self._protects_tags else without_codes(text)

    def scope(self, client: Client) -> frozenset[str] | None:
        """Return the paths of the memories that a client may read; None for all."""
        allowed = frozenset(path for path in self.paths if name_of(path) in client.read)
        return None if len(allowed) == len(self.paths) else allowed

    def _translate(self, texts: list[str], group: Group) -> list[Translation]:
        return self.translator.translate(texts, group.provenance, memories=group.memories)

    async def translate(self, texts: Sequence[str], client: Client, provenance: bool = False) -> list[Translation]:
        """Translate texts together with those of other requests."""
        assert self._batcher is not None, "start() comes first"
        return await self._batcher.submit(texts, Group(self.scope(client), provenance))

    async def search(self, text: str, client: Client, count: int) -> list[Found]:
        """Return the pairs most similar to a text, the best first."""
        return await self._lookup.search(text, self.scope(client), count)

    def readable(self, client: Client) -> list[SharedMemory]:
        """Return the memories, other than the training set, that a client may read, in the order of --memory."""
        return [memory for memory in self.memories.values() if memory.name in client.read]

    def writable(self, client: Client) -> SharedMemory:
        """Return the memory that a client's pairs go to: the first that it may write."""
        for memory in self.memories.values():
            if memory.name in client.write:
                return memory
        if self.memories:
            raise Refusal(403, f"You may not add pairs to a memory for {self.name}.")
        raise Refusal(403, f"There is no memory for {self.name} to add pairs to: start the server with --memory.")

    async def close(self) -> None:
        """Finish what has been accepted, and close everything."""
        if self._batcher is not None:
            await self._batcher.close()
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Close everything."""
        for memory in self.memories.values():
            memory.close()
        self._lookup.close()
        self.translator.close()


class Lookup:
    """Searches the memories in a thread of its own, so that nobody has to wait for a batch."""

    def __init__(self, folder: ModelFolder, memories: str):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._live: Live | None = None
        subwords = folder.subword_paths
        self._encoder = SymbolEncoder(folder.data.dictionaries[0], SubwordModel(subwords[0]) if subwords else None)
        if memories:
            self._thread.submit(self._open, folder, memories).result()

    def _open(self, folder: ModelFolder, memories: str) -> None:
        from fairseq_seg.source.live import Live

        live = open_live(folder.data, Wanted(Selection(100), memories))
        assert isinstance(live, Live)
        self._live = live

    async def search(self, text: str, scope: Collection[str] | None, count: int) -> list[Found]:
        """Return the pairs most similar to a text."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._search, text, scope, count)

    def _search(self, text: str, scope: Collection[str] | None, count: int) -> list[Found]:
        symbols = self._encoder.encode(text)
        if self._live is None or not len(symbols):
            return []
        live = self._live if scope is None else self._live.within(scope)
        ranked = live.retrieve([symbols])
        table = ranked.table
        assert table is not None
        [(ids, scores, _)] = ranked
        found = []
        for place, score in zip(ids.tolist(), scores.tolist(), strict=True):
            id, origin, (source, target) = table.id(place), table.origin(place), table.text(place)
            # Symbols can be the same where texts are not; only the same text is a match of 100 %.
            score = score if score < 1 or source.strip() == text.strip() else 0.99
            found.append(Found(memory_of(origin, id), id, origin, score, source, target))
        return sorted(found, key=lambda pair: -pair.score)[:count]

    def close(self) -> None:
        """Close the memories, and leave the Java machine."""
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        import sys

        if self._live is not None:
            self._live.close()
        if "jnius" in sys.modules:
            sys.modules["jnius"].detach()


def own(paths: Sequence[str]) -> list[str]:
    """Return the paths of memories other than the training set."""
    return [path for path in paths if path != TRAIN]


def name_of(path: str) -> str:
    """Return what clients call a memory."""
    return path.rstrip("/").rpartition("/")[2]


def memory_of(origin: str, id: int) -> str:
    """Return the memory in the origin of a pair, which is MEMORY:ID and perhaps more."""
    return origin[: origin.index(f":{id}")]
