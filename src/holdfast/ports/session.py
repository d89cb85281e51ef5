"""Leases of processes, and who leads a lane of the fleet.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from holdfast.core.values.ids import SessionId

ANY_YAML: Final = "any workflow in YAML"
"""What a session says it can run, besides the workflows that it has, where it learns those in YAML from the store."""


class Sessions(Protocol):
    """The leases of processes. Death is one-way: a session that was once found dead never lives again."""

    async def open(self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None) -> None:
        """Begin a session that can run the workflows of these hashes, and keep it alive by itself until it is closed.
        `described` is what it says of itself, for those who ask."""
        ...

    async def widen(self, session: SessionId, hashes: Sequence[str]) -> None:
        """Say that this process's session can from now on run the workflows of these hashes, and no others."""
        ...

    async def describe(self, session: SessionId, described: bytes) -> None:
        """Keep what it says of itself, for those who ask; instead of what it said before."""
        ...

    async def described(self) -> Sequence[bytes]:
        """Return the self-descriptions of the sessions that are not known to be dead."""
        ...

    async def lost(self, since_ms: int, limit: int) -> Sequence[tuple[bytes, int]]:
        """Return the self-descriptions of the sessions that were found dead since then, the latest first, each with the time.
        A session that was closed is not among them."""
        ...

    async def able(self, hashes: Sequence[str]) -> int:
        """Return the number of living sessions that can run one of these workflows."""
        ...

    async def able_until_ms(self, hashes: Sequence[str]) -> int | None:
        """Return the time of the latest death among the dead sessions that could run one of these workflows. None if no such
        session is remembered."""
        ...

    async def labels(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        """Return the labels of the processes of these sessions, as far as they are still remembered."""
        ...

    async def close(self, session: SessionId) -> None:
        """End it; whatever it still had in flight counts as lost."""
        ...

    async def renew(self, session: SessionId) -> bool:
        """Extend this process's own lease now; False if it was found dead, and so is dead for ever."""
        ...

    def alive(self, session: SessionId) -> bool:
        """Return True if this process's own session still holds its lease now, by a clock that counts sleep. No I/O."""
        ...

    def age_s(self, session: SessionId) -> float | None:
        """Return the time since this process's own session was last known to be renewed; None for one that it has not. No
        I/O."""
        ...

    async def expire(self) -> frozenset[SessionId]:
        """Find sessions that are dead (marking the expired ones so, for ever) and still have work in flight."""
        ...


class Leadership(Protocol):
    """The leaders of a fleet: at any moment at most one living session leads a lane."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        """Return True if `session`, one of this process's own, leads `lane` now. It takes over only if the lane has no leader
        or a dead one."""
        ...

    async def is_led(self, lane: str) -> bool:
        """Return True if a living session leads `lane`."""
        ...

    async def unended_hashes(self) -> Sequence[str]:
        """The workflows that have runs which have not ended, or have work in flight."""
        ...
