"""Sends what waits in the outbox for one channel: each try counted before it is made, the messages of a run in their order.

A process that is killed here leaves a message claimed, which another sends again after the lease, the same under the same id.
No run waits for any of it. Never here: how a channel sends, which messages exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.core.views.notifications import next_try_ms
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.ports import Channel, Claimed, Clock, Refused, Retry, SendResult, Sent, Store

log = logging.getLogger("holdfast")

LEASE_MS: Final = 60_000
"""After the death of a process, what it was sending is sent again within this time."""
_SENDS_S: Final = 45.0
"""A channel that takes longer for a message is one that does not answer; it bounds itself to less."""
_AT_ONCE: Final = 8
"""Messages that are being sent at a time."""
_LOOK_S: Final = 0.5
_NOT_HERE_S: Final = 2.0
"""Pause of a process that does not send now."""
_LONGEST_PAUSE_S: Final = 3_600.0
"""Of the whole channel, whatever its other side asks for; the message itself waits as long as that."""
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
        await self._channel.aclose()

    async def _turn(self) -> float:
        if not self._is_wanted():
            return _NOT_HERE_S
        if (left_s := self._paused_until_s - self._clock.monotonic_s()) > 0:
            return min(left_s, _NOT_HERE_S)
        claimed = await self._store.outbox.claim(self._name, _AT_ONCE, LEASE_MS)
        await asyncio.gather(*map(self._send, claimed))
        return 0.0 if claimed else _LOOK_S

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
