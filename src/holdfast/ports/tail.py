"""Hearing of what others have committed: that there is something, and what; and who follows that, up to where.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId, Seq


class Watch(Protocol):
    """A watch that reports when another process may have written."""

    async def changed(self, timeout_s: float) -> bool:
        """Wait until another process may have committed, at most `timeout_s`; True if one may have."""
        ...


class TailEvent(msgspec.Struct, frozen=True):
    """An event as a tail tells it. A tail that begins at `cursor` goes on right after it."""

    run: RunId
    recorded: Recorded
    cursor: str


class Tail(Protocol):
    """Every committed event of all runs, once, in order within a run; for exports and live views.

    A cursor is a text that outlives processes: a reader that keeps it goes on from there, wherever.
    """

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        """Return at most `limit` events after `cursor` (None: from the oldest that the tail knows), and the cursor after them.
        Fewer mean that it has sent everything committed by the time of the call.

        Raises UsageError for a text that is no cursor, CursorLost where events after it may be unknown by now.
        """
        ...

    async def end(self) -> str:
        """The cursor after everything that is committed now."""
        ...


class StoreTail(Tail, Protocol):
    """The tail of a store, which also says whose events come next."""

    async def runs(self, cursor: str, limit: int) -> tuple[Sequence[RunId], str, bool]:
        """Return the runs of at most `limit` events after `cursor`, each once, the cursor after these events, and whether those
        are all that was committed by the time of the call. No event is read. Raises as `after` does."""
        ...


# --- Following the tail -----------------------------------------------------------------------------------------------


class CommittedEvent(msgspec.Struct, frozen=True):
    """An event for those outside, with what every line, span and row says of its run. `run` and `recorded.seq` together are
    its id, in every sink."""

    run: RunId
    tenant: str
    workflow: str
    version: int
    recorded: Recorded


class SinkUnavailable(Exception):
    """A sink could not take events now, and is to be given the same again: after `retry_after_s`, where it says when."""

    def __init__(self, problem: str, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class Sink(Protocol):
    """A receiver of every committed event: notifications, an exporter of traces, an analytics store.

    It gets each event at least once, in order within a run: after a crash, or after SinkUnavailable, a batch comes again,
    perhaps cut elsewhere. So it knows events by their ids. It counts what it cannot use as dropped, and goes on.
    """

    @property
    def name(self) -> str:
        """Name under which the store keeps how far it has come. It never changes."""
        ...

    @property
    def begins(self) -> Literal["now", "oldest"]:
        """First event of a new sink: the next one, or the oldest that the store has."""
        ...

    @property
    def batch(self) -> int:
        """Maximum number of events at a time."""
        ...

    async def take(self, events: Sequence[CommittedEvent]) -> int:
        """Return when nothing of these can be lost any more: the number of those that were dropped, because nothing can ever
        be done with them. Raises SinkUnavailable."""
        ...

    async def aclose(self) -> None:
        """Close its connections. It takes nothing any more."""
        ...


class FollowerRow(msgspec.Struct, frozen=True):
    """The progress of a sink."""

    name: str
    cursor: str | None
    """The last place up to which it has everything; None before its beginning is known."""
    had_all_at_ms: int
    """Time at which it last had taken every event, or began."""
    waiting_since_ms: int | None
    """Time of the oldest event that it was given and has not taken; None where it has everything that it was given."""
    taken: int
    """Number of events that it has taken."""
    dropped: int
    """Number of those that it could do nothing with."""
    problem: str
    """Why it does not take what waits; empty where it does."""
    holder: str
    """Process that feeds it; empty for none."""
    until_ms: int
    """End of that process's turn unless it is renewed."""


class ArchivedRun(msgspec.Struct, frozen=True):
    """A run whose history is in an archive up to the event `seq`, since `archived_at_ms`."""

    run: RunId
    seq: Seq
    archived_at_ms: int


class Followers(Protocol):
    """The sinks that follow the tail, each fed by one process at a time."""

    async def hold(self, name: str, holder: str, lease_ms: int) -> FollowerRow | None:
        """Take or keep the turn to feed a sink, for so long from now. None while it is another's."""
        ...

    async def begin(self, name: str, cursor: str) -> None:
        """Keep where a sink begins, unless that is known: what comes after it is never left out."""
        ...

    async def move(self, row: FollowerRow) -> bool:
        """Keep how far the sink has come, what waits and why; False, with nothing kept, where `row.holder` has lost its
        turn."""
        ...

    async def release(self, name: str, holder: str) -> None:
        """Give the turn back, if it still is this holder's."""
        ...

    async def listed(self) -> Sequence[FollowerRow]:
        """All of them, by name."""
        ...

    async def archived(self, since_ms: int, after: RunId, until_ms: int, limit: int) -> Sequence[ArchivedRun]:
        """Return the runs that were archived up to a time, in the order in which they were: after the run `after`, which was at
        `since_ms`. One that has had more events since is in it again, later."""
        ...
