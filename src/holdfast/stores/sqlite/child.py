"""The links between runs and their children: moved by appends.

Never here: what is to be done about one; reading them (see holdfast.stores.nouns.beside_runs).
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow
from holdfast.stores.sqlite.context import SQL, rows
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
