"""Carries the appends of many runs to the store together: while one flush is on its way to the disk, the next gathers.

Never here: deciding, retrying a conflict (the mailbox does).
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Final, NamedTuple

from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.ports import Append, Clock, Flushed, Log

MOST_APPENDS: Final = 256
"""One flush; more wait for the next, so that a commit's latency stays bounded."""
_PAUSE_S: Final = 0.25
PATIENCE_S: Final = 5.0
"""How long those wait for a store that is away who can be told that nothing is known: a person, a program outside."""
_MOST_PATIENCE_S: Final = 600.0
"""How long the work of this process waits. A step that cannot know whether its intent was taken can do nothing else."""


class _Waiting(NamedTuple):
    append: Append
    done: asyncio.Future[None]
    patient: bool


class Flush:
    """Group commit. At most one append of each run is under way, because a mailbox waits for its own."""

    def __init__(self, log: Log, clock: Clock, observers: Observers = NOBODY) -> None:
        self._log = log
        self._clock = clock
        self._observers = observers
        self._waiting: list[_Waiting] = []
        self._carrier: asyncio.Task[None] | None = None

    def append(self, append: Append, *, patient: bool = False) -> asyncio.Future[None]:
        """Durable when it is done. Raises the append's own fate: SeqConflict, KeyReused, StoreError.

        UnknownCommit, once the store has been away for PATIENCE_S; one that is `patient` hears of it minutes later.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(_Waiting(append, done, patient))
        if self._carrier is None:
            self._carrier = self._loop.create_task(self._carry(), name="holdfast-flush")
        return done

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Asked for once: Python finds the running loop by a look at the process's id, each time."""
        return asyncio.get_running_loop()

    async def _carry(self) -> None:
        try:
            while self._waiting:  # whoever was ready when the first of them came, has come by now
                batch, self._waiting = self._waiting[:MOST_APPENDS], self._waiting[MOST_APPENDS:]
                await self._commit(batch)
        finally:
            self._carrier = None

    async def _commit(self, batch: list[_Waiting]) -> None:
        since_s = self._clock.monotonic_s()
        try:
            fates = await self._until_known(batch, since_s)
        except asyncio.CancelledError:
            _fail(batch, StoreError("The process is stopping."))
            raise
        except HoldfastError as problem:
            _fail(batch, problem)
            return
        if self._observers:
            self._observers.notify(Flushed(len(batch), fates.count(None), self._clock.monotonic_s() - since_s))
        for each, fate in zip(batch, fates, strict=True):
            if fate is not None:
                _fail([each], fate)
            elif not each.done.done():
                each.done.set_result(None)

    async def _until_known(self, batch: list[_Waiting], since_s: float) -> list[HoldfastError | None]:
        """A commit whose reply was lost is sent again under the same ids until somebody acknowledges it.

        That a later try was not taken says nothing about the first: once unknown, it stays so.
        """
        appends = [each.append for each in batch]
        unknown: UnknownCommit | None = None
        while True:
            try:
                return list(await self._log.append(appends))
            except UnknownCommit as lost:
                unknown = lost
            except StoreError:
                if unknown is None:
                    raise
            away_s = self._clock.monotonic_s() - since_s
            if away_s >= PATIENCE_S:
                self._send_away(batch, unknown)
            if away_s >= _MOST_PATIENCE_S or all(each.done.done() for each in batch):
                raise unknown
            await self._clock.sleep(_PAUSE_S)

    def _send_away(self, batch: list[_Waiting], unknown: UnknownCommit) -> None:
        """Tell the impatient how it stands; those behind this batch have not even left."""
        _fail([each for each in batch if not each.patient], unknown)
        _fail([each for each in self._waiting if not each.patient], StoreError(f"Nothing was written: {unknown}"))
        self._waiting = [each for each in self._waiting if each.patient]


def _fail(those: list[_Waiting], problem: HoldfastError) -> None:
    for each in those:
        if not each.done.done():
            each.done.set_exception(problem)
            each.done.exception()  # asyncio complains of one that nobody has seen; who stops now will never look
