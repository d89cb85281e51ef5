"""What many ask at the same moment is read once."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import NotFound
from holdfast.http.single_flight import SingleFlight


class Reading:
    """A read that takes until it is let go, and how often it was made."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.made = 0
        self.let_go = asyncio.Event()
        self._problem = problem

    async def __call__(self) -> int:
        self.made += 1
        await self.let_go.wait()
        if self._problem is not None:
            raise self._problem
        return self.made


async def asked(reads: SingleFlight, reading: Reading, count: int) -> list[asyncio.Task[int]]:
    asking = [asyncio.create_task(reads.read("run", reading)) for _ in range(count)]
    await asyncio.sleep(0)
    return asking


async def test_those_who_ask_meanwhile_are_given_the_same_answer() -> None:
    reads, reading = SingleFlight(), Reading()
    asking = await asked(reads, reading, 100)
    reading.let_go.set()
    assert await asyncio.gather(*asking) == [1] * 100
    assert await reads.read("run", reading) == 2, "what was answered is not kept"


async def test_another_key_is_another_read() -> None:
    reads, reading = SingleFlight(), Reading()
    reading.let_go.set()
    assert await asyncio.gather(reads.read(("run", 1), reading), reads.read(("run", 2), reading)) == [1, 2]


async def test_a_caller_that_leaves_takes_the_answer_from_no_other() -> None:
    reads, reading = SingleFlight(), Reading()
    first, second = await asked(reads, reading, 2)
    first.cancel()
    await asyncio.sleep(0)
    reading.let_go.set()
    assert await second == 1
    assert first.cancelled()


async def test_what_goes_wrong_is_reported_to_all_who_asked() -> None:
    reads, reading = SingleFlight(), Reading(NotFound("There is no such run."))
    asking = await asked(reads, reading, 2)
    reading.let_go.set()
    for each in asking:
        with pytest.raises(NotFound):
            await each
    with pytest.raises(NotFound):
        await reads.read("run", reading)
    assert reading.made == 2
