"""Work that can wait takes a small share of a busy process, and is measured alone."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.platform.spare_time import LONGEST_PAUSE_S, SHARE, SpareTime, TimeShare, needed_s


class Machine:
    """The clocks of a process, moved by the test."""

    def __init__(self) -> None:
        self.wall_s = self.needed_s = self.thread_s = 0.0

    def waits_for_a_processor(self, seconds: float) -> None:
        self.wall_s += seconds
        self.needed_s += seconds

    def works(self, seconds: float) -> None:
        """Everything else takes so much, on a core of its own."""
        self.wall_s += seconds
        self.needed_s += seconds
        self.thread_s += seconds

    def rests(self, seconds: float) -> None:
        self.wall_s += seconds

    def spare(self) -> SpareTime:
        return SpareTime(lambda: self.wall_s, lambda: self.needed_s, lambda: self.thread_s)


def at_work(spare: SpareTime) -> TimeShare:
    """Return the share of a task that had work before anything was measured."""
    share = spare.share()
    share.go_on()
    share._proven_s = 0.0
    return share


async def test_only_the_turns_of_the_work_itself_are_counted() -> None:
    machine = Machine()
    share = at_work(machine.spare())
    others = asyncio.Event()

    async def work() -> str:
        machine.works(0.001)
        others.set()
        await asyncio.sleep(0)
        machine.works(0.002)
        return "done"

    async def somebody_else() -> None:
        await others.wait()
        machine.works(10)

    other = asyncio.create_task(somebody_else())
    assert await share.of(work()) == "done"
    await other
    assert share.is_busy
    assert share.pause_s() == pytest.approx(0.003 * (1 / SHARE - 1))
    assert share.pause_s() == 0, "it is paid once"


async def test_a_calm_process_asks_for_no_pause_and_a_busy_one_shares_among_all() -> None:
    machine = Machine()
    spare = machine.spare()
    first, second = at_work(spare), at_work(spare)

    async def work() -> None:
        machine.works(0.001)

    await first.of(work())
    machine.rests(1)
    assert not first.is_busy
    assert first.pause_s() == 0
    await first.of(work())
    machine.works(1)
    assert second.is_busy
    assert second.pause_s() == 0
    assert first.pause_s() == pytest.approx(0.001 * (2 / SHARE - 1))


async def test_where_others_have_the_processor_the_pause_is_longer() -> None:
    machine = Machine()
    share = at_work(machine.spare())

    async def work() -> None:
        machine.works(0.001)

    await share.of(work())
    machine.works(0.249)
    machine.waits_for_a_processor(0.75)
    assert share.is_busy
    assert share.pause_s() == pytest.approx(0.001 * (1 / SHARE - 1) / 0.25), "it is a share of what this process had"


async def test_a_process_that_waits_for_a_processor_is_busy() -> None:
    machine = Machine()
    share = at_work(machine.spare())
    machine.works(0.2)
    machine.waits_for_a_processor(0.4)
    assert share.is_busy
    for _ in range(3):
        machine.rests(0.6)
        assert share.is_busy, "it may wait for the disk"
    machine.rests(0.6)
    assert not share.is_busy


def test_a_thread_needs_the_time_that_it_works() -> None:
    before_s, until_s = needed_s(), time.thread_time() + 0.02
    while time.thread_time() < until_s:
        pass
    assert needed_s() - before_s > 0.01


async def test_work_alone_does_not_make_its_process_busy() -> None:
    machine = Machine()
    share = at_work(machine.spare())

    async def catches_up() -> None:
        machine.works(3)

    await share.of(catches_up())
    assert not share.is_busy
    machine.works(1)
    assert share.is_busy
    for _ in range(4):
        await share.of(catches_up())
        machine.works(1)
        is_busy = share.is_busy
    assert not is_busy, "most of those seconds were its own"
    assert share.pause_s() == 0
    await share.of(catches_up())
    machine.works(9)
    assert share.pause_s() == LONGEST_PAUSE_S


async def test_work_after_a_rest_is_bounded_until_the_process_is_known_to_be_calm() -> None:
    machine = Machine()
    spare = machine.spare()
    share, other = spare.share(), at_work(spare)
    for _ in range(2):
        machine.rests(10)
        assert share.is_busy, "it began with a rest"
        assert not other.is_busy, "its own work says nothing of another's"
        share.go_on()
        spent_s = 0.0

        async def work() -> None:
            machine.works(0.001)

        for _ in range(20):
            await share.of(work())
            if (pause_s := share.pause_s()) == 0:
                break
            spent_s += 0.001
            machine.rests(pause_s)
            share.go_on()
        assert not share.is_busy
        assert spent_s <= SHARE / 2 + 0.001, "half of the share, for a second"
        share.rest()
    machine.rests(10)
    assert share.is_busy
    share.go_on()
    await share.of(work())
    machine.works(0.3)
    assert share.pause_s() == pytest.approx(0.001 * (2 / SHARE - 1)), "the process was busy beside it"


async def test_errors_and_cancellations_reach_the_work_and_leave_it() -> None:
    share = Machine().spare().share()
    seen = []

    async def breaks() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(ValueError, match="broken"):
        await share.of(breaks())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await share.of(hangs())
    assert seen == ["cancelled"]
