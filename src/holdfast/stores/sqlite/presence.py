"""That a process has the store open: the first one that comes is alone until it lets others in.

Only a check of what a killed process has left rests on it, and that checks again what it finds. Never here: the right to write
(turnstile).
"""

from __future__ import annotations

import itertools
from pathlib import Path

from holdfast.stores.sqlite.lock import LockFile
from holdfast.stores.sqlite.patience import Patience


class Presence:
    """This process's; it ends with it, however that dies."""

    def __init__(self, folder: Path, wait_s: float) -> None:
        """Waits for a first process that has not let others in yet. Raises OSError where the lock file cannot be made."""
        self._wait_s = wait_s
        self._file = LockFile(folder / "present")
        self.is_first = self._file.lock()
        if not self.is_first:
            self._share()

    def let_others_in(self) -> None:
        if self.is_first:
            self._share()

    def close(self) -> None:
        self._file.close()

    def _share(self) -> None:
        patience = Patience(self._file.path, self._wait_s, lambda: "A process that opens the store")
        for tried in itertools.count():
            if self._file.share() or not patience(tried):
                return
