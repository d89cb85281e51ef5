"""Time, as the store tells it and as its leases count it.

Never here: waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def boot_ms() -> int:
    """Milliseconds since the machine was started, its sleep included. All processes of the machine read the same."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class StoreClock:
    """The store's time. The machine's clock is believed once, at the start; from then on only time that passes counts.

    So setting the machine's clock while a process runs neither fires a timer early nor holds one back; after a restart
    the new setting is believed, but never before the newest event that the store holds.
    """

    def __init__(self, newest_ms: int, machine_ms: Callable[[], int] | None = None) -> None:
        """`machine_ms`, where given, is believed at every reading: time as a test or a simulation owns it."""
        # From the newest event on, should it be ahead: a clock that stood still until then would fire no timer.
        self._offset_ms = max(time.time_ns() // 1_000_000, newest_ms) - boot_ms()
        self._machine_ms = machine_ms or self._since_start_ms
        self._latest_ms = newest_ms

    def now_ms(self) -> int:
        now = self._machine_ms()
        if now > self._latest_ms:
            self._latest_ms = now
        return self._latest_ms

    def _since_start_ms(self) -> int:
        return self._offset_ms + boot_ms()
