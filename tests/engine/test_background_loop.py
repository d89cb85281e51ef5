"""A loop of a process: a store that is away is reported once and asked ever more rarely, a fault of ours ends the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import StoreError, StoreGone
from holdfast.platform.machine import MachineClock

OUTAGE = "away: %s"


class Process:
    """What a loop does to the process that it is of."""

    def __init__(self) -> None:
        self.broken: list[BaseException] = []
        self.turns = 0

    def loop(self, fail: Callable[[int], Exception | None], *, outage: Outage | None = None) -> BackgroundLoop:
        """A loop whose turns fail as `fail` says, and which ends after the first that does not."""

        async def turn() -> float | None:
            self.turns += 1
            if (problem := fail(self.turns)) is not None:
                raise problem
            return None

        return BackgroundLoop("turns", turn, MachineClock(), self.broken.append, fault="no more", outage=outage)


async def over(loop: BackgroundLoop) -> None:
    loop.start()
    assert loop._task is not None
    async with asyncio.timeout(20):
        await loop._task


def test_pauses_of_an_outage_grow_up_to_a_bound_and_begin_again_after_it() -> None:
    outage = Outage(OUTAGE, 1.0)
    assert [outage.goes_on(StoreError("No route.")) for _ in range(5)] == [0.25, 0.5, 1.0, 1.0, 1.0]
    outage.ends()
    assert outage.goes_on(StoreError("No route.")) == 0.25


def test_the_same_error_is_logged_once_as_long_as_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(OUTAGE, 1.0)
    for words in ("No route.", "No route.", "No room.", "No room."):
        outage.goes_on(StoreError(words))
    outage.ends()
    outage.goes_on(StoreError("No room."))
    assert [record.message for record in caplog.records] == ["away: No route.", "away: No room.", "away: No room."]


async def test_a_loop_goes_on_when_the_store_is_back() -> None:
    process = Process()
    await over(process.loop(lambda turn: StoreError("No route.") if turn < 4 else None, outage=Outage(OUTAGE, 0.01)))
    assert (process.turns, process.broken) == (4, [])


async def test_a_fault_of_ours_ends_the_work_of_the_process(caplog: pytest.LogCaptureFixture) -> None:
    process, fault = Process(), ValueError("a slip")
    await over(process.loop(lambda turn: fault, outage=Outage(OUTAGE, 0.01)))
    assert (process.turns, process.broken) == (1, [fault])
    assert [record.message for record in caplog.records] == ["no more"]


async def test_a_store_that_is_gone_for_good_is_not_asked_again() -> None:
    process, gone = Process(), StoreGone("It was deleted.")
    await over(process.loop(lambda turn: gone, outage=Outage(OUTAGE, 0.01)))
    assert (process.turns, process.broken) == (1, [gone])


async def test_a_loop_without_an_outage_takes_an_error_of_the_store_for_a_fault() -> None:
    process, away = Process(), StoreError("No route.")
    await over(process.loop(lambda turn: away))
    assert (process.turns, process.broken) == (1, [away])


async def test_a_loop_ends_though_its_turn_swallows_the_cancellation() -> None:
    async def turn() -> float:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 0.0
        raise AssertionError

    loop = BackgroundLoop("deaf", turn, MachineClock(), lambda problem: None, fault="no more")
    loop.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await loop.aclose()
    assert loop._task is not None
    assert loop._task.done()


async def test_a_loop_begins_again_after_its_last_turn_but_not_once_it_is_closed() -> None:
    process = Process()
    loop = process.loop(lambda turn: None)
    await over(loop)
    loop.start()
    assert loop.goes_on
    loop.start()
    await over(loop)
    assert (process.turns, loop.goes_on) == (2, False)
    await loop.aclose()
    loop.start()
    assert not loop.goes_on
