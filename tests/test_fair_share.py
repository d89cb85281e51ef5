"""Whoever holds what of something shared: a newcomer finds room, and nothing is held that is not there."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import TooMuch
from holdfast.platform.fair_share import FairShare, Holder

ANN, BOB, CARL = ("acme", "ann"), ("acme", "bob"), ("globex", "carl")


def taken(share: FairShare, holder: Holder) -> int:
    """Take as many as there are for a holder; how many it got."""
    count = 0
    while share.take(holder):
        count += 1
    return count


def test_one_holder_has_half_of_what_the_others_leave() -> None:
    share = FairShare(80, "things are held")
    assert [taken(share, (name,)) for name in "abcd"] == [40, 20, 10, 5]
    share.give_back(("a",))
    assert taken(share, ("e",)) == 3


def test_tokens_of_a_tenant_share_what_their_tenant_has() -> None:
    share = FairShare(80, "things are held")
    assert [taken(share, each) for each in (ANN, BOB, ("acme", "eve"), CARL)] == [20, 10, 5, 12]
    assert share.held_by(("acme",)) == 35


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz")), max_size=200), st.integers(1, 40))
def test_all_together_never_hold_more_than_there_is(steps: list[tuple[bool, str, str]], most: int) -> None:
    share, held = FairShare(most, "things are held"), list[Holder]()
    for takes, *holder in steps:
        if takes and share.take(tuple(holder)):
            held.append(tuple(holder))
        elif not takes and held:
            share.give_back(held.pop())
        assert share.held_by(()) == len(held) <= most
        assert all(share.held_by(each) == held.count(each) for each in held)
    while held:
        share.give_back(held.pop())
    assert (share.held_by(()), share.room_of(("a",))) == (0, (most + 1) // 2)


async def test_those_who_wait_are_served_in_turn_holder_by_holder() -> None:
    share, served, free = FairShare(4, "things are held", waiting=80), list[str](), asyncio.Event()

    async def work(name: str, number: int) -> None:
        async with share.turn((name,), 20):
            served.append(f"{name}{number}")
            await free.wait()

    working = [asyncio.create_task(work("a", number)) for number in range(5)]
    await asyncio.sleep(0)
    working += [asyncio.create_task(work("b", number)) for number in range(2)]
    await asyncio.sleep(0)
    assert served == ["a0", "a1", "b0"], "b has a turn although a waits"
    free.set()
    await asyncio.gather(*working)
    assert sorted(served) == ["a0", "a1", "a2", "a3", "a4", "b0", "b1"]
    assert served.index("b1") < served.index("a4")
    assert share.held_by(()) == 0


async def test_a_turn_that_never_comes_is_refused_and_leaves_nothing_behind() -> None:
    share = FairShare(2, "things are held", waiting=2)
    with share.held(("a",)):
        with pytest.raises(TooMuch, match="Too many things are held: 1 for this caller, 1 in all, and 2 at most") as refused:
            async with share.turn(("a",), 0.01):
                pass
        waiting = [asyncio.create_task(anext(_turn(share))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooMuch, match="of those that wait because too many things are held"):
            await waiting[1]
        waiting[0].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert refused.value.retry_after_s == 1
    async with share.turn(("a",), 0.01):
        assert share.held_by(()) == 1


async def _turn(share: FairShare):  # type: ignore[no-untyped-def]
    async with share.turn(("a",), 20):
        yield


async def test_a_turn_that_comes_as_its_waiter_leaves_is_the_next_one_s() -> None:
    share = FairShare(1, "things are held", waiting=8)

    async def work() -> None:
        async with share.turn(("a",), 20):
            pass

    with share.held(("a",)):
        waiting = [asyncio.create_task(work()) for _ in range(2)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # it has been served, and does not know yet
    await asyncio.wait(waiting)
    assert [each.cancelled() for each in waiting] == [True, False]
    assert share.held_by(()) == 0
