"""This process as one of those that work on a store: its session, whether that lives, how many attempts may work under it,
and how the process ends itself.

An attempt that waits for pools stands aside: others start meanwhile. When it goes on it has its slot at once, even where
that is one more than there are, for it holds parts of pools by then; nothing new starts before one is free again. Pools let
few in at a time, so that those many are few.

Never here: a run, a step, who gets a slot (executor), what this process does while its session lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from holdfast.core.values.ids import SessionId
from holdfast.engine.runs.catalog import Catalog
from holdfast.errors import StoreError
from holdfast.ports import Ids, Report, Sessions

log = logging.getLogger("holdfast")

_LONGEST_UNKNOWN_S: Final = 600.0
"""The time that a step waits to learn if its session lives: as long as it waits for a store that is away."""

MAX_ASIDE: Final = 5_000
"""So many attempts stand aside at most, each with what it has in memory; any more keep their slots, and so hold up what
would come after them."""


class Work(Protocol):
    """Work of a process while its session lives."""

    def report(self, session: SessionId) -> Report:
        """Return the process's report about itself."""
        ...

    def session_held(self) -> None:
        """It is known that the session lives, or there is a new one: what waited for that begins."""
        ...

    def session_lost(self) -> None:
        """The session is dead: what was done in its name is others' now."""
        ...

    def given_up(self) -> None:
        """Set when the process can no longer work: its callers get an error."""
        ...


class Membership:
    """Of one process. One that only asks and decides has no session."""

    def __init__(
        self, sessions: Sessions, ids: Ids, label: str, catalog: Catalog, work: Work, now_ms: Callable[[], int], *, works: bool
    ) -> None:
        """`label` says to people which process of which machine this is. One that `works` has a session. `now_ms` is the time
        of the store."""
        self.work = work
        self.works = works
        self._sessions = sessions
        self._ids = ids
        self._label = label
        self._catalog = catalog
        self.session: SessionId | None = None
        self.closing = False
        """Whether it leaves: it begins nothing more."""
        self.broken: BaseException | None = None
        """Why it can no longer work, if so."""
        self._now_ms = now_ms
        self._described: Report | None = None
        """The session's last report, without its time."""
        self._news: asyncio.Future[None] | None = None
        """Ends as soon as more is known of the session."""

    def alive(self, session: SessionId | None = None) -> bool:
        """True if this process holds a lease and, if `session` is given, still the one of that name."""
        held = self.session
        return held is not None and session in (None, held) and self.broken is None and self._sessions.alive(held)

    @property
    def lease_age_s(self) -> float | None:
        """Return the time since the lease was last known to be renewed; None without one."""
        return None if self.session is None else self._sessions.age_s(self.session)

    @property
    def may_begin(self) -> bool:
        """True if something may begin here, under the session that there is."""
        return not self.closing and self.alive()

    async def keeps(self, session: SessionId | None) -> bool:
        """Wait until it is known whether this process still has that session; true if it has.

        A lease that is over says nothing: a process that stood still, or whose store is away, may renew it as long as no other
        has found the session dead.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_UNKNOWN_S):
                while not self.alive(session) and self.session == session and self.broken is None:
                    if self._news is None:
                        self._news = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._news)
        return self.alive(session)

    def _tell(self) -> None:
        """Have those look again who wait for news of the session."""
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    def give_up(self, problem: BaseException) -> None:
        """Begin nothing more: waiting callers get an error, and another process can take over."""
        self.broken = problem
        self._tell()
        self.work.given_up()

    async def hold(self) -> None:
        """See that a process that works has a session that lives.

        A dead one never lives again: another found that this process stood still for longer than its lease, and its work is
        theirs now. It goes on under another name.
        """
        old = self.session
        if not self.works:
            return
        if old is not None and (self.alive() or await self._sessions.renew(old)):
            self._tell()
            self.work.session_held()
            return
        if old is not None:
            log.warning("holdfast stood still for longer than its lease: what it was doing is others' now (%s)", old)
            self.session = None
            self.work.session_lost()
            self._tell()
            await self._sessions.close(old)
        new, said = self._ids.session(), self._catalog.runnable
        self._described = self.work.report(new)
        await self._sessions.open(new, self._label, said, self._encoded(self._described))
        self.session = new
        if self._catalog.runnable != said:  # added while the session was being opened
            await self.widen()
        self.work.session_held()

    async def widen(self) -> None:
        """Have the session say which workflows can be run now."""
        if self.session is not None:
            await self._sessions.widen(self.session, self._catalog.runnable)

    async def describe(self) -> bool:
        """Have the session say what there is here, for those who ask why others wait; whether it had to say anything."""
        if self.session is None:
            return False
        described = self.work.report(self.session)
        if described == self._described:
            return False
        await self._sessions.describe(self.session, self._encoded(described))
        self._described = described
        return True

    def _encoded(self, report: Report) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(report, at_ms=self._now_ms()))

    async def aclose(self) -> None:
        """Give the session back."""
        if self.session is not None:
            # A store that cannot be reached finds out: no process holds the session's lock any more.
            with contextlib.suppress(StoreError):
                await self._sessions.close(self.session)


class Slots:
    """`most` attempts work at once."""

    def __init__(self, most: int, on_free: Callable[[], None]) -> None:
        self.most = most
        self.working = 0
        """Attempts, with those that stand aside."""
        self.starting = 0
        """Slots of steps whose start is on its way to the disk."""
        self._aside = 0
        self._on_free = on_free

    @property
    def free(self) -> int:
        """Below zero where attempts have gone on that had stood aside."""
        return self.most - self.working - self.starting + self._aside

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, an attempt needs no slot."""
        if self._aside >= MAX_ASIDE:
            yield
            return
        self._aside += 1
        self._on_free()
        try:
            yield
        finally:
            self._aside -= 1
