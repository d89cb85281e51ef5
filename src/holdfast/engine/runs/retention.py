"""Months that leave the tables by themselves, where a person has said how long they are to stay: one after the other.

Never here: how a month is archived (the stores), removing anything for good (a person's).
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from holdfast.errors import HoldfastError, MonthHeld
from holdfast.ports import Administration, Clock, StoreStatus

log = logging.getLogger("holdfast")

_IN_TABLES: Final = ("open", "partly archived")
_DAY_MS: Final = 24 * 3600 * 1000
_AGAIN_S: Final = 3600.0
"""How late a month may leave; days do not matter to it."""
_NEXT_S: Final = 60.0
"""Between two months, where several are due: what else goes on has the store to itself meanwhile."""
_TOLD_EVERY_S: Final = 24 * 3600.0
"""How often it is said again which runs hold a month back."""


def cold(standing: StoreStatus, days: int) -> list[str]:
    """The months in the tables of which every run was started more than so many days ago, oldest first."""
    hot = datetime.datetime.fromtimestamp((standing.now_ms - days * _DAY_MS) / 1000, datetime.UTC).strftime("%Y-%m")
    return sorted(each.month for each in standing.months if each.month < hot and each.state in _IN_TABLES)


class Retention:
    """Archives what is cold. It may be ended anywhere: an archiving that was interrupted is done again."""

    def __init__(
        self, administering: Callable[[], AbstractAsyncContextManager[Administration]], hot_days: int, clock: Clock
    ) -> None:
        self._administering = administering
        self._hot_days = hot_days
        self._clock = clock
        self._told_s: dict[str, float] = {}

    async def keep(self, leads: asyncio.Event) -> None:
        """Turn after turn, for as long as this process leads, and again when it does."""
        while True:
            await leads.wait()
            try:
                is_more = await self.turn()
            except HoldfastError as problem:
                log.warning("holdfast could not archive what is old, and tries again in an hour: %s", problem)
                is_more = False
            except Exception:  # a fault of ours must not end what else this process does, nor be quiet
                log.exception("holdfast could not archive what is old, and tries again in an hour")
                is_more = False
            await self._clock.sleep(_NEXT_S if is_more else _AGAIN_S)

    async def turn(self) -> bool:
        """Archive the oldest month that may go, and return True if one existed. Those that are held back are reported."""
        async with self._administering() as administration:
            for month in cold(await administration.standing(), self._hot_days):
                try:
                    freed = await administration.archive(month)
                except MonthHeld as held:
                    self._notify(month, held)
                    continue
                log.info(
                    "holdfast archived %s: %d runs, %d events, %d bytes compressed.",
                    month,
                    freed.runs,
                    freed.events,
                    freed.stored_bytes,
                )
                return True
        return False

    def _notify(self, month: str, held: MonthHeld) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s.get(month, -_TOLD_EVERY_S) >= _TOLD_EVERY_S:
            self._told_s[month] = now_s
            log.warning("holdfast keeps a month in the tables: %s", held.message)
