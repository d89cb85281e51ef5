"""The authority over provider pools inside one process: a book in memory, kept by the Clock port.

Its limits hold for this process only. When the process starts, its pools are full: what an earlier process took is
forgotten, and a pool is no more than a burst. Never here: a rule (core.quota), who waits (borrower).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.quota import (
    MOST_WAITING,
    SECOND_US,
    Answer,
    Claim,
    Grant,
    Letter,
    Level,
    Return,
    Standing,
    Ticket,
    serve,
    unused,
)
from holdfast.ports import Clock


class _Share(msgspec.Struct):
    holder: str
    until_us: int
    claims: tuple[Claim, ...]
    heard: bool = False


class Book:
    """Keeps the PoolAuthority port. Its holders live and die with it, so no ticket outlives who waits with it."""

    poll_s = 60.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, tuple[int, int]] = {}
        self._shares: dict[str, _Share] = {}
        self._tickets: dict[str, tuple[str, Ticket]] = {}
        self._lines: dict[tuple[str, ...], list[Ticket]] = {}
        self._rings: dict[str, Callable[[], None]] = {}

    def call(self, holder: str, ring: Callable[[], None]) -> None:
        self._rings[holder] = ring

    async def visit(self, letter: Letter) -> Answer:
        now_us = self._now_us()
        self._expire(now_us)
        levels: dict[str, Level] = {}
        for returned in letter.returns:
            self._take_back(returned, levels, now_us)
        for closing in letter.closings:
            self._level(levels, closing.pool).close(closing.for_us, now_us)
        refused = [
            ticket.id for number, ticket in enumerate(letter.joins) if not self._join(letter, ticket, now_us + number)
        ]
        for ticket_id in letter.leaves:
            self._leave(ticket_id, levels, now_us)
        for ticket_id in letter.heard:
            share = self._shares.get(ticket_id)
            if share is not None and share.holder == letter.holder:
                share.heard = True
        again_us = self._serve(levels, letter.holder, now_us)
        granted = [
            Grant(id_, share.until_us - now_us)
            for id_, share in self._shares.items()
            if share.holder == letter.holder and not share.heard
        ]
        return Answer(True, now_us, tuple(granted), tuple(refused), again_us)

    async def show(self, pools: Sequence[str]) -> Sequence[Standing]:
        now_us = self._now_us()
        self._expire(now_us)
        return [self._standing(pool, now_us) for pool in pools]

    async def aclose(self) -> None:
        self._rings.clear()

    def _now_us(self) -> int:
        return int(self._clock.monotonic_s() * SECOND_US)

    def _standing(self, pool: str, now_us: int) -> Standing:
        level = self._level({}, pool)
        waiting = sum(len(line) for pools, line in self._lines.items() if pool in pools)
        return Standing(pool, now_us, level.empty_at_us, level.closed_until_us, level.taken, waiting)

    def _level(self, levels: dict[str, Level], pool: str) -> Level:
        if pool not in levels:
            until_us = [
                share.until_us
                for share in self._shares.values()
                if any(claim.slots and claim.pool == pool for claim in share.claims)
            ]
            record = self._records.get(pool, (0, 0))
            levels[pool] = Level(*record, len(until_us), min(until_us, default=0))
        return levels[pool]

    def _expire(self, now_us: int) -> None:
        for id_ in [id_ for id_, share in self._shares.items() if share.until_us <= now_us]:
            del self._shares[id_]

    def _take_back(self, returned: Return, levels: dict[str, Level], now_us: int) -> None:
        if self._shares.pop(returned.ticket, None) is not None:
            for refund in returned.refunds:
                self._level(levels, refund.pool).refund(refund, now_us)

    def _join(self, letter: Letter, ticket: Ticket, now_us: int) -> bool:
        if ticket.id in self._tickets or ticket.id in self._shares:
            return True
        line = self._lines.setdefault(ticket.line, [])
        if len(line) >= MOST_WAITING:
            return False
        joined = msgspec.structs.replace(ticket, joined_us=ticket.joined_us or now_us)
        bisect.insort(line, joined, key=lambda each: each.place)
        self._tickets[ticket.id] = (letter.holder, joined)
        return True

    def _leave(self, ticket_id: str, levels: dict[str, Level], now_us: int) -> None:
        if ticket_id in self._tickets:
            self._drop(ticket_id)
        elif ticket_id in self._shares:
            self._take_back(unused(ticket_id, self._shares[ticket_id].claims), levels, now_us)

    def _drop(self, ticket_id: str) -> None:
        _, ticket = self._tickets.pop(ticket_id)
        line = self._lines[ticket.line]
        line.pop(bisect.bisect_left(line, ticket.place, key=lambda each: each.place))
        if not line:
            del self._lines[ticket.line]

    def _serve(self, levels: dict[str, Level], visitor: str, now_us: int) -> int:
        for pools in self._lines:
            for pool in pools:
                self._level(levels, pool)
        turn = serve(levels, self._lines.values(), now_us)
        for ticket in turn.granted:
            holder, _ = self._tickets[ticket.id]
            self._drop(ticket.id)
            self._shares[ticket.id] = _Share(holder, now_us + ticket.deadline_us, ticket.claims)
            if holder != visitor and holder in self._rings:
                self._rings[holder]()
        for pool, level in levels.items():
            self._records[pool] = (level.empty_at_us, level.closed_until_us)
        return turn.again_us
