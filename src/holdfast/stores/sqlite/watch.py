"""Hearing of other processes' commits.

Never here: what they wrote. It tells that somebody may have written, and the caller goes and looks.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import apsw

from holdfast.stores.sqlite.context import StoreContext, StorePort

POLL_S: Final = 0.2
"""How late another process's commit is heard of. SQLite wakes nobody; to ask it costs some 50 µs."""
_ANSWER_S: Final = 0.05
"""How long the writer may take to answer when no time is given at all."""


class Watch(StorePort):
    """Keeps ports.Watch, for one listener at a time."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._seen = context.data_version

    async def changed(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while True:
            asking = asyncio.ensure_future(self._writer.ask(data_version))
            # A writer that waits for another process answers late; nobody else commits meanwhile either.
            await asyncio.wait({asking}, timeout=max(until_s - time.monotonic(), _ANSWER_S))
            if not asking.done():
                asking.cancel()
                return False
            if asking.result() != self._seen:
                self._seen = asking.result()
                return True
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0:
                return False
            await asyncio.sleep(min(POLL_S, remaining_s))


def data_version(db: apsw.Connection) -> int:
    """A number that changes with every commit of another connection than `db`, and with none of its own.

    On the writing connection that is: of another process. (`Connection.data_version` counts its own commits too.)
    """
    version: int = db.pragma("data_version")
    return version
