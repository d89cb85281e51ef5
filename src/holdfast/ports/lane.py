"""Who leads a lane of the fleet.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.values.ids import SessionId


class Leadership(Protocol):
    """Who leads: at any moment at most one living session leads a lane of the fleet."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        """Whether `session`, one of this process's own, leads `lane` now: it takes over from nobody, or from the dead."""
        ...

    async def is_led(self, lane: str) -> bool:
        """Whether a living session leads `lane`."""
        ...

    async def unended_hashes(self) -> Sequence[str]:
        """The workflows that have runs which have not ended, or have work in flight."""
        ...
