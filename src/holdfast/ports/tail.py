"""Hearing of what others have committed: that there is something, and what.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId


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
