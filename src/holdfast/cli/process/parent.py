"""The end of a `holdfast` process with the one that keeps it (child), also where that is killed and can end nothing.

Nothing is ever written to the standard input of such a process: its end is the end of the parent, on every system. Never here:
what stopping means to a command.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Final

WITH_PARENT: Final = "HOLDFAST_ENDS_WITH_PARENT"
"""The variable that tells a process to end with its parent."""
STOP_S: Final = 20.0
"""What a process gets to hand over, before it is killed."""


def end_with_parent() -> None:
    """Stop this process as SIGTERM does as soon as its standard input ends, and kill it where it does not stop."""
    lifeline = os.dup(0)  # no process that is started from here inherits it
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    threading.Thread(target=_watch, args=(lifeline, nothing), name="holdfast-parent", daemon=True).start()


def _watch(lifeline: int, nothing: int) -> None:
    while os.read(lifeline, 1):
        pass
    for output in (1, 2):  # its reader is gone, so a write would fail
        os.dup2(nothing, output)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os.kill(os.getpid(), signal.SIGKILL)
