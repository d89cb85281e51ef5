"""Supervisors, with the tasks that they have taken.

Never here: who takes a task.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.nouns.supervision import KEPT_MS, Change, Supervisor, Task, due_at_ms
from holdfast.stores.row import decode_task, encode, supervisor_of, supervisors_of
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


class Supervisors(StorePort):
    """Keeps ports.Supervisors."""

    async def put(self, change: Change) -> bool:
        kept = change.supervisor
        columns = (kept.tenant, kept.name, due_at_ms(kept), self._sealing.seal(kept.tenant, encode(kept)))
        tasks = [
            (kept.tenant, kept.name, each.id, each.run, each.ended_ms, self._sealing.seal(kept.tenant, encode(each)))
            for each in change.tasks
        ]
        old = (kept.tenant, kept.name, self._clock.now_ms() - KEPT_MS)

        def write(db: apsw.Connection) -> bool:
            if kept.revision:
                found = value(db, "replace_supervisor", (*columns, kept.revision))
            else:
                found = value(db, "add_supervisor", columns)
            if found is not None and tasks:
                db.executemany(SQL["put_task"], tasks)
                rows(db, "forget_tasks", old)
            return found is not None

        return await self._writer.write(write)

    async def remove(self, supervisor: Supervisor) -> bool:
        place = (supervisor.tenant, supervisor.name)

        def write(db: apsw.Connection) -> bool:
            found = value(db, "remove_supervisor", (*place, supervisor.revision))
            if found is not None:
                rows(db, "remove_tasks", place)
            return found is not None

        return await self._writer.write(write)

    async def find(self, tenant: str, name: str) -> Supervisor | None:
        found = await self._reader.ask(lambda db: rows(db, "supervisor", (tenant, name)))
        return supervisor_of(self._sealing, *found[0]) if found else None

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        found = await self._reader.ask(lambda db: rows(db, "task", (tenant, name, task)))
        return decode_task(self._sealing.open(found[0][0])) if found else None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Supervisor]:
        asked = (tenant, *(after or ("", "")), limit)
        found = await self._reader.ask(lambda db: rows(db, "supervisors", asked))
        return supervisors_of(found, self._sealing)

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        found = await self._reader.ask(lambda db: rows(db, "supervisors_due", (now_ms, limit)))
        return [(tenant, name) for tenant, name in found]
