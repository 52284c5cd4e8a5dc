"""Requests share batches, take turns, and fail alone."""

import asyncio
import threading
import time

import pytest

from fairseq_seg.errors import SegError
from fairseq_seg.serve.batching import Batcher
from fairseq_seg.serve.refusal import Refusal


class Upper:
    """Puts texts into capitals, slowly; remembers its calls, and fails at "bad"."""

    def __init__(self, seconds: float = 0.02):
        self.calls: list[tuple[list[str], str]] = []
        self.seconds, self.go = seconds, threading.Event()
        self.go.set()

    def __call__(self, texts: list[str], group: str) -> list[str]:
        self.go.wait()
        time.sleep(self.seconds)
        self.calls.append((texts, group))
        if "bad" in texts:
            raise SegError("bad is bad.")
        return [text.upper() for text in texts]


def run(scenario, translate: Upper, size: int = 8, most: int = 100):
    async def main():
        batcher = Batcher(translate, size, most)
        try:
            return await scenario(batcher)
        finally:
            await batcher.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_each_request_gets_its_own_results_in_order():
    async def scenario(batcher):
        requests = [[f"{number} {place}" for place in range(number % 4)] for number in range(40)]
        answers = await asyncio.gather(*(batcher.submit(texts, "g") for texts in requests))
        assert answers == [[text.upper() for text in texts] for texts in requests]

    translate = Upper(0.001)
    run(scenario, translate)
    assert max(len(texts) for texts, _ in translate.calls) == 8


def test_clients_that_ask_again_and_again_share_every_batch():
    async def scenario(batcher):
        async def client(name: int):
            for turn in range(5):
                await batcher.submit([f"{name} {turn}"], "g")

        await asyncio.gather(*map(client, range(8)))

    translate = Upper()
    run(scenario, translate, size=16)
    assert len(translate.calls) <= 7  # 5 of 8 each, but for the beginning


def test_groups_never_share_a_batch():
    async def scenario(batcher):
        await asyncio.gather(*(batcher.submit([f"{group}{number}"], group) for number in range(9) for group in "abc"))

    translate = Upper(0.001)
    run(scenario, translate)
    assert all(text[0] == group for texts, group in translate.calls for text in texts)


def test_a_long_request_does_not_hold_up_a_short_one():
    async def scenario(batcher):
        done = []

        async def ask(name: str, texts: list[str]):
            await batcher.submit(texts, "g")
            done.append(name)

        long = asyncio.create_task(ask("long", ["x"] * 80))
        await asyncio.sleep(0.03)
        await ask("short", ["y"])
        assert done == ["short"]
        await long

    run(scenario, Upper())


@pytest.mark.parametrize("place", [0, 3, 7])
def test_what_fails_fails_alone(place: int):
    async def scenario(batcher):
        texts = ["bad" if number == place else f"good{number}" for number in range(8)]
        return await asyncio.gather(*(batcher.submit([text], "g") for text in texts), return_exceptions=True)

    answers = run(scenario, Upper(0.001))
    assert isinstance(answers[place], SegError)
    assert [answer for number, answer in enumerate(answers) if number != place] == [
        [f"GOOD{number}"] for number in range(8) if number != place
    ]


def test_the_queue_is_bounded_and_room_comes_back():
    async def scenario(batcher):
        translate.go.clear()
        first = asyncio.create_task(batcher.submit(["a"] * 8, "g"))  # in the translator's hands
        await asyncio.sleep(0.05)
        second = asyncio.create_task(batcher.submit(["b"] * 10, "g"))
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as refused:
            await batcher.submit(["c"], "g")
        assert (refused.value.status, refused.value.retry_after) == (503, 2)
        with pytest.raises(Refusal, match="11 texts are too many: send at most 10"):
            await batcher.submit(["c"] * 11, "g")
        translate.go.set()
        await asyncio.gather(first, second)
        assert await batcher.submit(["c"], "g") == ["C"]

    translate = Upper(0)
    run(scenario, translate, most=10)


def test_what_nobody_waits_for_is_not_translated():
    async def scenario(batcher):
        translate.go.clear()
        first = asyncio.create_task(batcher.submit(["a"], "g"))
        await asyncio.sleep(0.05)
        gone = asyncio.create_task(batcher.submit(["gone"] * 5, "g"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        translate.go.set()
        await first
        assert await batcher.submit(["b"], "g") == ["B"]

    translate = Upper(0)
    run(scenario, translate)
    assert not any("gone" in texts for texts, _ in translate.calls)


def test_closing_finishes_what_was_accepted_and_refuses_the_rest():
    async def scenario(batcher):
        accepted = [asyncio.create_task(batcher.submit([str(number)] * 5, "g")) for number in range(5)]
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="stopping"):
            await batcher.submit(["late"], "g")
        await closing
        return [await task for task in accepted]

    assert run(scenario, Upper()) == [[str(number)] * 5 for number in range(5)]


def test_one_client_alone_never_waits_for_others():
    async def scenario(batcher):
        began = time.perf_counter()
        for _ in range(20):
            await batcher.submit(["a"], "g")
        return time.perf_counter() - began

    assert min(run(scenario, Upper(0)) for _ in range(3)) < 20 * 0.02
