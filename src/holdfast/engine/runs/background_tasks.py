"""Background tasks of a process after commits: a bounded number at a time, each in a task of its own.

None of it is load-bearing. A task that fails, or is one too many, is left undone, and found in the store by a later look. Never
here: what is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from holdfast.engine.runs.runs import Runs
from holdfast.errors import HoldfastError, StoreError
from holdfast.platform.log_ids import outside

log = logging.getLogger("holdfast")

_AT_ONCE: Final = 200
"""About what one flush takes."""
_MOST: Final = 20_000
_LAST_WORDS_S: Final = 5.0


class BackgroundTasks:
    """The background tasks of one process."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closing = False
        self._left = False

    def __bool__(self) -> bool:
        """True if anything is under way."""
        return bool(self._tasks)

    def take_left(self) -> bool:
        """Return True if something was left undone since the last call."""
        left, self._left = self._left, False
        return left

    def soon(self, work: Coroutine[Any, Any, object]) -> None:
        if self._closing or len(self._tasks) >= _MOST:
            self._left = True
            work.close()
            return
        task = self._runs.loop.create_task(self._in_turn(work), name="holdfast-errand", context=outside())
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _in_turn(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            async with self._turn:
                await work
        except StoreError as problem:
            self._left = True
            log.info("holdfast does later what follows from a commit: %s", problem)
        except HoldfastError as problem:
            self._left = True
            log.warning("holdfast could not do what follows from a commit: %s", problem)
        finally:
            work.close()

    async def aclose(self) -> None:
        """Finish what was begun, if that is soon done."""
        self._closing = True
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=_LAST_WORDS_S)
        left = [*self._tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
