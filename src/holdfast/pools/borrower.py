"""The waiting side of the provider pools: one process as a borrower, whatever authority its pools have.

All that this process has to say (who came, who left, what was not used) travels together in one visit, so that a visit
costs the same for one waiting call and for a thousand. It visits when there is news, when an answer said that time will
have made room, when it is called, and now and then so that it is not taken for dead. Never here: who goes first
(core.quota), a connection.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.quota import (
    SECOND_US,
    Answer,
    Closing,
    Grant,
    Letter,
    Pool,
    Refund,
    Return,
    Standing,
    Ticket,
    Want,
    claims,
    cost_us,
    unused,
)
from holdfast.errors import PoolLineFull, PoolsAway, UsageError
from holdfast.ports import Clock, PoolAuthority, Shares

log = logging.getLogger("holdfast")

SLACK_S: Final = 5.0
"""How late a grant may be heard of and still leave its call all its time; one heard of later is given back."""

MOST_AWAY_S: Final = 2.5
"""How long a process with waiting calls stays away at most: a quarter of the time after which it is taken for dead."""

_MOST_A_LETTER: Final = 500
_AWAY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""How long to leave an authority alone that cannot be reached; the last again and again."""
_LAST_WORD_S: Final = 2.0
_SOON_S: Final = 0.001


class _Waiter(msgspec.Struct):
    ticket: Ticket
    wants: tuple[Want, ...]
    told: asyncio.Future[Shares]


class Borrower:
    """Keeps the Pools port over a PoolAuthority, which it owns."""

    def __init__(self, authority: PoolAuthority, clock: Clock, holder: str, *, slack_s: float = SLACK_S) -> None:
        """`holder` names this process to its authority, and no other process."""
        self._authority = authority
        self._slack_s = slack_s
        self._clock = clock
        self._holder = holder
        self._numbers = itertools.count(1)
        self._waiters: dict[str, _Waiter] = {}
        self._whole = True
        self._answered_at_s = clock.monotonic_s()
        self._joins: dict[str, Ticket] = {}
        self._leaves: dict[str, None] = {}
        self._returns: dict[str, Return] = {}
        self._closings: dict[str, Closing] = {}
        self._heard: dict[str, None] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        authority.call(holder, self._news.set)

    async def reserve(self, wants: Sequence[Want], *, deadline_s: float, priority: int = 0) -> Shares:
        lent_s = deadline_s + self._slack_s
        for want in wants:
            _check(want, lent_s)
        ticket = Ticket(self._new_id(), priority, 0, int(lent_s * SECOND_US), claims(wants))
        if len(ticket.line) != len(set(ticket.line)):
            raise UsageError(f"One call wants the same pool twice: {', '.join(ticket.line)}. Nothing was reserved.")
        waiter = _Waiter(ticket, tuple(wants), asyncio.get_running_loop().create_future())
        self._wait(waiter)
        try:
            return await waiter.told
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def give_back(self, shares: Shares, used: Mapping[str, int]) -> None:
        refunds = [
            Refund(pool.name, cost_us(pool, amount) - cost_us(pool, used[pool.name]), int(pool.burst_s * SECOND_US))
            for pool, amount in ((want.pool, want.amount) for want in shares.wants)
            if pool.kind == "rate" and pool.name in used
        ]
        self._returns[shares.id] = Return(shares.id, tuple(refunds))
        self._tell()

    def close(self, pool: Pool, for_s: float) -> None:
        for_us, known = int(for_s * SECOND_US), self._closings.get(pool.name)
        for_us = for_us if known is None else max(for_us, known.for_us)
        self._closings[pool.name] = Closing(pool.name, for_us, int(pool.lease_s * SECOND_US))
        self._tell()

    async def show(self, pools: Sequence[Pool]) -> Sequence[Standing]:
        return await self._authority.show([pool.name for pool in pools])

    async def aclose(self) -> None:
        for waiter in list(self._waiters.values()):
            waiter.told.cancel()
            self._leave(waiter)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            try:
                async with asyncio.timeout(_LAST_WORD_S):
                    while self._has_news():
                        await self._visit()
            except (PoolsAway, TimeoutError):
                log.info("holdfast: the provider pools could not be told that this process ends; its slots lapse.")
        await self._authority.aclose()

    # --- What is to be said ------------------------------------------------------------------------------------------

    def _new_id(self) -> str:
        return f"{self._holder}.{next(self._numbers)}"

    def _wait(self, waiter: _Waiter) -> None:
        self._waiters[waiter.ticket.id] = waiter
        self._joins[waiter.ticket.id] = waiter.ticket
        self._tell()

    def _leave(self, waiter: _Waiter) -> None:
        """Say that it waits no more; if it was granted something meanwhile, its leaving gives that back."""
        self._waiters.pop(waiter.ticket.id, None)
        self._joins.pop(waiter.ticket.id, None)
        self._leaves[waiter.ticket.id] = None
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._attend(), name="holdfast-pools")

    def _has_news(self) -> bool:
        """That something was heard need not be said before the next visit: until then it is only told again."""
        return bool(self._joins or self._leaves or self._returns or self._closings)

    def _letter(self) -> Letter:
        def some(said: Mapping[str, object]) -> list[str]:
            return list(itertools.islice(said, _MOST_A_LETTER))

        return Letter(
            self._holder, self._whole or self._joins.keys() >= self._waiters.keys(),
            tuple(self._joins[name] for name in some(self._joins)),
            tuple(some(self._leaves)),
            tuple(self._returns[name] for name in some(self._returns)),
            tuple(self._closings[name] for name in some(self._closings)),
            tuple(some(self._heard)),
        )  # fmt: skip

    def _forget(self, letter: Letter) -> None:
        """What was said need not be said again."""
        for ticket in letter.joins:
            self._joins.pop(ticket.id, None)
        for ticket_id in (*letter.leaves, *letter.heard):
            self._leaves.pop(ticket_id, None)
            self._heard.pop(ticket_id, None)
        for returned in letter.returns:
            self._returns.pop(returned.ticket, None)
        for closing in letter.closings:
            if self._closings.get(closing.pool) == closing:
                del self._closings[closing.pool]

    # --- Visits ------------------------------------------------------------------------------------------------------

    async def _attend(self) -> None:
        """Visit for as long as there is somebody or something to visit for. What no waiting mends, who waits is told."""
        try:
            await self._keep_visiting()
        except Exception as problem:  # noqa: BLE001 - whatever it is, nobody must wait for ever
            waiters, self._waiters = self._waiters, {}
            self._joins.clear()
            for waiter in waiters.values():
                if not waiter.told.done():
                    waiter.told.set_exception(problem)

    async def _keep_visiting(self) -> None:
        failures = 0
        while self._waiters or self._has_news():
            self._news.clear()
            try:
                answer = await self._visit()
            except PoolsAway as problem:
                failures += 1
                if failures == len(_AWAY_S):
                    log.warning("holdfast: %s Calls wait until it is back.", problem.message)
                await self._clock.sleep(_AWAY_S[min(failures, len(_AWAY_S)) - 1])
                continue
            failures = 0
            if answer.known and self._waiters and not self._has_news():
                await self._rest(answer)

    async def _rest(self, answer: Answer) -> None:
        """Wait for news, but no longer than until time may have made room."""
        most_s = min(MOST_AWAY_S, self._authority.poll_s)
        away_s = most_s if answer.again_us < 0 else min(most_s, answer.again_us / SECOND_US + _SOON_S)
        try:
            async with asyncio.timeout(away_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def _visit(self) -> Answer:
        sent_at_s = self._clock.monotonic_s()
        if sent_at_s - self._answered_at_s > self._slack_s:
            self._join_again()  # what was granted meanwhile may have lapsed before it was heard of
        letter = self._letter()
        answer = await self._authority.visit(letter)
        self._answered_at_s = sent_at_s
        self._forget(letter)
        for number, ticket in enumerate(letter.joins):
            self._joined(ticket.id, answer.now_us + number)
        for ticket_id in answer.refused:
            self._refuse(ticket_id)
        for grant in answer.granted:
            self._hear(grant, sent_at_s)
        self._whole = not answer.known
        if self._whole:
            self._join_again()
        return answer

    def _join_again(self) -> None:
        """Name every ticket again: one that still stands in line, or was granted what it wants, stays as it is."""
        self._joins |= {id_: waiter.ticket for id_, waiter in self._waiters.items()}

    def _joined(self, ticket_id: str, now_us: int) -> None:
        """Remember since when it stands in line, so that it gets its place back from an authority that forgot it."""
        waiter = self._waiters.get(ticket_id)
        if waiter is not None and not waiter.ticket.joined_us:
            waiter.ticket = msgspec.structs.replace(waiter.ticket, joined_us=now_us)

    def _refuse(self, ticket_id: str) -> None:
        waiter = self._waiters.pop(ticket_id, None)
        if waiter is not None and not waiter.told.done():
            pools = ", ".join(waiter.ticket.line)
            waiter.told.set_exception(
                PoolLineFull(f"Too many calls wait for {pools} already. This one was not made; try again later.")
            )

    def _hear(self, grant: Grant, sent_at_s: float) -> None:
        self._heard[grant.ticket] = None
        waiter = self._waiters.pop(grant.ticket, None)
        if waiter is None:
            return  # heard of before, or it left meanwhile and its leaving gives it back
        ticket = waiter.ticket
        if grant.left_us < ticket.deadline_us - self._slack_s * SECOND_US:
            # This process was frozen or cut off for so long that the call might outlive what it was lent.
            self._returns[ticket.id] = unused(ticket.id, ticket.claims)
            waiter.ticket = msgspec.structs.replace(ticket, id=self._new_id())
            self._wait(waiter)
            return
        if not waiter.told.done():
            waiter.told.set_result(Shares(ticket.id, waiter.wants, sent_at_s + grant.left_us / SECOND_US))


def _check(want: Want, lent_s: float) -> None:
    pool = want.pool
    if want.amount < 0 or (pool.kind == "slots" and want.amount != 1):
        raise UsageError(f"A call cannot want {want.amount} of {pool.name}. Nothing was reserved.")
    if pool.kind == "slots" and lent_s > pool.lease_s:
        raise UsageError(
            f"{pool.name} lends for {pool.lease_s:g} s at most, and this call may take {lent_s:g} s, slack included."
            " Nothing was reserved: raise its lease_s, or give the call less time."
        )
