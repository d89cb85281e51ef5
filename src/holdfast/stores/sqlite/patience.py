"""A bounded wait for a lock that somebody else holds. Who waits for longer than people notice hears for whom.

Never here: a lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger("holdfast")

_PAUSES_S: Final = ((0.02, 0.000_25), (1.0, 0.001), (float("inf"), 0.005))
"""How long to pause between two tries, by how long the wait has lasted: a commit takes a millisecond or a few."""
_SAID_AFTER_S: Final = 1.0


class Patience:
    """One wait after another, each of at most `wait_s`; `holder` says who it is that has the lock."""

    def __init__(self, path: Path, wait_s: float, holder: Callable[[], str]) -> None:
        self._path = path
        self._wait_s = wait_s
        self._holder = holder
        self._began_s = 0.0
        self._said = False

    def __call__(self, tried: int) -> bool:
        """Pause before another try; False when the wait is over. `tried`: how often this was asked in this wait."""
        now_s = time.monotonic()
        if not tried:
            self._began_s, self._said = now_s, False
        waited_s = now_s - self._began_s
        if waited_s >= self._wait_s:
            return False
        if waited_s >= _SAID_AFTER_S and not self._said:
            self._said = True
            log.warning("%s holds the lock of %s; waiting for it, for at most %g s.", self._holder(), self._path, self._wait_s)
        time.sleep(next(pause_s for until_s, pause_s in _PAUSES_S if waited_s < until_s))
        return True
