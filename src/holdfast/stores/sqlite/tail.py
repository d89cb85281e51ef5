"""Other processes' commits: hearing that there are some, and every committed event once, in their order.

There is one writer at a time, so that is the order in which events were numbered. Events that leave with their month leave
gaps in it: a row of no run keeps the number of the last that has left, so that it is not given once more.

Never here: who wants to know.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import apsw

from holdfast.core.values.ids import RunId
from holdfast.errors import CursorLost, KeyMissing, UsageError
from holdfast.ports import TailEvent
from holdfast.stores.row import Row, recorded
from holdfast.stores.sqlite.context import StoreContext, StorePort, rows, value

_CURSOR: Final = re.compile(r"(\d+)(?:-(\d+))?")


class Cursor(NamedTuple):
    """A place in the order of commits, and up to where that had gaps when the tail began from the start."""

    place: int
    gap: int = 0

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Raises UsageError."""
        if not text.isascii() or (found := _CURSOR.fullmatch(text)) is None:
            raise UsageError(f"{text!r} is no cursor of a SQLite store's tail. Nothing was returned.")
        return cls(int(found[1]), int(found[2] or 0))

    def __str__(self) -> str:
        """Behind the gaps they do not matter any more."""
        return str(self.place) if self.place >= self.gap else f"{self.place}-{self.gap}"


class Tail(StorePort):
    """Keeps ports.Tail."""

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        at, found = await self._rows("tail", cursor, limit)
        told = []
        for place, run, seq, at_ms, payload, trace_id in found:
            with contextlib.suppress(KeyMissing):  # one that was erased keeps no reader from what others do
                event = recorded(self._sealing, RunId(run), seq, seq, at_ms, payload, trace_id)
                told.append(TailEvent(RunId(run), event, str(Cursor(place, at.gap))))
        return told, str(at if not found else Cursor(found[-1][0], at.gap))

    async def runs(self, cursor: str, limit: int) -> tuple[Sequence[RunId], str, bool]:
        at, found = await self._rows("runs_of_tail", cursor, limit)
        runs = [RunId(run) for run in dict.fromkeys(run for _, run in found)]
        return runs, str(at if not found else Cursor(found[-1][0], at.gap)), len(found) < limit

    async def _rows(self, statement: str, cursor: str | None, limit: int) -> tuple[Cursor, Sequence[Row]]:
        """The rows of events after a cursor, and that cursor. Raises UsageError, CursorLost."""
        given = Cursor.of(cursor) if cursor is not None else None
        if given is not None and given.place > int(await self.end()):
            raise CursorLost(
                f"The tail's cursor {cursor} is beyond the last event: the store was replaced by an older copy of it. Start"
                " again from the beginning, and leave out by run and seq the events that were returned before."
            )
        after = given.place if given is not None else 0
        found = await self._reader.ask(lambda db: rows(db, statement, (after, limit)))
        # Asked later than the events: whatever was missing among them is before it.
        gap: int = await self._reader.ask(lambda db: value(db, "tail_gap"))
        at = given if given is not None else Cursor(after, gap)
        if at.place < gap != at.gap:
            raise CursorLost(
                f"The tail's cursor {cursor} is older than events that have left with their month since. Some may have"
                " been missed. Start again from the beginning, and read what is archived from the histories of the runs."
            )
        return at, found

    async def end(self) -> str:
        return str(await self._reader.ask(lambda db: value(db, "tail_end")))


POLL_S: Final = 0.2
"""How late another process's commit is heard of. SQLite sends no wake-up; to ask it costs some 50 µs."""
_ANSWER_S: Final = 0.05
"""How long the writer may take to answer when no time is given at all."""


class Watch(StorePort):
    """Keeps ports.Watch, for one listener at a time: that another process may have written, not what."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._seen = context.data_version

    async def changed(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while True:
            asking = asyncio.ensure_future(self._writer.ask(data_version))
            # A writer that waits for another process answers late; no other commits meanwhile either.
            await asyncio.wait({asking}, timeout=max(until_s - time.monotonic(), _ANSWER_S))
            if not asking.done():
                asking.cancel()
                return False
            if asking.result() != self._seen:
                self._seen = asking.result()
                return True
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0:
                return False
            await asyncio.sleep(min(POLL_S, remaining_s))


def data_version(db: apsw.Connection) -> int:
    """A number that changes with every commit of another connection than `db`, and with none of its own.

    On the writing connection that is: of another process. (`Connection.data_version` counts its own commits too.)
    """
    version: int = db.pragma("data_version")
    return version
