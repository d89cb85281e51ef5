"""Telling every committed event once, in the order of the commits: there is one writer at a time, so that is the order in
which events were numbered.

Never here: who wants to know.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.ids import RunId
from holdfast.errors import CursorLost, UsageError
from holdfast.ports import Told
from holdfast.stores.history import recorded
from holdfast.stores.sqlite.room import Room, rows, value


class Tail(Room):
    """Keeps ports.Tail."""

    async def tail(self, cursor: str | None, limit: int) -> tuple[Sequence[Told], str]:
        after = _place(cursor) if cursor is not None else 0
        if after > int(await self.tail_end()):
            raise CursorLost(
                f"The tail's cursor {after} is beyond the last event: the store was replaced by an older copy of it. Begin"
                " anew from the start, and leave out by run and seq what was told before."
            )
        found = await self._reader.ask(lambda db: rows(db, "tail", (after, limit)))
        told = [
            Told(RunId(run), recorded(RunId(run), seq, seq, at_ms, payload), str(place))
            for place, run, seq, at_ms, payload in found
        ]
        return told, told[-1].cursor if told else str(after)

    async def tail_end(self) -> str:
        return str(await self._reader.ask(lambda db: value(db, "tail_end")))


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit()):
        raise UsageError(f"{cursor!r} is no cursor of a SQLite store's tail. Nothing was told.")
    return int(cursor)
