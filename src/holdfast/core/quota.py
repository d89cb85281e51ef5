"""Quotas: what a provider lets through, as pools that are lent from; who of those who wait goes first.

A pool of a *rate* is a token bucket as providers keep them: it refills continuously, and holds at most a burst. It is
kept as one number, the moment at which it was (or will be) empty, so amounts are counted in the microseconds that the
pool takes to refill them (the generic cell rate algorithm of ATM, ITU-T I.371). Whole numbers, rounded against the
borrower, make every authority count alike. A pool of *slots* lends places; a place comes back when it is given back, or
at its share's hard deadline, when the call that has it can no longer be running.

Why a burst of seconds is enough, and why it must be less than the provider's: where the pool is always short, the order
in which calls arrive and the milliseconds they take differ from ours. The provider's bucket then has more in it than
ours by the difference of the two capacities, and that difference is what absorbs them. A bucket that is never full
loses nothing, however small it is: the throughput is the refill.

Who goes first. Among those who wait, a higher priority goes first, and within a priority whoever came first. Nobody is
granted a part of what he wants. Whoever comes too early keeps what he is short of from all behind him, and nothing else:
so a large request is not starved by small ones, and a model that its provider has closed does not close the others of
that provider. (A call's pools are nested, a model's in its provider's. Whoever competes for the narrow one then competes
for the wide one as well, and cannot take it while somebody before him is short of it.)

Never here: a clock, a wait, a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US

BURST_S: Final = 6.0
"""What a pool of a rate holds at most: a tenth of what providers do, whose buckets hold a minute's worth."""

LEASE_S: Final = 10.0
"""How long a pool whose record was lost stays closed, where nothing that was lent can still be running."""

MOST_WAITING: Final = 10_000
"""In one line; beyond that, whoever comes is told so instead of waiting for hours."""


class Pool(msgspec.Struct, frozen=True):
    """What is limited, and to how much: so much a minute (`rate`), or so much at a time (`slots`).

    `lease_s` bounds how long anything lent may be out. For so long a pool stays closed whose record was lost: until
    then, what was lent before may still be in use.
    """

    name: str
    kind: Literal["rate", "slots"]
    limit: int
    burst_s: float = BURST_S
    lease_s: float = LEASE_S


class Want(msgspec.Struct, frozen=True):
    """How much of a pool a call wants; of slots always one."""

    pool: Pool
    amount: int = 1


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A want in the terms of the pool's authority: `cost_us` of a rate, or one of `slots` (0 for a rate)."""

    pool: str
    cost_us: int
    burst_us: int
    slots: int
    lease_us: int

    @property
    def need_us(self) -> int:
        """How full the pool must be. More than it can hold it cannot be: then it goes below empty, and pays later."""
        return min(self.cost_us, self.burst_us)


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A place in line. `joined_us` is when its authority first saw it, 0 before; `deadline_us` how long it may have what
    it wants."""

    id: str
    priority: int
    joined_us: int
    deadline_us: int
    claims: tuple[Claim, ...]

    @property
    def place(self) -> tuple[int, int, str]:
        return (-self.priority, self.joined_us, self.id)

    @property
    def line(self) -> tuple[str, ...]:
        """Those who want the same pools stand in one line: where its first cannot go, nobody in it can."""
        return tuple(claim.pool for claim in self.claims)


class Refund(msgspec.Struct, frozen=True, array_like=True):
    """What was not used of a rate; below zero, what was used beyond what was lent."""

    pool: str
    unused_us: int
    burst_us: int


class Return(msgspec.Struct, frozen=True, array_like=True):
    """What was lent to a ticket comes back: all its slots, and of its rates what was not used."""

    ticket: str
    refunds: tuple[Refund, ...]


def unused(ticket: str, claims: Sequence[Claim]) -> Return:
    """A return of everything that `claims` were granted."""
    return Return(ticket, tuple(Refund(each.pool, each.cost_us, each.burst_us) for each in claims if not each.slots))


class Closing(msgspec.Struct, frozen=True, array_like=True):
    """A provider said that it takes no more for a while: nothing is lent meanwhile, and then the pool is empty."""

    pool: str
    for_us: int
    lease_us: int


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """What a process has to say to its authority in one visit. Saying it twice changes nothing.

    `whole`: it names every ticket that the process waits with, because the authority has forgotten the process.
    """

    holder: str
    whole: bool
    joins: tuple[Ticket, ...] = ()
    leaves: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()
    closings: tuple[Closing, ...] = ()
    heard: tuple[str, ...] = ()
    """Grants that were heard of; until then they are told again."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """What a ticket waited for is lent, for `left_us` from now on."""

    ticket: str
    left_us: int


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What an authority has to say. `known`: False when it has forgotten the process, and its tickets with it.

    `again_us`: nothing can be granted sooner, as far as time alone decides; -1 when it does not.
    """

    known: bool
    now_us: int
    granted: tuple[Grant, ...]
    refused: tuple[str, ...]
    again_us: int


def claim(want: Want) -> Claim:
    pool = want.pool
    lease_us = int(pool.lease_s * SECOND_US)
    if pool.kind == "slots":
        return Claim(pool.name, 0, 0, pool.limit, lease_us)
    return Claim(pool.name, cost_us(pool, want.amount), int(pool.burst_s * SECOND_US), 0, lease_us)


def cost_us(pool: Pool, amount: int) -> int:
    """How long a pool of a rate takes to refill `amount`."""
    return -(-amount * MINUTE_US // pool.limit)


def claims(wants: Sequence[Want]) -> tuple[Claim, ...]:
    """In the order of their names, so that equal wants stand in one line."""
    return tuple(sorted((claim(want) for want in wants), key=lambda each: each.pool))


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How a pool stands, for whoever asks: both times in the authority's, `taken` of its slots, `waiting` for it."""

    pool: str
    now_us: int
    empty_at_us: int
    closed_until_us: int
    taken: int
    waiting: int


class Level:
    """How a pool stands during one visit to its authority, from its record and from what is lent of it."""

    __slots__ = ("_refilled", "closed_until_us", "empty_at_us", "next_free_us", "taken")

    def __init__(self, empty_at_us: int, closed_until_us: int, taken: int = 0, next_free_us: int = 0) -> None:
        self.empty_at_us = empty_at_us
        self.closed_until_us = closed_until_us
        self.taken = taken
        self.next_free_us = next_free_us
        """When the first of the slots that are taken comes back by itself."""
        self._refilled = False

    @classmethod
    def full(cls) -> Level:
        """A pool that was never lent from."""
        return cls(0, 0)

    @classmethod
    def lost(cls, now_us: int, lease_us: int) -> Level:
        """A pool whose record is gone: what was lent of it, nobody can know."""
        return cls(now_us, now_us + lease_us)

    def refund(self, refund: Refund, now_us: int) -> None:
        """What comes back may fill the pool above its burst until the end of this visit: those who wait had no chance
        to take it."""
        self._refill(refund.burst_us, now_us)
        self.empty_at_us -= refund.unused_us

    def close(self, for_us: int, now_us: int) -> None:
        self.closed_until_us = max(self.closed_until_us, now_us + for_us)
        self.empty_at_us = max(self.empty_at_us, self.closed_until_us)

    def wait_us(self, claim: Claim, now_us: int) -> int:
        """How long until there is enough for `claim`, if nobody else comes; 0 for now."""
        closed_us = max(0, self.closed_until_us - now_us)
        if claim.slots:
            return closed_us if self.taken < claim.slots else max(1, closed_us, self.next_free_us - now_us)
        self._refill(claim.burst_us, now_us)
        return max(closed_us, self.empty_at_us + claim.need_us - now_us)

    def take(self, claim: Claim, deadline_us: int) -> None:
        if claim.slots:
            self.next_free_us = min(self.next_free_us, deadline_us) if self.taken else deadline_us
            self.taken += 1
        self.empty_at_us += claim.cost_us

    def _refill(self, burst_us: int, now_us: int) -> None:
        if not self._refilled:
            self.empty_at_us = max(self.empty_at_us, now_us - burst_us)
            self._refilled = True


class Turn(NamedTuple):
    """Who can go now, who can go next, and how long until then if nobody gives anything back."""

    granted: list[Ticket]
    next: Ticket | None
    again_us: int


def serve(levels: Mapping[str, Level], lines: Iterable[Iterable[Ticket]], now_us: int) -> Turn:
    """Grant what can be granted now. Each of `lines` is in order, and all in one want the same pools."""
    granted: list[Ticket] = []
    kept: set[str] = set()
    upcoming, again_us = None, -1
    heads: list[tuple[Ticket, Iterator[Ticket]]] = []
    for line in lines:
        _step_up(heads, iter(line))
    while heads:
        first = min(heads, key=lambda head: head[0].place)
        heads.remove(first)
        ticket, others = first
        waits_us = {claim.pool: levels[claim.pool].wait_us(claim, now_us) for claim in ticket.claims}
        short = {pool for pool, wait_us in waits_us.items() if wait_us > 0 or pool in kept}
        if not short:
            for claim in ticket.claims:
                levels[claim.pool].take(claim, now_us + ticket.deadline_us)
            granted.append(ticket)
            _step_up(heads, others)
            continue
        if not short & kept:
            wait_us = max(waits_us.values())
            if upcoming is None or wait_us < again_us:
                upcoming, again_us = ticket, wait_us
        kept |= short
    return Turn(granted, upcoming, again_us)


def _step_up(heads: list[tuple[Ticket, Iterator[Ticket]]], line: Iterator[Ticket]) -> None:
    ticket = next(line, None)
    if ticket is not None:
        heads.append((ticket, line))
