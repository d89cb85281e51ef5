"""The links between runs and their children: moved by appends.

Never here: what is to be done about one; reading them (see holdfast.stores.nouns.beside_runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow
from holdfast.stores.postgres.connection import Connection

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
