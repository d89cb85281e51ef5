"""This process's shares of pools: what it says to the store that lends them, and up to where it may place.

Whoever places asks nobody: he is told whenever what he has changes. The store is visited when something is lacking or can
be given back, and once a second while anything is wanted or held, so that a pool's new figures and others' wants are
noticed. Nothing is visited for while nothing is wanted.

What a visit would give back is no longer used before the visit leaves, and what it was lent is not used before its answer
is here: so it does not matter which of them get lost. When the lease is over, nothing is held.

Never here: how a pool is divided (core.capacity.lending), which job is next (scheduling).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from holdfast.core.capacity.lending import DeclaredPool, Grant, Visit, Visitor
from holdfast.core.values.ids import SessionId
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import Conflict, StoreError
from holdfast.ports import Clock, Lending, Sessions

EVERY_S: Final = 1.0
"""Between two visits, while anything is wanted or held."""
SHORT_S: Final = 0.1
"""Between the first two visits of a holder that lacks something; then twice as long each time, up to EVERY_S."""
SHORTEST_S: Final = 0.05
"""Between two visits when there is news: what happens meanwhile is said together."""
_LAST_WORD_S: Final = 2.0
LOOK_S: Final = 0.2
"""How often to see that the lease is not over, while anything is held."""


class Need(msgspec.Struct, frozen=True):
    """This process's need of a pool: `used` by what it has placed, `wanted` in all, with what waits. `least` is what its next
    job takes, and `owes` is how far its bucket of a rate is below empty."""

    used: int = 0
    wanted: int = 0
    least: int = 1
    owes: int = 0
    beside: tuple[str, ...] = ()
    watched: bool = False
    """True if a job waits for it, be it for more than exists: then it has to be known when there is more."""

    @property
    def is_nothing(self) -> bool:
        return not (self.used or self.wanted or self.owes or self.watched)


_NOTHING: Final = Need()

Changed = Callable[[str, Grant | None], int]
"""Called with a pool's name and what it has now: jobs may be placed up to `usable`, and of a rate `filled` is in the bucket in
addition. None without such a pool. Returns what was in a rate's bucket and no longer fits."""


class PoolShares:
    """The loans of one holder, of all the pools that it needs."""

    def __init__(
        self,
        lending: Lending,
        sessions: Sessions,
        clock: Clock,
        holder: str,
        session: Callable[[], SessionId | None],
        changed: Changed,
        *,
        outlives_s: float = 0.0,
    ) -> None:
        """`holder` is the same for the successor of this one (the leader of a lane), and no other's. `session` names what keeps
        the shares for now. `outlives_s`: how long what was placed may run on when this process is dead."""
        self._lending = lending
        self._sessions = sessions
        self._clock = clock
        self._holder = holder
        self._session_of = session
        self._changed = changed
        self._outlives_ms = int(outlives_s * 1000)
        self._session: SessionId | None = None
        self._number = 0
        self._needs: Mapping[str, Need] = {}
        self._told: dict[str, Need] = {}
        """What the store has acknowledged that it knows."""
        self._heard_s: dict[str, float] = {}
        """When the latest visit left whose answer said what there is of a pool."""
        self._unused: dict[str, int] = {}
        """What comes back to the store of rates with the next visit. It is said once: what is lost on the way was spent."""
        self._closes_s: dict[str, float] = {}
        """Pools that are closed here, until when, and which were not reported to the store yet."""
        self._wait_s = EVERY_S
        self._unsure: set[str] = set()
        """Pools of which the store may think that more is held here than is: the answer of a visit never came, or the lease
        was over for a while."""
        self._held: dict[str, Grant] = {}
        self._outage = Outage("holdfast cannot reach its pools, and keeps what it has of them: %s", EVERY_S)
        self._news = asyncio.Event()
        self._loop: BackgroundLoop | None = None

    def start(self, broken: Callable[[BaseException], None]) -> None:
        """`broken` is called about a fault of ours, after which nothing is held any more."""

        def give_up(problem: BaseException) -> None:
            broken(problem)
            self._lose()

        fault = "holdfast can no longer keep its shares of pools, and holds none"
        self._loop = BackgroundLoop("holdfast-pool-shares", self._attend, self._clock, give_up, fault=fault)
        self._loop.start()

    async def aclose(self) -> None:
        """Visit no more. What is held is free with the session."""
        if self._loop is not None:
            await self._loop.aclose()

    async def give_back(self) -> None:
        """Nothing is in use or wanted any more: what is held is others' from now on. While the store is away, it is free
        when the session is dead."""
        self._needs = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_S):
                await self.visit()

    def need(self, needs: Mapping[str, Need]) -> None:
        """Say what is needed now; to be said at once whenever anything was placed. Nothing is needed of other pools."""
        self._needs = needs
        if any(self._matters(name) for name in self._names()):
            self._news.set()

    def return_unused(self, pool: str, amount: int) -> None:
        """So much of a rate was let out against a share that is gone, and not used."""
        self._unused[pool] = self._unused.get(pool, 0) + amount
        self._news.set()

    def close(self, pool: str, until_s: float) -> None:
        """Close the pool until then: the provider behind it takes nothing more, and every holder has to learn that."""
        self._closes_s[pool] = max(until_s, self._closes_s.get(pool, -math.inf))
        self._news.set()

    def usable(self, pool: str) -> int:
        """Up to where jobs may be placed against a pool, at this moment."""
        held = self._held.get(pool)
        if held is None or self._session is None or not self._sessions.alive(self._session):
            return 0
        return held.usable

    def declared(self) -> dict[str, DeclaredPool]:
        """The pools of which something is held, as the latest visit found them declared."""
        return {name: held.pool for name, held in self._held.items()}

    def has_heard(self, pool: str, since_s: float) -> bool:
        """True if the store was asked since then how much of a pool is free, and has answered."""
        return self._heard_s.get(pool, -math.inf) >= since_s

    def lose(self) -> None:
        """The session is dead: what it kept is others' from now on, and not of the session that comes next."""
        self._lose()

    async def visit(self) -> None:
        """Say what is needed and given back, and hear what there is. Not twice at once."""
        self._look()
        session, names = self._session, self._names()
        if session is None or not names:
            return
        said = {name: self._needs.get(name, _NOTHING) for name in names}
        left_s = self._clock.monotonic_s()
        closes = {name: self._closes_s.pop(name) for name in names if name in self._closes_s}
        visits = [self._create_visit(name, need, closes.get(name, left_s) - left_s) for name, need in said.items()]
        self._number += 1
        self._unsure.update(names)
        try:
            grants = await self._lending.lend(Visitor(self._holder, session, self._number, self._outlives_ms), visits)
        except Conflict:
            self._lose()
        except StoreError as problem:
            self._closes_s = closes | self._closes_s
            self._outage.goes_on(problem)
        else:
            self._outage.ends()
            if session == self._session:
                self._hear(said, {grant.pool.name: grant for grant in grants}, left_s)

    # --- What is to be sent -------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        wanted = {name for name, need in self._needs.items() if not need.is_nothing}
        return sorted(wanted | self._held.keys() | self._unsure | self._closes_s.keys() | self._unused.keys())

    def _is_short(self, name: str) -> bool:
        """True if its next job cannot be placed because the pool is short."""
        need, held = self._needs[name], self._held.get(name)
        if held is None:
            return need.wanted > need.used
        used = need.used if held.pool.kind == "slots" else 0
        return need.wanted > need.used and held.share < held.pool.useful(need.least) + used

    def _matters(self, name: str) -> bool:
        """True if the store should know at once."""
        if name in self._closes_s:
            return True
        need, held = self._needs.get(name, _NOTHING), self._held.get(name)
        if need.watched and name not in self._told:
            return True  # nothing is wanted of a pool that is too small; only a visit tells when it no longer is
        has = held.usable if held is not None else 0
        if need.wanted > has and self._told.get(name, _NOTHING).wanted <= has:
            return True
        if held is None or need.is_nothing:
            return False
        return held.granted > self._retained_amount(held, need) or held.pool.useful(held.least) < held.pool.useful(need.least)

    def _retained_amount(self, held: Grant, need: Need) -> int:
        """Return how much is not given back: what may be kept, and of slots what is in use; nothing if nothing is needed."""
        if need.is_nothing:
            return 0
        return min(held.granted, max(need.used, held.share)) if held.pool.kind == "slots" else held.share

    def _create_visit(self, name: str, need: Need, closes_s: float) -> Visit:
        """The visit of one pool; what it gives back is used no more from now on."""
        held, kept = self._held.get(name), 0
        if held is not None:
            kept = self._retained_amount(held, need)
            self._have(name, msgspec.structs.replace(held, granted=kept, filled=0, least=need.least, closed_ms=0))
        return Visit(
            name,
            need.used,
            need.wanted,
            kept,
            need.least,
            need.owes,
            need.beside,
            self._unused.pop(name, 0),
            max(0, math.ceil(closes_s * 1000)),
        )

    # --- What is heard ------------------------------------------------------------------------------------------------

    def _hear(self, needs: Mapping[str, Need], grants: Mapping[str, Grant], left_s: float) -> None:
        for name, need in needs.items():
            self._unsure.discard(name)
            self._heard_s[name] = left_s
            if (grant := grants.get(name)) is not None:
                self._have(name, grant)
            elif self._held.pop(name, None) is not None or name not in self._told:
                self._changed(name, None)
            if need.is_nothing:
                if (left := self._held.pop(name, None)) is not None and left.granted:
                    self._unsure.add(name)  # it was a dead one's of the same name: the next visit gives it back
                self._told.pop(name, None)
                self._heard_s.pop(name)
            else:
                self._told[name] = need
        if any(self._matters(name) for name in self._names()):
            self._news.set()

    def _have(self, name: str, grant: Grant) -> None:
        known = self._held.get(name)
        self._held[name] = msgspec.structs.replace(grant, filled=0, closed_ms=0)
        is_other = known is None or (known.pool, known.usable) != (grant.pool, grant.usable)
        if (is_other or grant.filled or grant.closed_ms) and (left := self._changed(name, grant)):
            self._unused[name] = self._unused.get(name, 0) + left

    def _look(self) -> None:
        """See what session there is, and that it lives."""
        session = self._session_of()
        if session is not None and not self._sessions.alive(session):
            session = None
        if session != self._session:
            self._lose()
            self._session = session

    def _lose(self) -> None:
        """The session is dead, and what it kept is others' now."""
        lost, self._held = self._held, {}
        self._session = None
        self._heard_s.clear()
        self._told.clear()
        self._unused.clear()
        self._unsure.update(lost)
        for name, held in lost.items():
            self._changed(name, Grant(held.pool, 0, 0))

    # --- Visits -------------------------------------------------------------------------------------------------------

    async def _attend(self) -> float:
        await self._rest()
        self._news.clear()
        await self._visit()
        return SHORTEST_S

    async def _rest(self) -> None:
        """Until there is news, or it is time."""
        if not self._names():
            await self._news.wait()
            return
        is_short = any(self._is_short(name) for name in self._needs)
        self._wait_s = min(EVERY_S, 2 * self._wait_s if is_short else SHORT_S / 2)
        until_s = self._clock.monotonic_s() + (self._wait_s if is_short else EVERY_S)
        while (left_s := until_s - self._clock.monotonic_s()) > 0 and not self._news.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, LOOK_S)):
                    await self._news.wait()
            self._look()

    async def _visit(self) -> None:
        """Visit, and notice meanwhile when the lease is over."""
        visit = asyncio.create_task(self.visit())
        try:
            while not visit.done():
                await asyncio.wait([visit], timeout=LOOK_S)
                self._look()
        finally:
            visit.cancel()  # an answer without a waiter changes nothing: the next visit has a higher number
            await asyncio.wait([visit])
        visit.result()
