"""Dynamic batches: requests of several clients are translated in one call.

While one batch is being translated, the sentences of the next collect. When the translator is free it waits for as many
clients as the last batch had, but at most `WAIT` seconds: they are about to ask for their next sentence. A single
client never waits. Clients take turns, sentence by sentence, so a long document does not hold up a short question.
Sentences of different groups (memories that they may see) never share a batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from fairseq_seg.errors import SegError
from fairseq_seg.serve.refusal import Refusal, overloaded

logger = logging.getLogger(__name__)

WAIT = 0.02

Group = TypeVar("Group", bound=Hashable)
Result = TypeVar("Result")


class Job(Generic[Group, Result]):
    """The texts of one request."""

    def __init__(self, texts: Sequence[str], group: Group, future: asyncio.Future[None]):
        self.texts, self.group, self.future = texts, group, future
        self.results: list[Result | Exception | None] = [None] * len(texts)
        self.waiting = deque(range(len(texts)))  # not in a batch yet
        self.left = len(texts)  # without a result

    def deliver(self, place: int, result: Result | Exception) -> None:
        """Take the result of one text."""
        self.results[place] = result
        self.left -= 1
        if not self.left and not self.future.done():
            self.future.set_result(None)


class Batcher(Generic[Group, Result]):
    """Collects texts into calls of one function, which runs in a thread of its own.

    Args:
        translate: called with texts and their group; returns one result per text.
        size: most texts per call.
        most: most texts that wait; more are refused.
        observe: called with the number of texts of each call.
    """

    def __init__(
        self,
        translate: Callable[[list[str], Group], Sequence[Result]],
        size: int,
        most: int,
        observe: Callable[[int], object] = lambda count: None,
    ):
        self._translate, self._size, self._most, self._observe = translate, size, most, observe
        self._jobs: deque[Job[Group, Result]] = deque()
        self._arrived = asyncio.Event()
        self._last_jobs = 1  # that shared the last batch
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._runner = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        """The number of texts that wait for a batch."""
        return sum(len(job.waiting) for job in self._jobs)

    async def submit(self, texts: Sequence[str], group: Group) -> list[Result]:
        """Return a result for each text; raise what the first that failed raised, which concerns no other request."""
        if not texts:
            return []
        if self._closing:
            raise overloaded("The server is stopping: try again in a moment.")
        if len(texts) > self._most:
            raise Refusal(413, f"{len(texts):,} texts are too many: send at most {self._most:,} per request.")
        if self.waiting + len(texts) > self._most:
            raise overloaded("Too many texts are waiting to be translated: try again in a moment.")
        job: Job[Group, Result] = Job(texts, group, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._arrived.set()
        try:
            await job.future
        finally:  # also if the request was cancelled: what has not begun is not done for nobody
            job.waiting.clear()
            if job in self._jobs:
                self._jobs.remove(job)
        results = []
        for result in job.results:
            if isinstance(result, Exception):
                raise result
            assert result is not None
            results.append(result)
        return results

    async def close(self) -> None:
        """Finish what has been accepted, and stop."""
        self._closing = True
        self._arrived.set()
        await self._runner
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._jobs:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            await self._gather()
            batch = self._take()
            if not batch:  # its request was cancelled
                continue
            self._observe(len(batch))
            group = batch[0][0].group
            texts = [job.texts[place] for job, place in batch]
            results = await loop.run_in_executor(self._thread, self._attempt, texts, group)
            for (job, place), result in zip(batch, results, strict=True):
                job.deliver(place, result)

    async def _gather(self) -> None:
        """Wait a moment for the clients that shared the last batch."""
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT
        while not self._closing and len(self._jobs) < self._last_jobs and self.waiting < self._size:
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _take(self) -> list[tuple[Job[Group, Result], int]]:
        """Take the next batch: of the first job's group, one text of each job in turn."""
        jobs = [job for job in self._jobs if job.waiting]
        jobs = [job for job in jobs if job.group == jobs[0].group]
        self._last_jobs = len(jobs)
        batch: list[tuple[Job[Group, Result], int]] = []
        turns = deque(jobs)
        while turns and len(batch) < self._size:
            job = turns.popleft()
            batch.append((job, job.waiting.popleft()))
            # To the end of all queues: other groups, and jobs that were left out, come first next time.
            self._jobs.remove(job)
            if job.waiting:
                self._jobs.append(job)
                turns.append(job)
        return batch

    def _attempt(self, texts: list[str], group: Group) -> list[Result | Exception]:
        """Translate texts; if that fails, halve them until only those that fail alone are left."""
        try:
            return list(self._translate(texts, group))
        except Exception as error:
            if len(texts) == 1:
                if not isinstance(error, SegError):
                    logger.exception("A sentence could not be translated.")
                return [error]
        half = len(texts) // 2
        return self._attempt(texts[:half], group) + self._attempt(texts[half:], group)
