"""The links between runs and their children: moved by appends, read by who sees to what is pending.

Never here: what is to be done about one.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow
from holdfast.ports import ChildLink
from holdfast.stores.sqlite.context import SQL, StorePort, rows
from holdfast.stores.sqlite.entry import Entry


def write(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    """What the appends that were accepted move."""
    changes = [change for new in accepted for change in new.changes.children]
    if not changes:
        return
    moved = [(each.child, each.state, each.at_ms) for each in changes if isinstance(each, ChildChange)]
    db.executemany(SQL["move_child"], moved)
    asked = [(each.child, each.parent, each.root, each.at_ms) for each in changes if isinstance(each, ChildRow)]
    db.executemany(SQL["put_child"], asked)
    for each in changes:
        if isinstance(each, ChildOrder):
            statement, name = ("order_children", each.parent) if each.child is None else ("order_child", each.child)
            rows(db, statement, (name, each.ordered, each.at_ms))


class Children(StorePort):
    """Keeps ports.Children."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        found = await self._reader.ask(lambda db: rows(db, "pending_children", (before_ms, limit)))
        return [ChildLink(*row) for row in found]

    async def link(self, child: RunId) -> ChildLink | None:
        found = await self._reader.ask(lambda db: rows(db, "child", (child,)))
        return ChildLink(*found[0]) if found else None

    async def settle(self, link: ChildLink) -> bool:
        seen = (link.child, link.state, link.ordered)
        return bool(await self._writer.write(lambda db: rows(db, "settle_child", seen)))

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        asked = (root, after or "", limit)
        return [ChildLink(*row) for row in await self._reader.ask(lambda db: rows(db, "family", asked))]
