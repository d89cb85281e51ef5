"""Carries the appends of many runs to the store together: while one flush is on its way to the disk, the next gathers.

Never here: deciding, retrying a conflict (the mailbox does).
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.errors import HoldfastError, StoreError, UnknownCommit
from holdfast.ports import Append, Clock, Log

MOST_APPENDS: Final = 256
"""One flush; more wait for the next, so that a commit's latency stays bounded."""
_MOST_TRIES: Final = 20
_PAUSE_S: Final = 0.25


class Flush:
    """Group commit. At most one append of each run is under way, because a mailbox waits for its own."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._waiting: list[tuple[Append, asyncio.Future[None]]] = []
        self._carrier: asyncio.Task[None] | None = None

    def append(self, append: Append) -> asyncio.Future[None]:
        """Durable when it is done. Raises the append's own fate: SeqConflict, KeyReused, StoreError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((append, done))
        if self._carrier is None:
            self._carrier = asyncio.create_task(self._carry(), name="holdfast-flush")
        return done

    async def _carry(self) -> None:
        try:
            while self._waiting:
                # One turn of the loop lets everybody who is ready just now come along.
                await asyncio.sleep(0)
                batch, self._waiting = self._waiting[:MOST_APPENDS], self._waiting[MOST_APPENDS:]
                await self._commit(batch)
        finally:
            self._carrier = None

    async def _commit(self, batch: list[tuple[Append, asyncio.Future[None]]]) -> None:
        try:
            fates = await self._until_known([append for append, _ in batch])
        except (HoldfastError, asyncio.CancelledError) as problem:
            for _, done in batch:
                if not done.done():
                    done.set_exception(
                        problem if isinstance(problem, HoldfastError) else StoreError("The process is stopping.")
                    )
            if isinstance(problem, asyncio.CancelledError):
                raise
            return
        for (_, done), fate in zip(batch, fates, strict=True):
            if done.done():
                continue
            if fate is None:
                done.set_result(None)
            else:
                done.set_exception(fate)

    async def _until_known(self, appends: list[Append]) -> list[HoldfastError | None]:
        """A commit whose reply was lost is sent again under the same ids until somebody acknowledges it.

        That a later try was not taken says nothing about the first: once unknown, it stays so.
        """
        unknown: UnknownCommit | None = None
        for _ in range(_MOST_TRIES):
            try:
                return list(await self._log.append(appends))
            except UnknownCommit as lost:
                unknown = lost
            except StoreError:
                if unknown is None:
                    raise
            await self._clock.sleep(_PAUSE_S)
        assert unknown is not None
        raise unknown
