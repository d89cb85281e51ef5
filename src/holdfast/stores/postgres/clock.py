"""Time, as the database tells it.

Never here: waiting; the clock of the machine that this process runs on, which may be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_STEADY_MS: Final = 10_000
"""How long a reading that came quickly is preferred to one that may have been long on its way."""


def boot_ms() -> int:
    """Milliseconds since the machine was started, its sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class StoreClock:
    """The database's time at its last word, and the time that has passed here since.

    What it says may lie behind the database's time by as long as an answer is on its way, and never before it: no timer
    fires early.
    """

    def __init__(self, now_ms: int, newest_ms: int, own_ms: Callable[[], int] | None = None) -> None:
        """`newest_ms`: no event is given a time before that. `own_ms`, where given, is believed at every reading instead
        of the database: time as a test or a simulation owns it."""
        self._own_ms = own_ms
        self._offset_ms = now_ms - boot_ms()
        self._heard_boot_ms = boot_ms()
        self._latest_ms = newest_ms

    def observe(self, now_ms: int) -> None:
        """Note the time that the database has just reported: `now_ms` is past by now."""
        here_ms = boot_ms()
        offset_ms = now_ms - here_ms
        if offset_ms >= self._offset_ms or here_ms - self._heard_boot_ms > _STEADY_MS:
            self._offset_ms, self._heard_boot_ms = offset_ms, here_ms

    def now_ms(self) -> int:
        now = self._offset_ms + boot_ms() if self._own_ms is None else self._own_ms()
        if now > self._latest_ms:
            self._latest_ms = now
        return self._latest_ms
