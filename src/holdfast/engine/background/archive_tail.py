"""The events of archived runs, one run after another as they were archived, for a sink that is to have what the tail no longer
has.

A run that was archived after the tail had its events comes once more: a sink knows them by their ids. Never here: a sink,
what an archive looks like.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId, Seq
from holdfast.errors import CorruptHistory, KeyMissing, NotFound, UsageError
from holdfast.ports import Store, TailEvent

log = logging.getLogger("holdfast")

LOOK_MS: Final = 60_000
"""Interval between two looks for new archives. Months are archived: nothing is urgent about them."""
SETTLED_MS: Final = 60_000
"""An archive that is younger may have others before it that are not committed yet."""
_FIRST: Final = RunId("00000000-0000-0000-0000-000000000000")


class _Place(NamedTuple):
    """A place among the archives: a run, the time of its archive, the last event that was returned, and the last of all."""

    archived_at_ms: int = 0
    run: RunId = _FIRST
    seq: int = 0
    last: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> _Place:
        """Raises UsageError for a text that is no cursor."""
        if cursor is None:
            return cls()
        at_ms, run, seq, last = [*cursor.split("/"), "", "", ""][:4]
        if not all(each.isascii() and each.isdecimal() for each in (at_ms, seq, last)):
            raise UsageError(f"{cursor!r:.80} is no cursor of archives. Nothing was returned.")
        return cls(int(at_ms), RunId(run), int(seq), int(last))

    def __str__(self) -> str:
        return "/".join(map(str, self))


class ArchiveTail:
    """Keeps ports.Tail, of archives."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next_ms = 0

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        """See ports.Tail. Where none was archived it looks again after a while only."""
        place, now_ms = _Place.of(cursor), self._store.clock.now_ms()
        told: list[TailEvent] = []
        while len(told) < limit and (place.seq < place.last or now_ms >= self._next_ms):
            if place.seq >= place.last:
                found = await self._store.followers.archived(place.archived_at_ms, place.run, now_ms - SETTLED_MS, 1)
                if not found:
                    self._next_ms = now_ms + LOOK_MS
                    break
                place = _Place(found[0].archived_at_ms, found[0].run, 0, found[0].seq)
            events = await self._events(place, limit - len(told))
            for each in events:
                place = place._replace(seq=each.seq)
                told.append(TailEvent(place.run, each, str(place)))
            if not events:
                place = place._replace(seq=place.last)
        return told, str(place)

    async def end(self) -> str:
        """See ports.Tail."""
        return str(_Place(self._store.clock.now_ms() - SETTLED_MS))

    async def _events(self, place: _Place, limit: int) -> Sequence[Recorded]:
        """Return the next events of a run; none of one that was removed for good since, or cannot be read."""
        try:
            return await self._store.log.events(place.run, Seq(place.seq), min(limit, place.last - place.seq))
        except (NotFound, KeyMissing, CorruptHistory) as problem:
            log.warning("holdfast exports no more of an archived run: %s", problem.message)
            return []
