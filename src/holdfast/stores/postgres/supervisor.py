"""Supervisors, with the tasks that they have taken.

Never here: who takes a task.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.supervision import KEPT_MS, Change, Supervisor, Task, due_at_ms
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import decode_task, encode, supervisor_of, supervisors_of


class Supervisors(StorePort):
    """Keeps ports.Supervisors."""

    async def put(self, change: Change) -> bool:
        kept = change.supervisor
        columns = (kept.tenant, kept.name, due_at_ms(kept), self._sealing.seal(kept.tenant, encode(kept)))
        async with self._db.writing() as db:
            if kept.revision:
                found = await db.fetchval(self._sql["replace_supervisor"], *columns, kept.revision)
            else:
                found = await db.fetchval(self._sql["add_supervisor"], *columns)
            if found is None:
                return False
            for each in change.tasks:
                task = (kept.tenant, kept.name, each.id, each.run, each.ended_ms, self._sealing.seal(kept.tenant, encode(each)))
                await db.execute(self._sql["put_task"], *task)
            if change.tasks:
                await db.execute(self._sql["forget_tasks"], kept.tenant, kept.name, self._clock.now_ms() - KEPT_MS)
        return True

    async def remove(self, supervisor: Supervisor) -> bool:
        asked = (supervisor.tenant, supervisor.name, supervisor.revision)
        async with self._db.writing() as db:
            return await db.fetchval(self._sql["remove_supervisor"], *asked) is not None

    async def find(self, tenant: str, name: str) -> Supervisor | None:
        found = await self._db.fetch(self._sql["supervisor"], tenant, name)
        return supervisor_of(self._sealing, *found[0]) if found else None

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        found = await self._db.fetch(self._sql["task"], tenant, name, task)
        return decode_task(self._sealing.open(found[0][0])) if found else None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Supervisor]:
        asked = (tenant, *(after or ("", "")), limit)
        return supervisors_of(await self._db.fetch(self._sql["supervisors"], *asked), self._sealing)

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        found = await self._db.fetch(self._sql["supervisors_due"], now_ms, limit)
        return [(tenant, name) for tenant, name in found]
