"""Keeps a process offline: connections and new processes are refused for as long as it is asked for.

The interpreter refuses them (PEP 578), whatever library asks. Never here: who may connect after all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.errors import NotRecorded

_REFUSED: Final = frozenset(
    {
        "socket.connect",
        "socket.sendto",
        "socket.sendmsg",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
    }
)


class _Refusals:
    """The number of callers that ask for refusals now, and the refused calls. An audit hook cannot be removed again."""

    def __init__(self) -> None:
        self.asked = 0
        self.hooked = False
        self.refused: list[str] = []

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.asked and event in _REFUSED:
            self.refused.append(event)
            raise NotRecorded(f"A replayed run makes no outside calls, and its code tried one ({event}). It was refused.")


_refusals = _Refusals()


@contextmanager
def offline() -> Iterator[list[str]]:
    """Inside, whatever calls outside of this process gets NotRecorded; what was refused, so far."""
    if not _refusals.hooked:
        sys.addaudithook(_refusals.hook)
        _refusals.hooked = True
    if not _refusals.asked:
        _refusals.refused = []
    _refusals.asked += 1
    try:
        yield _refusals.refused
    finally:
        _refusals.asked -= 1
