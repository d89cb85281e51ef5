"""What starts runs by the calendar, with how far each has come.

Never here: when something is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.nouns.schedules import Schedule
from holdfast.ports import KeptSchedule
from holdfast.stores.row import decode_schedule, encode
from holdfast.stores.sqlite.context import StorePort, rows, value


class Schedules(StorePort):
    """Keeps ports.Schedules."""

    async def add(self, schedule: Schedule) -> bool:
        given = (schedule.tenant, schedule.name, schedule.due_at_ms, self._body(schedule))
        return await self._writer.write(lambda db: value(db, "add_schedule", given)) is not None

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        given = (schedule.tenant, schedule.name, schedule.due_at_ms, self._body(schedule), revision)
        return await self._writer.write(lambda db: value(db, "replace_schedule", given)) is not None

    async def remove(self, tenant: str, name: str) -> bool:
        return await self._writer.write(lambda db: value(db, "remove_schedule", (tenant, name))) is not None

    async def find(self, tenant: str, name: str) -> KeptSchedule | None:
        found = await self._reader.ask(lambda db: rows(db, "schedule", (tenant, name)))
        return self._kept(*found[0]) if found else None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[KeptSchedule]:
        asked = (tenant, *(after or ("", "")), limit)
        return self._readable(await self._reader.ask(lambda db: rows(db, "schedules", asked)))

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        return self._readable(await self._reader.ask(lambda db: rows(db, "schedules_due", (now_ms, limit))))

    async def next_due_ms(self) -> int | None:
        found: int | None = await self._reader.ask(lambda db: value(db, "next_schedule"))
        return found

    def _body(self, schedule: Schedule) -> bytes:
        return self._sealing.seal(schedule.tenant, encode(schedule))

    def _kept(self, body: bytes, revision: int) -> KeptSchedule:
        return KeptSchedule(decode_schedule(self._sealing.open(body)), revision)

    def _readable(self, found: Iterable[Any]) -> list[KeptSchedule]:
        """Those whose keys are there."""
        opened = ((self._sealing.readable(decode_schedule, body), revision) for body, revision in found)
        return [KeptSchedule(schedule, revision) for schedule, revision in opened if schedule is not None]
