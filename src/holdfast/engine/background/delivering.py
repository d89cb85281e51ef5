"""Sends what waits in the outbox for one channel: each try counted before it is made, the messages of a run in their order.

A process that is killed here leaves a message claimed, which another sends again after the lease, the same under the same id.
No run waits for any of it. Never here: how a channel sends, which messages exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.views.notifications import next_try_ms
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage, end
from holdfast.ports import Channel, Claimed, Clock, Refused, Retry, SendResult, Sent, Store

log = logging.getLogger("holdfast")

LEASE_MS: Final = 60_000
"""After the death of a process, what it was sending is sent again within this time."""
_SENDS_S: Final = 45.0
"""A channel that takes longer for a message is one that does not answer; it bounds itself to less."""
_AT_ONCE: Final = 16
"""Messages that are being sent at a time."""
_AT_OWN_ADDRESS: Final = 8
_AT_NAMED_ADDRESS: Final = 2
"""Of them, to one address that starts have named: one that does not answer delays only itself."""
_LOOK_S: Final = 0.5
_NOT_HERE_S: Final = 2.0
"""Pause of a process that does not send now."""
_LONGEST_PAUSE_S: Final = 3_600.0
"""Of the channel's own address, whatever its other side asks for; the message itself waits as long as that."""
_MAX_PROBLEM: Final = 500


class Deliverer:
    """Sends the messages of one channel, while it is this process that sends."""

    def __init__(self, name: str, channel: Channel, store: Store, clock: Clock, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` returns whether this process is one that sends now."""
        self._name = name
        self._channel = channel
        self._store = store
        self._clock = clock
        self._is_wanted = is_wanted
        self._paused_until_s = 0.0
        self._sending: dict[asyncio.Task[None], str] = {}
        """Each with the address that it sends to."""
        self._loop = BackgroundLoop(
            f"holdfast-channel-{name}",
            self._turn,
            clock,
            fault=f"holdfast can no longer send notifications to {name}",
            outage=Outage(f"holdfast cannot read the notifications to {name}, and tries again: %s", 60.0),
        )

    def start(self) -> None:
        self._loop.start()

    async def aclose(self) -> None:
        """End, in the middle of a message if need be: that is sent again."""
        await self._loop.aclose()
        await end([*self._sending])
        await self._channel.aclose()

    async def _turn(self) -> float:
        """Raises StoreError: what came of a message could not be noted, or nothing can be claimed."""
        for task in [each for each in self._sending if each.done()]:
            del self._sending[task]
            await task
        if not self._is_wanted():
            return _NOT_HERE_S
        claimed: Sequence[Claimed] = ()
        if (room := _AT_ONCE - len(self._sending)) > 0:
            claimed = await self._store.outbox.claim(self._name, room, LEASE_MS, self._rooms(), _AT_NAMED_ADDRESS)
        for each in claimed:
            self._sending[asyncio.create_task(self._send(each), name=f"holdfast-message-{each.id}")] = each.address
        if claimed:
            return 0.0
        if not self._sending:
            return _LOOK_S
        await asyncio.wait(self._sending, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        return 0.0

    def _rooms(self) -> dict[str, int]:
        """Return how many more messages may be sent now to the channel's own address, and to each other that is sent to."""
        rooms = dict.fromkeys(self._sending.values(), _AT_NAMED_ADDRESS) | {"": _AT_OWN_ADDRESS}
        for address in self._sending.values():
            rooms[address] -= 1
        return rooms if self._paused_until_s <= self._clock.monotonic_s() else rooms | {"": 0}

    async def _send(self, claimed: Claimed) -> None:
        """Try to send one message, and note what came of it. Raises StoreError: the try counts, and another follows."""
        result = await self._result(claimed)
        outbox = self._store.outbox
        match result:
            case Sent():
                await outbox.sent(claimed, self._name)
            case Retry(text, after_s):
                if after_s is not None and not claimed.address:
                    self._paused_until_s = self._clock.monotonic_s() + min(after_s, _LONGEST_PAUSE_S)
                again_ms = next_try_ms(claimed.id, claimed.attempt, self._store.clock.now_ms(), after_s)
                if again_ms is None:
                    log.error("holdfast gives up a notification to %s (%s): %s", self._name, claimed.id, text)
                await outbox.failed(claimed, self._name, text[:_MAX_PROBLEM], again_ms, disable=False)
            case Refused(text, disable):
                log.error("holdfast gives up a notification to %s (%s): %s", self._name, claimed.id, text)
                await outbox.failed(claimed, self._name, text[:_MAX_PROBLEM], None, disable=disable)

    async def _result(self, claimed: Claimed) -> SendResult:
        try:
            async with asyncio.timeout(_SENDS_S):
                return await self._channel.send(claimed.message)
        except TimeoutError:
            return Retry(f"No answer within {_SENDS_S:.0f} s.")
        except Exception as problem:  # a fault of the channel is no reason to lose a message
            log.exception("holdfast: channel %s has failed", self._name)
            return Retry(type(problem).__name__)
