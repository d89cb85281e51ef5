"""The calls to the outside that are on their way: each in a task of its own, which may outlive the attempt that made it.

Never here: what is called, what is said of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from holdfast.errors import StoreError
from holdfast.ports import Clock

log = logging.getLogger("holdfast")

T = TypeVar("T")

GRACE_S: Final = 2.0
"""What outside calls get to finish when the process stops; what they would have said is in doubt afterwards."""
_PARTING_S: Final = 1.0
"""Seconds between two messages on what is still waited for then."""


class OutsideCalls:
    """The calls outside of one process."""

    def __init__(self, clock: Clock, give_up: Callable[[BaseException], None]) -> None:
        """`give_up` is called about an outcome that the store did not take: a process that lives keeps its calls open for ever,
        the calls of a dead one are in doubt."""
        self._clock = clock
        self._give_up = give_up
        self._tasks: set[asyncio.Task[Any]] = set()
        self.on_parting: Callable[[float], None] | None = None
        """Hears, while calls are waited for at the end, for how many seconds they still are; must not raise."""

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def track(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Make a call in a task that the end of its attempt does not take along."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def bring(self, outcome: Coroutine[Any, Any, object]) -> None:
        """Have an outcome without a waiter recorded."""
        self._tasks.add(self.track(outcome))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # The attempt that would have heard of an error may be gone; the history has it, if the store took it.
        if not task.cancelled() and isinstance(problem := task.exception(), StoreError):
            log.error("holdfast cannot record what became of a call: %s", problem)
            self._give_up(problem)

    async def aclose(self, grace_s: float) -> None:
        """Wait for the calls that have left: an outcome that comes home now saves a person a question. Then end them."""
        until_s = self._clock.monotonic_s() + grace_s
        while self._tasks and (left_s := until_s - self._clock.monotonic_s()) > 0:
            if self.on_parting is not None:
                self.on_parting(left_s)
            await asyncio.wait([*self._tasks], timeout=left_s if self.on_parting is None else min(left_s, _PARTING_S))
        left = [*self._tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
