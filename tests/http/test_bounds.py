"""So much at a time of one who asks, and no more; others are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from holdfast.http.bounds import Bounds, Turns
from holdfast.http.problem import Problem


async def test_requests_of_one_token_take_turns_and_those_of_others_do_not_wait() -> None:
    turns, free, answered = Turns(Bounds(at_once=2, waiting=1, wait_s=5)), asyncio.Event(), []

    async def ask(name: str) -> None:
        async with turns.of(name):
            answered.append(name)
            await free.wait()

    asking = [asyncio.create_task(ask("ann")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert answered == ["ann", "ann"]
    with pytest.raises(Problem, match="2 requests of this token are answered at once, and 1 wait"):
        await ask("ann")
    free.set()
    await asyncio.gather(ask("bob"), *asking)
    assert sorted(answered) == ["ann", "ann", "ann", "bob"]


async def test_a_turn_that_never_comes_is_told() -> None:
    turns = Turns(Bounds(at_once=1, wait_s=0.01))
    async with turns.of("ann"):
        with pytest.raises(Problem, match="none was done in"):
            async with turns.of("ann"):
                pass
    async with turns.of("ann"):
        pass


async def test_a_burst_is_taken_and_what_comes_too_fast_after_it_is_not() -> None:
    turns = Turns(Bounds(per_s=1, burst=3))
    for _ in range(3):
        async with turns.of("ann"):
            pass
    with pytest.raises(Problem, match="more than 1 times a second") as told:
        async with turns.of("ann"):
            pass
    assert told.value.headers == {"Retry-After": "1"}
    async with turns.of("bob"):
        pass


async def test_streams_are_counted_until_they_end() -> None:
    turns = Turns(Bounds(streams=1, all_streams=2))

    async def told() -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"

    first = turns.listened("ann", told())
    assert await anext(first) == b"one"
    with pytest.raises(Problem, match="1 streams of a token"):
        turns.expect_room("ann")
    turns.expect_room("bob")
    second = turns.listened("bob", told())
    await anext(second)
    with pytest.raises(Problem, match="2 of all"):
        turns.expect_room("carl")
    await first.aclose()
    turns.expect_room("ann")
    await second.aclose()
