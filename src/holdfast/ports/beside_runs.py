"""Kept beside the histories of runs: links to their children, steps that have failed for good, what their jobs have printed.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, Unpack

import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import DeadLetter
from holdfast.core.views.selection import LetterFilter


class ChildLink(msgspec.Struct, frozen=True):
    """A child and how far it has come (`state`, see projection.ChildChange). `ordered` is the parent's latest event that
    decides about the child too, `heeded` the latest that was carried out."""

    child: RunId
    parent: RunId
    root: RunId
    state: str
    ordered: int
    heeded: int

    @property
    def is_pending(self) -> bool:
        """True if some process must act on the child."""
        return self.state in ("requested", "ended") or (self.state == "running" and self.ordered > self.heeded)


class Children(Protocol):
    """Moved by appends, in their transactions: by those of the parent and by those of the child."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        """Return the links that have needed action since `before_ms` or longer, longest first."""
        ...

    async def link(self, child: RunId) -> ChildLink | None:
        """Return the link of a run to its parent, or None if it has none."""
        ...

    async def settle(self, link: ChildLink) -> bool:
        """Record that the action that `link` calls for was taken. Return False if the link has changed meanwhile."""
        ...

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        """The links of everything below `root`, oldest first, after one of them."""
        ...


RESOLVED_FOR_MS: Final = 72 * 3600 * 1000
"""How long a closed dead letter is listed; then only its run's history has it."""


class Letter(NamedTuple):
    """A dead letter, and when it was closed."""

    letter: DeadLetter
    resolved_at_ms: int | None

    @property
    def id(self) -> str:
        """Its id, `RUN:STEP`, by which it is edited, replayed and resolved."""
        return f"{self.letter.run}:{self.letter.step}"


class LetterCount(NamedTuple):
    """The number of letters of one kind, and the time of the first failure among the open ones."""

    workflow: str
    node: str
    error_class: str
    open: int
    resolved: int
    oldest_open_ms: int | None


class DeadLetters(Protocol):
    """The dead letters of runs. They are written with the commits of their runs."""

    async def letters(self, **filters: Unpack[LetterFilter]) -> Sequence[Letter]:
        """In the order of their runs, oldest first."""
        ...

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        """By workflow, node and class of error, those with the oldest open letter first."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Forget those that were resolved before then; how many that were. Open ones stay."""
        ...


class LogPlace(NamedTuple):
    """The place of a piece of a job's output: behind the `first` bytes of that attempt."""

    run: RunId
    job: str
    """Its id, with its combination: `greet (Ada)`."""
    attempt: int
    first: int


class LogPiece(NamedTuple):
    """A stored piece of a job's output: its place, its size, and the time at which it was written."""

    place: LogPlace
    bytes: int
    written_at_ms: int


class JobLogs(Protocol):
    """The output of jobs, for people. Nothing follows from it, so losing some of it changes no run."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        """Keep pieces with the tenants of their runs, each whole in the place of what was there, and let go of those that are
        too much."""
        ...

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        """All pieces of a run, by job and attempt in the order in which they began, each of those from its beginning."""
        ...

    async def read(self, place: LogPlace) -> bytes:
        """Return the text of a piece, in UTF-8; nothing if it was cut meanwhile."""
        ...
