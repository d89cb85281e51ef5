"""The links between runs and their children: moved by appends, read by who sees to what is pending.

Never here: what is to be done about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow
from holdfast.ports import ChildLink
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.context import StorePort, is_run

if TYPE_CHECKING:
    from holdfast.stores.postgres.append import Entry


async def write(db: Connection, sql: dict[str, str], written: Sequence[Entry]) -> None:
    """What the appends that were written move."""
    changes = [change for new in written for change in new.changes.children]
    if not changes:
        return
    moved = {each.child: (each.child, each.state, each.at_ms) for each in changes if isinstance(each, ChildChange)}
    if moved:
        await db.execute(sql["move_children"], *zip(*moved.values(), strict=True))
    asked = {each.child: each for each in changes if isinstance(each, ChildRow)}
    if asked:
        rows = [(each.child, each.parent, each.root, each.at_ms) for each in asked.values()]
        await db.execute(sql["put_children"], *zip(*rows, strict=True))
    orders = [(each.parent, each.child, each.ordered, each.at_ms) for each in changes if isinstance(each, ChildOrder)]
    if orders:
        await db.execute(sql["order_children"], *zip(*orders, strict=True))


class Children(StorePort):
    """Keeps ports.Children."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        return [ChildLink(*row) for row in await self._db.fetch(self._sql["pending_children"], before_ms, limit)]

    async def link(self, child: RunId) -> ChildLink | None:
        found = await self._db.fetch(self._sql["child"], child) if is_run(child) else []
        return ChildLink(*found[0]) if found else None

    async def settle(self, link: ChildLink) -> bool:
        async with self._db.writing() as db:
            return bool(await db.fetch(self._sql["settle_child"], link.child, link.state, link.ordered))

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        if not is_run(root):
            return []
        return [ChildLink(*row) for row in await self._db.fetch(self._sql["family"], root, after, limit)]
