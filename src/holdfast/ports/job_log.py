"""What jobs have printed, kept for people.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.core.values.ids import RunId


class LogPlace(NamedTuple):
    """Where a piece of what a job prints stands: behind the `first` bytes of that attempt."""

    run: RunId
    job: str
    """Its id, with its combination: `greet (Ada)`."""
    attempt: int
    first: int


class LogPiece(NamedTuple):
    """What there is of it."""

    place: LogPlace
    bytes: int
    written_at_ms: int


class JobLogs(Protocol):
    """What jobs have printed, for people. Nothing follows from it, so losing some of it changes no run."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        """Keep pieces with the tenants of their runs, each whole in the place of what was there, and let go of those that are
        too much."""
        ...

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        """All pieces of a run, by job and attempt in the order in which they began, each of those from its beginning."""
        ...

    async def read(self, place: LogPlace) -> bytes:
        """What a piece says, in UTF-8; nothing if it was cut meanwhile."""
        ...
