"""Other processes' commits: hearing that there are some, and every committed event once, in order
within a run, in bounded pieces that any process can go on with.

Numbers are given to transactions before they commit, and out of that order, so none of them says by itself what is new.
News is what the present snapshot shows and the one before did not. A piece of it ends at a place in the order of
transactions, and the cursor names both snapshots and the place: the rest of the same news is found again whatever has
been committed since. An append locks its run before it is numbered, so a run's transactions are in the order of its seqs.
A failover begins another line of the database, in which numbers may be given anew: a cursor of another line is refused.

Never here: who wants to know.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId
from holdfast.errors import CorruptHistory, CursorLost, KeyMissing, NotFound, UsageError
from holdfast.ports import TailEvent
from holdfast.stores.postgres.context import StoreContext, StorePort
from holdfast.stores.postgres.log import Log
from holdfast.stores.row import recorded

_CURSOR: Final = re.compile(
    r"(?P<line>\d+-[0-9A-F]{8})_(?P<since>\d+:\d+:[\d,]*)"
    r"(?:_(?P<until>\d+:\d+:[\d,]*)_(?P<xid>\d+)_(?P<place>\d+)_(?P<seq>\d+))?\Z"
)


class Cursor(NamedTuple):
    """After everything visible in `since`; and where `until` is given, after a place in what it shows beyond that."""

    line: str
    """The database and its line of history: numbers of transactions mean nothing in another."""
    since: str
    until: str | None = None
    xid: str = "0"
    place: int = 0
    seq: int = 0

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Raises UsageError."""
        found = _CURSOR.match(text)
        if found is None:
            raise UsageError(f"{text!r} is no cursor of a PostgreSQL store's tail. Nothing was returned.")
        if found["until"] is None:
            return cls(found["line"], found["since"])
        return cls(found["line"], found["since"], found["until"], found["xid"], int(found["place"]), int(found["seq"]))

    def at(self, xid: str, place: int, seq: int) -> Cursor:
        return self._replace(xid=xid, place=place, seq=seq)

    def behind(self, spans: Sequence[Span], limit: int, end: Cursor) -> Cursor:
        """Return the place behind what was found here: where it is less than `limit`, in what came since, or at the end."""
        if sum(span.size for span in spans) >= limit:
            return self.at(spans[-1].xid, spans[-1].place, spans[-1].last)
        if self.until == end.since:
            return end
        return Cursor(self.line, self.until or end.since, end.since)

    def __str__(self) -> str:
        words: list[Any] = [self.line, self.since]
        if self.until is not None:
            words += [self.until, self.xid, self.place, self.seq]
        return "_".join(map(str, words))


class Span(NamedTuple):
    """Events that one transaction appended to one run."""

    xid: str
    place: int
    run: RunId
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Tail(StorePort):
    """Keeps ports.Tail."""

    def __init__(self, context: StoreContext, log: Log) -> None:
        """`log` has what is archived by now."""
        super().__init__(context)
        self._log = log

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        told: list[TailEvent] = []
        at, end = await self._from(Cursor.of(cursor) if cursor is not None else None)
        while True:
            left = limit - len(told)
            spans = await self._spans(at, left)
            told += await self._events_at(at, spans)
            at = at.behind(spans, left, end)
            if at == end or len(told) == limit:  # less of it where histories have been removed for good
                return told, str(at)

    async def runs(self, cursor: str, limit: int) -> tuple[Sequence[RunId], str, bool]:
        at, end = await self._from(Cursor.of(cursor))
        found: list[Span] = []
        left = limit
        while left > 0 and at != end:
            spans = await self._spans(at, left)
            at = at.behind(spans, left, end)
            left -= sum(span.size for span in spans)
            found += spans
        return list(dict.fromkeys(span.run for span in found)), str(at), at == end

    async def _from(self, start: Cursor | None) -> tuple[Cursor, Cursor]:
        """Return the place where a reader goes on, and the end of what is committed now. Raises CursorLost."""
        ((snapshot, line),) = await self._db.fetch(self._sql["tail_end"])
        if start is None:
            begins = await self._db.value(self._sql["tail_begins"])
            start = Cursor(line, f"{begins}:{begins}:")
        elif start.line != line:
            raise CursorLost(
                f"The tail's cursor is of another line of this database (it says {start.line}, this is {line}): there was a"
                " failover, or the database was restored. Events may have been missed. Start again from the"
                " beginning, and leave out by run and seq the events that were returned before."
            )
        return start if start.until is not None else start._replace(until=snapshot), Cursor(line, snapshot)

    async def end(self) -> str:
        ((snapshot, line),) = await self._db.fetch(self._sql["tail_end"])
        return str(Cursor(line, snapshot))

    async def _spans(self, cursor: Cursor, limit: int) -> list[Span]:
        """Return the next spans, with at most `limit` events in all; everything that is there if it is fewer. Raises
        CursorLost."""
        # One more, for the transaction in which the cursor stands may have nothing left.
        rows = await self._db.fetch(
            self._sql["tail"], cursor.since, cursor.until, cursor.xid, cursor.place, cursor.seq, limit + 1
        )
        if int(rows[0]["begins"]) > int(cursor.since.partition(":")[0]):
            raise CursorLost(
                "The tail's cursor is older than what the store still knows of the order of commits. Events may have"
                " been missed. Start again from the beginning, and read what is older from the histories of the runs."
            )
        found: list[Span] = []
        left = limit
        for _, xid, place, run, first, last in rows if rows[0]["xid"] is not None else ():
            if left > 0:
                found.append(Span(xid, place, RunId(run), first, min(last, first + left - 1)))
                left -= found[-1].size
        return found

    async def _events_at(self, cursor: Cursor, spans: Sequence[Span]) -> list[TailEvent]:
        rows = await self._db.fetch(
            self._sql["events_of_spans"],
            [span.run for span in spans],
            [span.first for span in spans],
            [span.last for span in spans],
        )
        there: dict[int, list[Any]] = {}
        for place, *event in rows:
            there.setdefault(place - 1, []).append(event)
        return [
            TailEvent(span.run, each, str(cursor.at(span.xid, span.place, each.seq)))
            for number, span in enumerate(spans)
            for each in await self._events_of(span, there.get(number, []))
        ]

    async def _events_of(self, span: Span, rows: Sequence[Any]) -> Sequence[Recorded]:
        count = span.size
        try:
            if len(rows) == count:
                return [recorded(self._sealing, span.run, span.first + n, *row) for n, row in enumerate(rows)]
            found = await self._log.events(span.run, span.first - 1, count)  # archived since it was committed
        except NotFound:
            return ()  # and removed for good
        except KeyMissing:
            return ()  # one that was erased keeps no reader from what others do
        if len(found) != count:
            raise CorruptHistory(
                f"Run {span.run}: events {span.first} to {span.last} were committed, and are not there.", run=span.run
            )
        return found


POLL_S: Final = 0.2
"""How late another process's commit is heard of. The database sends no wake-up: NOTIFY takes a lock that all commits share, and
LISTEN needs a connection that no pooler can lend."""


class Watch(StorePort):
    """Keeps ports.Watch, for one listener at a time: that another process may have written, not what.

    Two snapshots show exactly which commits have become visible in between, in whatever order their transactions began; a
    sequence would not.
    """

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._seen = context.snapshot

    async def changed(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while True:
            ((snapshot, changed),) = await self._db.fetch(self._sql["changed"], self._seen, self._process)
            self._seen = snapshot
            if changed:
                return True
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0:
                return False
            await asyncio.sleep(min(POLL_S, remaining_s))
