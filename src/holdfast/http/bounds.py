"""How much one who asks may ask at a time, so that nobody keeps others from being answered.

Never here: who asks (request), what is answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Final

import msgspec

from holdfast.http.problem import Problem

_FORGOTTEN: Final = 10_000
"""So many paces are remembered; those that are full again are let go then."""


class Bounds(msgspec.Struct, frozen=True):
    """Of each holder of a token: requests that are answered `at_once`, those that are `waiting` for a turn, how many may begin
    `per_s` after a `burst`, and the `streams` that are listened to. `all_streams` are everybody's together."""

    at_once: int = 100
    waiting: int = 1_000
    wait_s: float = 5.0
    """For a turn."""
    per_s: int = 1_000
    burst: int = 2_000
    streams: int = 1_000
    all_streams: int = 2_000


class Turns:
    """Who is being answered, and who listens."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._asking: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}
        """Of each who is asking just now."""
        self._listening: Counter[str] = Counter()
        self._paces: dict[str, tuple[float, float]] = {}
        """Of each who has asked, what was left of his burst, and when."""

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """While a request of `name` is answered, in its turn. Raises Problem where that would be too much."""
        bounds = self._bounds
        self._pace(name)
        if self._asking[name] >= bounds.at_once + bounds.waiting:
            raise _too_much(f"{bounds.at_once} requests of this token are answered at once, and {bounds.waiting} wait")
        turn = self._turns.setdefault(name, asyncio.Semaphore(bounds.at_once))
        try:
            with _counted(self._asking, name):
                await self._taken(turn)
                try:
                    yield
                finally:
                    turn.release()
        finally:
            if name not in self._asking:
                self._turns.pop(name, None)

    async def _taken(self, turn: asyncio.Semaphore) -> None:
        bounds = self._bounds
        try:
            async with asyncio.timeout(bounds.wait_s):
                await turn.acquire()
        except TimeoutError:
            words = f"{bounds.at_once} requests of this token are answered at once, and none was done in {bounds.wait_s:g} s"
            raise _too_much(words) from None

    def _pace(self, name: str) -> None:
        bounds, now_s = self._bounds, asyncio.get_running_loop().time()
        left, since_s = self._paces.get(name, (float(bounds.burst), now_s))
        left = min(float(bounds.burst), left + (now_s - since_s) * bounds.per_s)
        if left < 1:
            raise _too_much(f"This token has asked more than {bounds.per_s} times a second")
        if len(self._paces) > _FORGOTTEN:
            self._paces = {
                each: pace for each, pace in self._paces.items() if now_s - pace[1] < bounds.burst / bounds.per_s
            }
        self._paces[name] = (left - 1, now_s)

    def expect_room(self, name: str) -> None:
        """Raises Problem where nobody more may listen, or not with this token."""
        bounds = self._bounds
        if self._listening[name] >= bounds.streams or self._listening.total() >= bounds.all_streams:
            raise _too_much(f"{bounds.streams} streams of a token are listened to at most, {bounds.all_streams} of all")

    async def listened(self, name: str, told: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """What is told, counted as a stream of `name` for as long as it is."""
        with _counted(self._listening, name):
            async with aclosing(told):
                async for each in told:
                    yield each


@contextmanager
def _counted(counter: Counter[str], name: str) -> Iterator[None]:
    counter[name] += 1
    try:
        yield
    finally:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]


def _too_much(words: str) -> Problem:
    return Problem(
        HTTPStatus.TOO_MANY_REQUESTS, "too_much", f"{words}. Nothing was done: try again in a second.",
        headers={"Retry-After": "1"},
    )  # fmt: skip
