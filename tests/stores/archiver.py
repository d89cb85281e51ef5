"""Processes that archive a month and are killed at a point of their way: `python -m tests.stores.archiver STORE`.

It has everything imported and nothing open, and forks one for each line `MONTH POINT` of its standard input; it answers with
how that ended, as `waitpid` tells it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from holdfast.compose import open_administration
from holdfast.stores.postgres.context import PostgresTables
from holdfast.stores.postgres.retention import PostgresRetention
from holdfast.stores.sqlite import retention as of_sqlite
from holdfast.stores.sqlite.thread import Writer

LASTING = ((Writer, "write"), (PostgresTables, "change"), (PostgresTables, "transact"), (PostgresRetention, "_drop"))
"""What leaves something behind that outlasts the process. `_drop` is the last thing in its transaction."""


class Points:
    """Counts them as they are crossed, one before and one after each, and kills at the `at`th."""

    def __init__(self, at: int) -> None:
        self._left = at

    def cross(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, deed: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(deed)
        async def crossed(*given: Any, **named: Any) -> Any:
            self.cross()
            found = await deed(*given, **named)
            self.cross()
            return found

        return crossed


async def archive(where: str, month: str, at: int) -> None:
    administration = await open_administration(where)
    points = Points(at)
    for owner, name in LASTING:
        setattr(owner, name, points.around(getattr(owner, name)))
    await administration.archive(month)
    os._exit(0)  # what is crossed on the way out is not of it


def fork(where: str, month: str, at: int) -> int:
    child = os.fork()
    if not child:
        try:
            asyncio.run(archive(where, month, at))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def main(where: str) -> None:
    of_sqlite._MAX_EVENTS = 7  # type: ignore[misc] # so that a history leaves in pieces
    print("ready", flush=True)
    for line in sys.stdin:
        month, at = line.split()
        print(fork(where, month, int(at)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
