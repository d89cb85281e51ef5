"""The outbox: messages on their way to channels, and what came of them.

Never here: which messages exist, when one is sent again, sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

import msgspec

from holdfast.core.views import notifications
from holdfast.core.views.notifications import MAX_BUNDLED, RETRIES_S, Delivery, DeliveryState, Message
from holdfast.ports import MAX_LISTED, ChannelFigures, Claimed, DeliveryFilter
from holdfast.stores.nouns.lists import listed
from holdfast.stores.nouns.tables import Noun, Steps, do, lock
from holdfast.stores.row import encode

_decode: Final = msgspec.json.Decoder(Message).decode
_MAX_ADDRESSES: Final = 10_000
"""Of all channels: those of their own, and those that starts have named."""
_LAST: Final = "~"
"""Comes after each character that an id may have."""
_LOOKED_AT: Final = 10 * MAX_BUNDLED
"""Waiting ones of a bundle among which those are that go with its first."""
_DIED: Final = "The process that sent it ended in the last try."
_UNREADABLE: Final = "It is encrypted with a key that is not here."


class Outbox(Noun):
    """Keeps ports.Outbox."""

    async def add(self, deliveries: Sequence[Delivery]) -> int:
        rows = [(*_first_columns(each), self._seal(each.tenant, each.message)) for each in deliveries]
        addresses = sorted({(each.channel, each.address) for each in deliveries})

        def steps() -> Steps[int]:
            new = 0
            for address in addresses:
                yield do("know_channel", *address)
            for row in rows:
                new += len((yield do("add_delivery", *row)))
            return new

        return await self._tables.transact(steps) if rows else 0

    # --- Sending ------------------------------------------------------------------------------------------------------

    async def claim(
        self, channel: str, limit: int, lease_ms: int, rooms: Mapping[str, int] | None = None, most: int | None = None
    ) -> Sequence[Claimed]:
        now_ms = self._clock.now_ms()
        full = [address for address, room in (rooms or {}).items() if room <= 0]
        of_address = limit if most is None else min(limit, max([most, *(rooms or {}).values()]))
        if not await self._tables.ask("delivery_heads", channel, now_ms, full, 1, 1):
            return []  # nothing is written for nothing

        def steps() -> Steps[list[Claimed]]:
            yield lock("lock_deliveries", channel)
            disabled: dict[str, str | None] = dict((yield do("disabled_addresses", channel, _MAX_ADDRESSES)))
            claimed, taken, left = list[Claimed](), set[str](), dict(rooms or {})
            for row in (yield do("delivery_heads", channel, now_ms, full, limit, of_address)):
                id_, tenant, line, place, address, bundle, attempts, claimed_ms, sealed = row
                if id_ in taken or left.setdefault(address, limit if most is None else most) <= 0:
                    continue
                message = self._sealing.readable(_decode, sealed)
                problem = disabled.get(address, _UNREADABLE if message is None else None)
                if problem is None and attempts >= len(RETRIES_S):
                    problem = _DIED
                if problem is not None or message is None:
                    yield from _end(id_, attempts, "dead", now_ms, problem, channel, failed=attempts > 0)
                    continue
                if not claimed_ms:
                    mates = yield from self._mates(id_, bundle)
                    message = notifications.merged([message, *mates.values()])
                    ((lost,),) = yield do("lost_before", line, place, bundle, id_)
                    message = notifications.after_lost(message, lost) if lost else message
                    taken |= mates.keys()
                    if mates:
                        yield do("bundle_deliveries", [*mates], id_)
                kept = self._seal(tenant, message)
                for (attempt,) in (yield do("claim_delivery", id_, attempts, now_ms + lease_ms, kept)):
                    claimed.append(Claimed(id_, attempt, address, message))
                    left[address] -= 1
            return claimed

        return await self._tables.transact(steps)

    def _mates(self, id_: str, bundle: str) -> Steps[dict[str, Message]]:
        """Return the messages that go with the first of a bundle."""
        if not bundle:
            return {}
        found = yield do("delivery_mates", bundle, id_, MAX_BUNDLED - 1, _LOOKED_AT)
        opened = ((mate, self._sealing.readable(_decode, sealed)) for mate, sealed in found)
        return {mate: message for mate, message in opened if message is not None}

    async def sent(self, claimed: Claimed, channel: str) -> bool:
        now_ms = self._clock.now_ms()
        return await self._tables.transact(lambda: _end(claimed.id, claimed.attempt, "sent", now_ms, None, channel))

    async def failed(self, claimed: Claimed, channel: str, problem: str, again_at_ms: int | None, *, disable: bool) -> bool:
        now_ms = self._clock.now_ms()

        def steps() -> Steps[bool]:
            if disable:
                yield do("disable_channel", channel, claimed.address, now_ms, problem)
            if again_at_ms is None:
                return (yield from _end(claimed.id, claimed.attempt, "dead", now_ms, problem, channel, failed=True))
            found = yield do("retry_delivery", claimed.id, claimed.attempt, again_at_ms, problem)
            for address, line in found:
                yield do("postpone_line", line, again_at_ms)
                yield do("count_delivery", channel, address, 0, 1, 0)
            return bool(found)

        return await self._tables.transact(steps)

    # --- Afterwards ---------------------------------------------------------------------------------------------------

    async def replay(self, id_: str) -> bool:
        found = await self.find(id_)
        first = id_ if found is None or found.part_of is None else found.part_of
        return bool(await self._tables.change("replay_delivery", first, self._clock.now_ms()))

    async def enable(self, channel: str, address: str) -> bool:
        return bool(await self._tables.change("enable_channel", channel, address))

    async def find(self, id_: str) -> Delivery | None:
        for row in await self._tables.ask("delivery", id_):
            return self._delivery(row)
        return None

    async def listed(self, **filters: Unpack[DeliveryFilter]) -> Sequence[Delivery]:
        limit, prefix = filters.pop("limit", MAX_LISTED), filters.pop("prefix", None)
        criteria = {"prefix": None if prefix is None else (prefix, f"{prefix}{_LAST}"), **filters}
        found = await listed(self._tables, "deliveries", criteria, limit)
        return [each for each in map(self._delivery, found) if each is not None]

    async def figures(self) -> Sequence[ChannelFigures]:
        return [ChannelFigures(*row) for row in await self._tables.ask("channel_figures", _MAX_ADDRESSES)]

    async def last_problem(self, channel: str, address: str, state: DeliveryState) -> str | None:
        return next((str(problem) for (problem,) in await self._tables.ask("delivery_problem", channel, address, state)), None)

    async def forget(self, sent_before_ms: int, dead_before_ms: int, limit: int) -> int:
        return len(await self._tables.change("forget_deliveries", sent_before_ms, dead_before_ms, limit))

    def _delivery(self, row: Sequence[Any]) -> Delivery | None:
        """Return a delivery; None for one whose key is gone."""
        *columns, sealed = row
        message = self._sealing.readable(_decode, sealed)
        return None if message is None else Delivery(**dict(zip(_COLUMNS, columns, strict=True)), message=message)

    def _seal(self, tenant: str, message: Message) -> bytes:
        return self._sealing.seal(tenant, encode(message))


_COLUMNS: Final = (
    "id",
    "tenant",
    "run",
    "line",
    "place",
    "occasion",
    "rule",
    "channel",
    "address",
    "bundle",
    "state",
    "part_of",
    "attempts",
    "created_at_ms",
    "due_at_ms",
    "ended_at_ms",
    "problem",
)
_FIRST: Final = (*_COLUMNS[:10], "created_at_ms", "due_at_ms")


def _first_columns(delivery: Delivery) -> tuple[Any, ...]:
    """Return what is written of a new one, but its message."""
    return tuple(getattr(delivery, each) for each in _FIRST)


def _end(
    id_: str, attempt: int, state: DeliveryState, now_ms: int, problem: str | None, channel: str, *, failed: bool = False
) -> Steps[bool]:
    """Write that a message was sent or given up, with all that are part of it."""
    found = yield do("end_delivery", id_, attempt, state, now_ms, problem)
    for (address,) in found:
        yield do("end_parts", id_, state, now_ms, problem)
        yield do("count_delivery", channel, address, int(state == "sent"), int(failed), int(state == "dead"))
    return bool(found)
