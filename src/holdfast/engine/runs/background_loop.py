"""A loop of this process's own, which takes turn after turn until the process leaves, or until there is nothing to do.

While the store does not answer, the loop logs that once and tries again, soon at first and then ever later, up to a bound. Any
other error is a fault of ours. It ends this process's work where that depends on the loop: a process that silently notices
nothing would be worse than none.

Never here: what a turn does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from holdfast.errors import HoldfastError, StoreError, StoreGone
from holdfast.platform.log_ids import outside
from holdfast.ports import Clock

log = logging.getLogger("holdfast")

Turn: TypeAlias = Callable[[], Awaitable[float | None]]
"""Returns the pause before the next turn, in seconds; None for no further turn."""

_FIRST_PARTS: Final = 4
"""The first pause of an outage is this part of the longest."""
_CANCELLED_S: Final = 0.1
_MAX_CANCELLATIONS: Final = 50


class Outage:
    """A store that does not answer, for as long as that lasts."""

    def __init__(self, sentence: str, longest_s: float) -> None:
        """`sentence` is logged with the error in the place of %s; `longest_s` is the longest pause between two tries."""
        self._sentence = sentence
        self._longest_s = longest_s
        self._problem = ""
        self._pause_s = 0.0

    def goes_on(self, problem: HoldfastError) -> float:
        """Log an error unless it is the one before, and return how long to wait before the next try."""
        if str(problem) != self._problem:
            self._problem = str(problem)
            log.warning(self._sentence, problem)
        self._pause_s = min(2 * self._pause_s, self._longest_s) or self._longest_s / _FIRST_PARTS
        return self._pause_s

    def ends(self) -> None:
        """Forget the outage: the store has answered."""
        self._problem, self._pause_s = "", 0.0


class BackgroundLoop:
    """A loop that takes one turn after the other until its process leaves."""

    def __init__(
        self,
        name: str,
        turn: Turn,
        clock: Clock,
        give_up: Callable[[BaseException], None] = lambda _: None,
        *,
        fault: str,
        outage: Outage | None = None,
    ) -> None:
        """`give_up` ends this process's work, if that depends on the loop; `fault` is logged then. Without an `outage` a turn
        sees to a store's errors."""
        self._name = name
        self._turn = turn
        self._clock = clock
        self._give_up = give_up
        self._fault = fault
        self._outage = outage
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def goes_on(self) -> bool:
        """True while it takes turns."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin, or begin again after a last turn. Nothing happens while it goes on, or once it is closed."""
        if not self.goes_on and not self._closing:
            self._task = asyncio.create_task(self._go_on(), name=self._name, context=outside())

    async def aclose(self) -> None:
        """End it, in the middle of a turn if need be."""
        self._closing = True  # a cancellation that meets an error of a turn is lost in it
        if self._task is not None:
            await end([self._task])

    async def _go_on(self) -> None:
        try:
            while not self._closing and (pause_s := await self._next()) is not None:
                if pause_s > 0:
                    await self._clock.sleep(pause_s)
        except Exception as problem:
            log.exception(self._fault)
            self._give_up(problem)

    async def _next(self) -> float | None:
        """Take a turn, and return how long to rest; None where it was the last."""
        try:
            pause_s = await self._turn()
        except StoreGone as problem:
            self._give_up(problem)
            return None
        except StoreError as problem:
            if self._outage is None:
                raise
            return self._outage.goes_on(problem)
        if self._outage is not None:
            self._outage.ends()
        return pause_s


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended: a client's own time-out may swallow a cancellation."""
    for _ in range(_MAX_CANCELLATIONS):
        for task in tasks:
            task.cancel()
        if not tasks or not (await asyncio.wait(tasks, timeout=_CANCELLED_S))[1]:
            return
    log.warning("holdfast leaves while it still listens to its queue.")
