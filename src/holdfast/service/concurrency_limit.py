"""Shares of a server: how much of it one caller has at a time, on any transport, so that no caller keeps others from being
answered.

A request is looked at, read and answered, each in its turn; only that of reading is held while a client may be silent. A caller
is a tenant and a token, or an address as long as the caller is unknown.

Never here: who a caller is (access), what a share is (fair_share), the figures (settings).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

from holdfast.errors import TooMuch
from holdfast.platform.fair_share import FairShare, Holder
from holdfast.settings import PortBounds

_FORGOTTEN: Final = 10_000
"""Maximum number of rates kept; those that are full again are dropped then."""

_REFUSED_BURST: Final = 60.0
_REFUSED_PER_S: Final = 1.0
"""Refused requests of one address: a sender that is being set up needs some, and no sender needs more."""

_SMALL_BYTES: Final = 65_536
"""Maximum number of requests at a time, so that only small ones may be held in memory for all of them."""

_Message = TypeVar("_Message", bound=Sized)


class ConcurrencyLimit:
    """The turns of one process."""

    def __init__(self, bounds: PortBounds | None = None) -> None:
        self.bounds = bounds = PortBounds() if bounds is None else bounds
        waiting = bounds.waiting
        self._strangers = FairShare(bounds.reading, "requests are looked at", waiting=waiting)
        self._reading = FairShare(bounds.reading, "bodies and messages are read", waiting=waiting)
        self._answering = FairShare(bounds.requests, "requests are answered", waiting=waiting)
        self._calls = FairShare(bounds.connections, "calls are open")
        self._streams = FairShare(bounds.streams, "streams are listened to")
        self._paces: dict[Holder, tuple[float, float]] = {}
        """Of each who has asked, what was left of its burst, and when."""

    def of_stranger(self, address: str) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to find out who sends a request from an address. Raises TooMuch."""
        return self._strangers.turn((address,), self.bounds.wait_s)

    @asynccontextmanager
    async def asking(self, caller: Holder, message: Callable[[], Awaitable[_Message]]) -> AsyncIterator[_Message]:
        """Read what a caller sends, and wait for a turn to answer it. A large one counts as being read until it is answered.
        Raises TooMuch, and what `message` raises."""
        self._pace(caller)
        async with AsyncExitStack() as reading:
            await reading.enter_async_context(self._reading.turn(caller, self.bounds.wait_s))
            said = await message()
            async with self._answering.turn(caller, self.bounds.wait_s):
                if len(said) <= _SMALL_BYTES:
                    await reading.aclose()
                yield said

    def calling(self, caller: Holder) -> AbstractContextManager[None]:
        """Count a call of a caller on a connection that it shares with others. Raises TooMuch."""
        return self._calls.held(caller)

    def refuse(self, address: str) -> None:
        """Count a refused request of an unknown sender. Raises TooMuch for an address that sends many."""
        now_s, who = asyncio.get_running_loop().time(), ("refused", address)
        left, since_s = self._paces.get(who, (_REFUSED_BURST, now_s))
        left = min(_REFUSED_BURST, left + (now_s - since_s) * _REFUSED_PER_S)
        self._paces[who] = (max(left - 1, 0.0), now_s)
        if left < 1:
            raise TooMuch("Too many requests of this address were refused. Nothing was done.", retry_after_s=60)

    def listening(self, caller: Holder) -> AbstractContextManager[None]:
        """Count a stream of a caller. Raises TooMuch where it may open no more."""
        return self._streams.held(caller)

    def _pace(self, caller: Holder) -> None:
        """Raises TooMuch for a token, or a tenant, that asks too fast."""
        bounds, now_s = self.bounds, asyncio.get_running_loop().time()
        paces: dict[Holder, float] = {}
        for level in range(1, len(caller) + 1):
            times = 1 if level == len(caller) else 2
            burst = float(times * bounds.burst)
            left, since_s = self._paces.get(caller[:level], (burst, now_s))
            paces[caller[:level]] = left = min(burst, left + (now_s - since_s) * times * bounds.requests_per_s)
            if left < 1:
                whose = "token" if times == 1 else "tenant"
                raise TooMuch(
                    f"More than {times * bounds.requests_per_s} requests of this {whose} came within a second. Nothing was"
                    " done: try again in a second.",
                    retry_after_s=1,
                )
        if len(self._paces) > _FORGOTTEN:
            full_s = bounds.burst / bounds.requests_per_s
            self._paces = {each: pace for each, pace in self._paces.items() if now_s - pace[1] < full_s}
        self._paces |= {each: (left - 1, now_s) for each, left in paces.items()}
