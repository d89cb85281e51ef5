"""The waiting side by itself: what a process does when its authority's answers are late, lost or make no sense."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.quota import Answer, Letter, Pool, Want
from holdfast.errors import PoolsAway
from holdfast.machine import MachineClock
from holdfast.pools.book import Book
from holdfast.pools.borrower import Borrower

PLACE = Pool("place", "slots", 1, lease_s=60.0)


class Late(Book):
    """An authority whose first grant is heard of only after `late_s`, because the first answer is lost."""

    def __init__(self, late_s: float) -> None:
        super().__init__(MachineClock())
        self.late_s = late_s

    async def visit(self, letter: Letter) -> Answer:
        answer = await super().visit(letter)
        if answer.granted and self.late_s:
            late_s, self.late_s = self.late_s, 0.0
            await asyncio.sleep(late_s)
            raise PoolsAway
        return answer


class Broken(Book):
    async def visit(self, letter: Letter) -> Answer:
        raise RuntimeError("a fault of the authority's own")


async def time_left_s(late_s: float) -> float:
    clock = MachineClock()
    pools = Borrower(Late(late_s), clock, "late", slack_s=0.5)
    try:
        shares = await asyncio.wait_for(pools.reserve([Want(PLACE)], deadline_s=2.0), 5)
        return shares.expires_at_s - clock.monotonic_s()
    finally:
        await pools.aclose()


async def test_a_grant_that_is_heard_of_too_late_is_given_back() -> None:
    assert await time_left_s(1.0) > 2.0, "its call still has all the time it asked for"


async def test_a_grant_that_lapsed_before_it_was_heard_of_is_waited_for_again() -> None:
    clock, late = MachineClock(), Late(0.0)
    pools = Borrower(late, clock, "late", slack_s=0.5)
    await pools.reserve([Want(PLACE)], deadline_s=0.2)
    waiting = asyncio.create_task(pools.reserve([Want(PLACE)], deadline_s=0.2))
    await asyncio.sleep(0.1)
    late.late_s = 1.2  # it stands in line already, and the answer that grants it something is lost
    await asyncio.wait_for(waiting, 6)
    await pools.aclose()


async def test_a_grant_that_is_heard_of_a_little_late_is_used() -> None:
    assert 2.0 <= await time_left_s(0.2) < 2.4


async def test_what_no_waiting_mends_is_told_to_whoever_waits() -> None:
    pools = Borrower(Broken(MachineClock()), MachineClock(), "unlucky")
    with pytest.raises(RuntimeError, match="of the authority's own"):
        await asyncio.wait_for(pools.reserve([Want(PLACE)], deadline_s=2.0), 5)


async def test_a_process_that_ends_leaves_the_line_and_gives_back_what_it_can() -> None:
    class Lasting(Book):
        async def aclose(self) -> None:
            """It outlives its borrowers here."""

    book = Lasting(MachineClock())
    first, second = (Borrower(book, MachineClock(), name) for name in ("first", "second"))
    shares = await first.reserve([Want(PLACE)], deadline_s=5)
    waiting = asyncio.create_task(first.reserve([Want(PLACE)], deadline_s=5))
    await asyncio.sleep(0.05)
    first.give_back(shares, {})
    await first.aclose()
    assert waiting.cancelled() or isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], BaseException)
    await asyncio.wait_for(second.reserve([Want(PLACE)], deadline_s=5), 2)
    await second.aclose()
