"""Failed log-ins: the record of requests that came with no token, or with an unknown one.

An address writes one entry a minute, and all together a limited number: guessing tokens does not fill the audit log. Those left
out are counted in the next entry. Never here: whose a token is (identity), how entries are chained (core.values.audit).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger("holdfast")

LOG_IN: Final = "LogIn"
"""As which it stands in the audit log."""
PERIOD_MS: Final = 60_000
MOST: Final = 30
"""Entries in a period."""


class FailedLogIns:
    """The log-ins that one process has refused."""

    def __init__(self, now_ms: Callable[[], int], record: Callable[[str, str], Awaitable[None]]) -> None:
        """`record` writes an entry, of an address and what is to be said of it."""
        self._now_ms = now_ms
        self._record = record
        self._period = 0
        self._met: set[str] = set()
        """Addresses that have an entry in this period."""
        self._left_out = 0

    async def note(self, origin: str, reason: str) -> None:
        """Note that a request from the address `origin` was refused, and why."""
        period = self._now_ms() // PERIOD_MS
        if period != self._period:
            self._period = period
            self._met.clear()
        if origin in self._met or len(self._met) >= MOST:
            self._left_out += 1
            return
        self._met.add(origin)
        about, self._left_out = (f"{reason}; {self._left_out} more before" if self._left_out else reason), 0
        log.warning("holdfast refused a request from %s: %s.", origin or "an unknown address", about)
        await self._record(origin, about)
