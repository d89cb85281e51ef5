"""Lending: how a pool above steps is divided among those who place steps, so that all together never exceed it.

A pool is declared once, in the store, which is its authority. It lends *shares* of it to holders: a leader of a lane, or
a process that places its steps by itself. A holder places against its share without asking anybody, and comes by now and
then (a visit) to say what it uses and wants, and what it gives back. What is lent is the holder's until it gives it back
or its session is dead: nothing is ever taken from the living, they are told their *target* and give back what is above
it, of slots as their jobs end. So the sum of what is lent stays within the limit, whatever anybody believes meanwhile.

Who gets what. Everybody who wants something is entitled to as much as he wants, and where that is too much for the pool,
to the same level (max-min fairness); what nobody wants is spread as well, so that the next job finds it there: a sole
holder has everything. A share too small for one job is of no use to anybody. So whoever is to have any has at least what
his next job needs, and where not all can, they take turns: whoever has waited longest first, whoever has had it longest
last. A job that takes of several pools waits for all of them, so his turn is the same in all. Nobody is asked for anything
while nobody else lacks it.

Rates. A share of a rate is a part of its limit and, in proportion, of its burst; its holder keeps a token bucket of that
size. The part that is not lent is a bucket as well, kept here. What is lent takes along its proportion of what the free
part has, and a share that comes back brings along what was in its bucket: water is moved and never made, so in any time
of t all holders together let out a burst and t times the rate at most. A share that its holder is told of late has only
filled later. What was let out and then not used comes back too, after its share where that is gone by then.

A provider that takes no more for a while closes its pool: nothing is lent of it meanwhile, whoever has a share is told to
let nothing out, and a rate is empty when it opens again.

Whole numbers, rounded against the borrower. Never here: a clock, a store, what a job asks for (demand).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.values.demand import LABEL
from holdfast.core.values.ids import SessionId

Kind = Literal["slots", "rate"]
Life = Literal["living", "lingering", "dead"]
RateUnit = Literal["requests", "tokens", "input_tokens", "output_tokens"]
COUNTED: Final[tuple[RateUnit, ...]] = ("requests", "tokens", "input_tokens", "output_tokens")

PERIODS_S: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
MAX_LIMIT: Final = 10**10
"""A bucket is counted in units × milliseconds: with this many units a day it still fits into 64 bits."""
LONGEST_PERIOD_S: Final = 86_400
_BURST_PART: Final = 10
"""Of a minute's rate, what goes out at once unless said otherwise is what six seconds let out. A provider's own bucket
mostly holds a whole minute's: the difference is what absorbs the milliseconds by which requests overtake one another."""
MAX_OUTLIVES_MS: Final = 3_600_000
MAX_CLOSED_MS: Final = 3_600_000
"""A provider that wants to be left alone for longer is asked once an hour, and says it again."""
_LONGEST_TENANT: Final = 768
"""A name of 256 bytes, each written as three characters."""
_PROVIDER: Final = re.compile(r"\S{1,200}")


class DeclaredPool(msgspec.Struct, frozen=True):
    """A limit on shared capacity: `limit` at a time (`slots`), or `limit` in each `per_s` seconds with `burst` at once
    (`rate`).

    `counts` is the unit at the provider of the model (or all models of the provider) `of`; None: the pool counts only what jobs
    declare. Slots have no `per_s` and no `burst`. A pool `NAME@TENANT` belongs to that tenant (whose name is written as in a
    URL): steps of the tenant that ask for NAME take from it.
    """

    name: str
    kind: Kind
    limit: int
    per_s: int = 0
    burst: int = 0
    counts: RateUnit | None = None
    of: str | None = None

    def problems(self) -> Iterator[str]:
        """Yield each problem, in words."""
        name, at, tenant = self.name.partition("@")
        if not LABEL.fullmatch(name):
            yield f"the name {self.name!r:.130} must be 1 to 100 characters without blanks and commas, like OPENAI_RPS"
        if at and (len(tenant) > _LONGEST_TENANT or not tenant or tenant != quote(unquote(tenant), safe="")):
            yield f"{tenant!r:.130} is no tenant as in a URL; NAME@TENANT is a tenant's pool, like OPENAI_RPS@acme"
        if not 1 <= self.limit <= MAX_LIMIT:
            yield f"its limit is {self.limit}; it must be 1 to {MAX_LIMIT}"
        if self.kind == "slots" and (self.per_s or self.burst):
            yield "slots are so many at a time; only a rate has a period and a burst"
        if self.kind == "rate" and not 1 <= self.per_s <= LONGEST_PERIOD_S:
            yield f"its period is {self.per_s} s; it must be 1 to {LONGEST_PERIOD_S}, a day"
        if self.kind == "rate" and not 1 <= self.burst <= MAX_LIMIT:
            yield f"its burst is {self.burst}; it must be 1 to {MAX_LIMIT}"
        if self.counts is not None and self.counts not in COUNTED:
            yield f"it counts {self.counts!r:.130}; what can be counted is {', '.join(COUNTED)}"
        if (self.counts is None) != (self.of is None):
            yield "what it counts and whose (a model or a provider) belong together"
        if self.of is not None and not _PROVIDER.fullmatch(self.of):
            yield f"{self.of!r:.130} is no name of a model or a provider; one is 1 to 200 characters without blanks"

    @property
    def tenant(self) -> str | None:
        """Return the tenant that owns the pool; None for a pool of all tenants."""
        _, at, tenant = self.name.partition("@")
        return unquote(tenant) if at else None

    @property
    def per_ms(self) -> int:
        return self.per_s * 1000

    def burst_of(self, share: int) -> int:
        """Return the capacity of the bucket of a share."""
        return 0 if self.kind == "slots" else self.burst * share // self.limit

    def full(self, share: int) -> int:
        """The same in units × milliseconds."""
        return 0 if self.kind == "slots" else self.burst * share * self.per_ms // self.limit

    def useful(self, amount: int) -> int:
        """The smallest share against which a job that takes `amount` can be placed; that of all, where none is."""
        if self.kind == "slots":
            return amount
        return min(self.limit, -(-amount * self.limit // self.burst))


def own_pools(amounts: Mapping[str, int | None], tenant: str, names: Container[str]) -> dict[str, int | None]:
    """Return what a step of a tenant asks for, with the tenant's own pools in the place of those with the same names."""
    owner = f"@{quote(tenant, safe='')}"
    return {own if (own := name + owner) in names else name: amount for name, amount in amounts.items()}


def declared_pool(
    name: str,
    *,
    slots: int | None = None,
    rate: int | None = None,
    per_s: int | None = None,
    burst: int | None = None,
    counts: RateUnit | None = None,
    of: str | None = None,
) -> DeclaredPool:
    """`slots` at a time, or a `rate` in each `per_s` seconds (1), a tenth of it at once unless `burst` says otherwise. What is
    wrong with it, its `problems` tell."""
    if rate is None:
        return DeclaredPool(name, "slots", slots or 0, per_s or 0, burst or 0, counts, of)
    at_once = max(1, rate // _BURST_PART) if burst is None else burst
    return DeclaredPool(name, "rate", rate, 1 if per_s is None else per_s, at_once, counts, of)


class Bucket(msgspec.Struct, frozen=True):
    """The part of a rate that is not lent, as of `at_ms`, in units × milliseconds; a negative level is a debt. From then on the
    pool lets nothing out for `closed_ms`.

    No future moment is ever kept. If the clock of `at_ms` is set back by a day, or starts from zero, no time has passed since.
    """

    level: int
    at_ms: int
    closed_ms: int = 0

    def passed_ms(self, now_ms: int) -> int:
        """Return the time since then, in milliseconds."""
        return max(0, now_ms - self.at_ms)


class PoolRow(msgspec.Struct, frozen=True):
    """A pool as its authority knows it."""

    pool: DeclaredPool
    bucket: Bucket

    def closed_ms(self, now_ms: int) -> int:
        """Return how much longer it is closed, in milliseconds."""
        return max(0, self.bucket.closed_ms - self.bucket.passed_ms(now_ms))


class Visitor(msgspec.Struct, frozen=True):
    """A holder that visits: `holder` is its name, and `session` keeps what it borrows.

    `number` grows with each visit of the same holder and session; a visit that arrives after a later one changes nothing.
    `outlives_ms` is how long the work it has placed may go on without it. For that long its share of slots stays taken after
    its death, unless another of the same name takes it over: the next leader of a lane takes over the last one's share. Units
    of a rate that it had let out left the bucket before.
    """

    holder: str
    session: SessionId
    number: int
    outlives_ms: int = 0


class Visit(msgspec.Struct, frozen=True):
    """A holder's report about one pool: `used` by what it has placed, and `wanted` in all, with what waits.

    `holds` is how much it keeps until it has the answer; it gives back what it was lent beyond that. `least` is what its next
    job takes (no job larger than the pool, which can never be placed). `owes` is how far its bucket of a rate is below empty,
    because jobs took more than was estimated; it counts if everything is given back, up to what the pool lets out in one
    period. `unused` is given back of a rate as well: what was in the bucket of a share that is given back, and what jobs did
    not use of it. `beside` are the other pools from which its next job takes something. `closes_ms`: for that long the provider
    behind the pool takes nothing more.
    """

    pool: str
    used: int
    wanted: int
    holds: int
    least: int = 1
    owes: int = 0
    beside: tuple[str, ...] = ()
    unused: int = 0
    closes_ms: int = 0


class Share(msgspec.Struct, frozen=True):
    """A holder's share of a pool, with its last report.

    `is_short`: it cannot place its next job, because this pool or one beside it is short; `since_ms` is when that last changed.
    A share is `lingering` if its session is dead and work placed against it may still be running.
    """

    pool: str
    holder: str
    session: SessionId
    granted: int = 0
    used: int = 0
    wanted: int = 0
    least: int = 1
    is_short: bool = False
    since_ms: int = 0
    number: int = 0
    outlives_ms: int = 0
    life: Life = "living"

    @property
    def key(self) -> tuple[str, str, SessionId]:
        return (self.pool, self.holder, self.session)

    @property
    def turn(self) -> tuple[bool, int, str, str]:
        """Return the sort key for turns: the longest wait comes first, then the shortest hold."""
        return (not self.is_short, self.since_ms if self.is_short else -self.since_ms, self.holder, self.session)


class Grant(msgspec.Struct, frozen=True):
    """A holder's part of a pool after its visit, and the part it should have.

    `filled` goes into its bucket now, once: the content of the part of a rate that it was newly lent. `least` is its report of
    what its next job takes. It lets nothing out for `closed_ms`.
    """

    pool: DeclaredPool
    granted: int
    target: int
    filled: int = 0
    least: int = 1
    closed_ms: int = 0

    @property
    def share(self) -> int:
        """Return how much it may keep."""
        return min(self.granted, self.target)

    @property
    def usable(self) -> int:
        """Up to where new jobs may be placed; what runs beyond that may go on. Nothing of a rate whose bucket is too small
        for the next job: that would take more at once than the share is worth."""
        return self.share if self.pool.kind == "slots" or self.share >= self.pool.useful(self.least) else 0

    @property
    def burst(self) -> int:
        """Return the capacity of the holder's bucket; 0 while nothing is usable."""
        return self.pool.burst_of(self.usable)


class LendingResult(NamedTuple):
    """The changes and answers of some visits: rows to write, shares to delete, and grants."""

    buckets: dict[str, Bucket]
    shares: list[Share]
    gone: list[Share]
    grants: list[Grant]


# --- A visit ------------------------------------------------------------------------------------------------------------


def lend(
    pools: Iterable[PoolRow], shares: Sequence[Share], visitor: Visitor, visits: Iterable[Visit], now_ms: int
) -> LendingResult:
    """Answer the visits of one holder, which lives. `shares` are all that the authority knows of these pools; a visit of a
    pool that is not there gets no answer."""
    rows = {row.pool.name: row for row in pools}
    lent = LendingResult({}, [], [], [])
    heard: dict[str, _VisitResult] = {}
    for visit in visits:
        if (row := rows.get(visit.pool)) is not None:
            known = [share for share in shares if share.pool == visit.pool]
            if (came := _lend(row, known, visitor, visit, now_ms, lent)) is not None:
                heard[visit.pool] = came
    lent.shares.extend(_in_turn(heard, now_ms))
    return lent


class _VisitResult(NamedTuple):
    """The result of one visit: the share before and after it, and whether it is too small for the next job."""

    visit: Visit
    before: Share
    after: Share
    lacks: bool


def _lend(
    row: PoolRow, shares: Sequence[Share], visitor: Visitor, visit: Visit, now_ms: int, loan: LendingResult
) -> _VisitResult | None:
    """Return the result of the visit, beside what is in `loan` now; None if it arrived too late."""
    pool = row.pool
    key = (pool.name, visitor.holder, visitor.session)
    before = next((share for share in shares if share.key == key), Share(*key, since_ms=now_ms))
    closed_ms = max(row.closed_ms(now_ms), min(visit.closes_ms, MAX_CLOSED_MS))
    if visitor.number <= before.number:
        loan.grants.append(Grant(pool, before.granted, before.granted, least=visit.least, closed_ms=closed_ms))
        return None
    inherited = [share for share in shares if share.life == "lingering" and share.holder == visitor.holder]
    gone = [*inherited, *(share for share in shares if share.life == "dead")]
    others = [share for share in shares if share.key != key and share not in gone]
    mine = _remaining_share(pool, before, inherited, visitor, visit)
    level = _settled(pool, _refilled(row, _free(pool, shares), now_ms), _unused(before, visit))
    target = _target(pool, mine, others)
    free = _free(pool, [mine, *others])
    if closed_ms:
        level, filled = min(level, 0), 0
    else:
        given = max(0, min(target - mine.granted, free))
        mine = msgspec.structs.replace(mine, granted=mine.granted + given)
        level, filled = _poured(pool, level, given, free, spills=mine.granted > 0)
    loan.buckets[pool.name] = Bucket(level, now_ms, closed_ms)
    loan.gone.extend(gone)
    loan.grants.append(Grant(pool, mine.granted, target, filled, visit.least, closed_ms))
    return _VisitResult(visit, before, mine, _lacks(pool, mine))


def _remaining_share(pool: DeclaredPool, before: Share, inherited: Sequence[Share], visitor: Visitor, visit: Visit) -> Share:
    """The visitor's share without what it gives back and with what it takes over, as it speaks of it now."""
    return Share(
        *before.key,
        min(before.granted, visit.holds) + _granted(inherited),
        visit.used,
        max(visit.wanted, visit.used),
        visit.least,
        before.is_short,
        before.since_ms,
        visitor.number,
        visitor.outlives_ms if pool.kind == "slots" else 0,
    )


def _unused(before: Share, visit: Visit) -> int:
    """Return what the visit gives back of a rate. A holder that gives back everything is rid of its debt as well."""
    return visit.unused - (visit.owes if before.granted and not visit.holds else 0)


def _lacks(pool: DeclaredPool, share: Share) -> bool:
    """True if the holder cannot place its next job because this pool is short."""
    needed = pool.useful(share.least) + (share.used if pool.kind == "slots" else 0)
    return share.wanted > share.used and share.granted < needed


def _in_turn(reports: Mapping[str, _VisitResult], now_ms: int) -> Iterator[Share]:
    """The shares, each with its holder's place among those who wait for turns.

    He waits for all the pools of a job as long as he lacks one of them, and in all since the same moment, also in one of which
    another job of his comes first. Were each pool's turns its own, two holders that have one pool each could take them from
    one another for ever, or keep them.
    """
    places: dict[str, Share] = {}
    together = {name: _together(name, reports) for name in reports}
    for name, (_, before, after, _) in reports.items():
        is_short = any(reports[each].lacks for each in together[name])
        since_ms = before.since_ms if is_short == before.is_short else now_ms
        places[name] = msgspec.structs.replace(after, is_short=is_short, since_ms=since_ms)
    for name, share in places.items():
        waits_ms = [places[each].since_ms for each in together[name] if places[each].is_short]
        yield msgspec.structs.replace(share, since_ms=min(waits_ms)) if share.is_short else share


def _together(name: str, reports: Mapping[str, _VisitResult]) -> set[str]:
    """The pools that are waited for together with this one: those of its next job, and of the jobs that wait for it beside
    another pool."""
    found, new = {name}, {name}
    while new:  # at most once for each pool
        new = {
            each
            for each in reports
            if each not in found and any(each in reports[of].visit.beside or of in reports[each].visit.beside for of in new)
        }
        found |= new
    return found


def _granted(shares: Iterable[Share]) -> int:
    return sum(share.granted for share in shares)


def _free(pool: DeclaredPool, shares: Iterable[Share]) -> int:
    """Return how much is not lent. (After the limit was lowered, more than the limit may be lent.)"""
    return max(0, pool.limit - _granted(shares))


# --- The free part of a rate --------------------------------------------------------------------------------------------


def _refilled(row: PoolRow, free: int, now_ms: int) -> int:
    """Return the content of the free part now; it has had this size since the last look. Content above its capacity stays until
    it is lent."""
    open_ms = max(0, row.bucket.passed_ms(now_ms) - row.bucket.closed_ms)
    return min(max(row.pool.full(free), row.bucket.level), row.bucket.level + free * open_ms)


def _settled(pool: DeclaredPool, level: int, unused: int) -> int:
    """Return the content with `unused` that is given back, or without what is owed."""
    if pool.kind == "slots":
        return 0
    highest, lowest = pool.full(pool.limit), -pool.limit * pool.per_ms
    return max(lowest, min(max(level, highest), level + unused * pool.per_ms))


def _poured(pool: DeclaredPool, level: int, amount: int, free: int, *, spills: bool) -> tuple[int, int]:
    """Return what stays in the free part after `amount` of it is lent, and the whole units that go along. If it `spills`,
    content above the capacity of the rest goes along too."""
    if pool.kind == "slots":
        return 0, 0
    moved = level * amount // free if amount else 0
    if spills:
        moved = max(moved, level - pool.full(free - amount))
    filled = moved // pool.per_ms
    return level - filled * pool.per_ms, filled


def declared(pool: DeclaredPool, row: PoolRow | None, now_ms: int) -> PoolRow:
    """Return a pool as it begins, or goes on with new figures. A new one is full. One that counts in another period begins
    empty; otherwise it keeps what it had when it was last looked at, as far as it still holds that: at what rate it has filled
    since depends on the old figures. One that is closed stays so."""
    if row is None:
        return PoolRow(pool, Bucket(pool.full(pool.limit), now_ms))
    is_same = (row.pool.kind, row.pool.per_s) == (pool.kind, pool.per_s)
    return PoolRow(pool, Bucket(row.bucket.level if is_same else 0, now_ms, row.closed_ms(now_ms)))


# --- Who is entitled to what --------------------------------------------------------------------------------------------

Targets = dict[tuple[str, str, SessionId], int]
"""By the keys of shares."""


def _target(pool: DeclaredPool, mine: Share, others: Sequence[Share]) -> int:
    """Return the share the visitor should have. It keeps what it has as long as all others have what they want, or what they
    are entitled to of that."""
    living = [share for share in others if share.life == "living"]
    capacity = max(0, pool.limit - _granted(share for share in others if share.life == "lingering"))
    targets = divide(pool, capacity, [mine, *living])
    if any(share.granted < min(targets[share.key], pool.useful(share.wanted)) for share in living):
        return targets[mine.key]
    left = max(0, capacity - _granted(living))
    return max(targets[mine.key], min(mine.granted, left))


def divide(pool: DeclaredPool, capacity: int, shares: Sequence[Share]) -> Targets:
    """Return the share of `capacity` that each living holder should have."""
    left, least = capacity, Targets()
    for share in sorted(shares, key=lambda each: each.turn):
        needed = pool.useful(min(share.least, share.wanted))
        if 0 < needed <= left:
            least[share.key] = needed
            left -= needed
    wants = {share.key: min(capacity, max(share.wanted, least[share.key])) for share in shares if share.key in least}
    everything = dict.fromkeys(wants, capacity)
    suffices = sum(wants.values()) <= capacity
    levelled = _levelled(capacity, wants, everything) if suffices else _levelled(capacity, least, wants)
    return {share.key: levelled.get(share.key, 0) for share in shares}


def _levelled(capacity: int, floors: Targets, ceilings: Targets) -> Targets:
    """All at the same level, each between his floor and his ceiling, as high as `capacity` allows."""
    low, high = 0, capacity
    while low < high:
        level = (low + high + 1) // 2
        if sum(max(floors[key], min(level, ceilings[key])) for key in ceilings) <= capacity:
            low = level
        else:
            high = level - 1
    found = {key: max(floors[key], min(low, ceilings[key])) for key in sorted(ceilings)}
    left = capacity - sum(found.values())
    for key, amount in found.items():
        if left and amount == low < ceilings[key]:
            found[key] = amount + 1
            left -= 1
    return found
