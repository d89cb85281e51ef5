"""What starts runs by the calendar, with how far each has come.

Never here: when something is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.nouns.schedules import Schedule
from holdfast.ports import KeptSchedule
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import decode_schedule, encode


class Schedules(StorePort):
    """Keeps ports.Schedules."""

    async def add(self, schedule: Schedule) -> bool:
        given = (schedule.tenant, schedule.name, schedule.due_at_ms, self._body(schedule))
        async with self._db.writing() as db:
            return await db.fetchval(self._sql["add_schedule"], *given) is not None

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        given = (schedule.tenant, schedule.name, schedule.due_at_ms, self._body(schedule), revision)
        async with self._db.writing() as db:
            return await db.fetchval(self._sql["replace_schedule"], *given) is not None

    async def remove(self, tenant: str, name: str) -> bool:
        async with self._db.writing() as db:
            return await db.fetchval(self._sql["remove_schedule"], tenant, name) is not None

    async def find(self, tenant: str, name: str) -> KeptSchedule | None:
        found = await self._db.fetch(self._sql["schedule"], tenant, name)
        return self._kept(*found[0]) if found else None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[KeptSchedule]:
        return self._readable(await self._db.fetch(self._sql["schedules"], tenant, *(after or ("", "")), limit))

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        return self._readable(await self._db.fetch(self._sql["schedules_due"], now_ms, limit))

    async def next_due_ms(self) -> int | None:
        found: int | None = await self._db.value(self._sql["next_schedule"])
        return found

    def _body(self, schedule: Schedule) -> bytes:
        return self._sealing.seal(schedule.tenant, encode(schedule))

    def _kept(self, body: bytes, revision: int) -> KeptSchedule:
        return KeptSchedule(decode_schedule(self._sealing.open(body)), revision)

    def _readable(self, found: Iterable[Any]) -> list[KeptSchedule]:
        """Those whose keys are there."""
        opened = ((self._sealing.readable(decode_schedule, body), revision) for body, revision in found)
        return [KeptSchedule(schedule, revision) for schedule, revision in opened if schedule is not None]
