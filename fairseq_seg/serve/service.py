"""What all protocols do: find out who asks and for which languages, translate, search, and add pairs."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from fairseq_seg.errors import SegError
from fairseq_seg.serve.detect import Detector
from fairseq_seg.serve.direction import Direction
from fairseq_seg.serve.files import Results
from fairseq_seg.serve.keys import Client, Everybody, KeyFile
from fairseq_seg.serve.languages import base_code, find_code
from fairseq_seg.serve.memories import SharedMemory
from fairseq_seg.serve.metrics import Metrics
from fairseq_seg.serve.pieces import cut_html, cut_text, put_together
from fairseq_seg.serve.refusal import Refusal, overloaded
from fairseq_seg.store.pair import TranslationUnit
from fairseq_seg.store.store import TranslationMemory
from fairseq_seg.translator import Translation

MOST_CHARACTERS = 100_000  # of one request
AUTO = "auto"

Result = TypeVar("Result")


class Service:
    """The open models, and who may use which memory.

    Args:
        queue: most texts that wait for each model.
        timeout: seconds after which a request is given up.
    """

    def __init__(
        self,
        directions: Sequence[Direction],
        detector: Detector,
        keys: Everybody | KeyFile,
        metrics: Metrics,
        queue: int,
        timeout: float,
    ):
        self.directions = {(direction.source, direction.target): direction for direction in directions}
        self.results = Results()
        self.detector, self.keys, self.metrics, self.queue, self.timeout = detector, keys, metrics, queue, timeout

    def start(self) -> None:
        """Begin to take requests, from within the event loop."""
        for direction in self.directions.values():
            direction.start(self.queue, self.metrics)

    async def close(self) -> None:
        """Finish what has been accepted, and close everything."""
        for direction in self.directions.values():
            await direction.close()

    # Who

    def client(self, request: Request, key: str | None = None) -> Client:
        """Return who sent a request: by a key in its parameters, or in its headers."""
        client = self.keys.client(key or header_key(request))
        request.state.client = client.name
        return client

    # Languages

    @property
    def sources(self) -> list[str]:
        """The languages that something translates from."""
        return list(dict.fromkeys(source for source, _ in self.directions))

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language is translated to."""
        return [target for from_, target in self.directions if from_ == source]

    @property
    def languages(self) -> list[str]:
        """All languages, those to translate from first."""
        return list(dict.fromkeys([*self.sources, *(target for _, target in self.directions)]))

    def direction(self, source: str | None, target: str | None) -> Direction:
        """Return the model for a pair of languages, by any of their codes; None if there is no choice."""
        found = [
            direction
            for direction in self.directions.values()
            if (source is None or fits(source, direction.source, self.sources))
            and (target is None or fits(target, direction.target, self.languages))
        ]
        if not found:
            known = ", ".join(direction.name for direction in self.directions.values())
            if source is not None and find_code(source, self.languages) is None:
                raise Refusal(400, f"{source} is not supported")
            if target is not None and find_code(target, self.languages) is None:
                raise Refusal(400, f"{target} is not supported")
            raise Refusal(400, f"{source} ({target}) is not supported: this server translates {known}")
        if len(found) > 1:
            raise Refusal(400, "This server translates in several directions: name source and target.")
        return found[0]

    # Work

    async def translate(
        self, request: Request, direction: Direction, texts: Sequence[str], client: Client, provenance: bool = False
    ) -> list[Translation]:
        """Translate texts, each as a whole."""
        characters = sum(map(len, texts))
        if characters > MOST_CHARACTERS:
            raise Refusal(413, f"Invalid request: request ({characters}) exceeds text limit ({MOST_CHARACTERS})")
        request.state.texts = len(texts)
        return await self._in_time(request, direction.translate(texts, client, provenance))

    async def translate_texts(
        self, request: Request, direction: Direction, texts: Sequence[str], client: Client, markup: bool = False
    ) -> list[str]:
        """Translate texts of several lines each, or with markup."""
        pieces = [(cut_html if markup else cut_text)(text) for text in texts]
        wanted = [piece.text for piece in itertools.chain(*pieces) if piece.translated]
        found = iter(await self.translate(request, direction, wanted, client))
        translations = (translation.text for translation in found)
        return [put_together(cut, translations, markup) for cut in pieces]

    async def change(
        self, request: Request, memory: SharedMemory, function: Callable[[TranslationMemory], Result]
    ) -> Result:
        """Change a memory; the result is given when the change is safely stored."""
        request.state.memory = memory.name
        try:
            result = await memory.call(function)
        except SegError as error:
            raise Refusal(400, str(error)) from None
        self.metrics.written.labels(memory.name).inc()
        return result

    async def add(self, request: Request, direction: Direction, client: Client, source: str, target: str) -> int:
        """Add a pair to the client's memory, and return its id."""
        memory = direction.writable(client)
        return await self.change(request, memory, lambda store: store.add(source, target, origin=client.name))

    async def add_many(
        self, request: Request, direction: Direction, client: Client, pairs: Sequence[tuple[str, str]]
    ) -> None:
        """Add pairs to the client's memory; those that cannot be kept are left out."""
        units = [TranslationUnit(source, target, client.name) for source, target in pairs]
        await self.change(request, direction.writable(client), lambda store: store.add_many(units))

    async def _in_time(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for work, but not for too long, and not if its client has gone."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnection(request))
        try:
            await asyncio.wait({task, gone}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if gone.done():
                raise Refusal(400, "The client has gone.")
            raise overloaded(f"The translation took more than {self.timeout:g} seconds: send less, or try again.")
        finally:
            gone.cancel()
            task.cancel()


async def disconnection(request: Request) -> None:
    """Wait until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def fits(code: str, own: str, known: list[str]) -> bool:
    """Tell whether a code that a client uses stands for a model's language."""
    return find_code(code, known) == own or code.replace("_", "-").lower() == own.replace("_", "-").lower()


def is_probe(texts: Sequence[str], source: str, target: str) -> bool:
    """Tell whether this is Weblate's check of its settings, which translates "test" from English to German.

    It saves no settings of a server that refuses this, whichever languages the server translates.
    """
    return list(texts) == ["test"] and base_code(source) == "en" and base_code(target) == "de"


def header_key(request: Request) -> str:
    """Return the key in the headers: Authorization (Bearer, or Basic with the key as name or password) or X-API-Key."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            raise Refusal(400, "The header Authorization is malformed.") from None
        return password or name
    return request.headers.get("x-api-key", "")
