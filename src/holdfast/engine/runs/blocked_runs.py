"""Obstacles that keep this process from going on with its runs: a store or a place for payloads that does not take their
results.

They are logged, not too often, and shown with the run by way of the session's report. Never here: trying again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from holdfast.core.values.ids import RunId
from holdfast.errors import StoreError
from holdfast.platform.log_ids import outside
from holdfast.ports import Clock, Stall

log = logging.getLogger("holdfast")

_LOG_EVERY_S: Final = 30.0
_MAX_TOLD: Final = 100
"""Runs that are named to others; when a disk is full it is the same for all of them."""
_MAX_WORDS: Final = 500


class BlockedRuns:
    """The runs of this process that wait for a store, and why."""

    def __init__(self, clock: Clock, now_ms: Callable[[], int], tell: Callable[[], Awaitable[object]]) -> None:
        """`tell` has the session say of itself what is known now."""
        self._clock = clock
        self._now_ms = now_ms
        self._tell = tell
        self._runs: dict[RunId, Stall] = {}
        self._waiting: Counter[RunId] = Counter()
        """How many of its steps, and branches of these, wait."""
        self._logged_s: float | None = None
        self._telling: asyncio.Task[None] | None = None

    def list_blocked(self) -> tuple[Stall, ...]:
        return tuple(self._runs.values())[:_MAX_TOLD]

    @contextlib.contextmanager
    def over(self, run: RunId) -> Iterator[Callable[[StoreError], None]]:
        """Wrap one thing that a step of the run asks of a store: what is yielded gets each problem over which it waits."""
        waits = False

        def note(problem: StoreError) -> None:
            nonlocal waits
            self._note(run, problem)
            self._waiting[run] += not waits
            waits = True

        is_there, is_dropped = True, False
        try:
            yield note
        except (StoreError, asyncio.CancelledError):
            is_there = False  # it has given up, or was asked to
            raise
        except GeneratorExit:  # its event loop is closed: nothing can be reported any more
            is_dropped = True
            raise
        finally:
            if waits and not is_dropped:
                self._waiting[run] -= 1
                self._clear(run, is_there=is_there)

    def _note(self, run: RunId, problem: StoreError) -> None:
        """A step of the run cannot go on for now."""
        known = self._runs.get(run)
        why = problem.message[:_MAX_WORDS]
        self._runs[run] = Stall(run, why, known.since_ms if known is not None else self._now_ms())
        now_s = self._clock.monotonic_s()
        if self._logged_s is None or now_s - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now_s
            others = f" (and {len(self._runs) - 1} other runs)" if len(self._runs) > 1 else ""
            log.warning(
                "holdfast waits to go on with run %s%s: %s It is tried again.",
                run,
                others,
                problem.message,
                extra={"run_id": run},
            )
        if known is None:
            self._say()

    def _clear(self, run: RunId, *, is_there: bool) -> None:
        """One of those who waited does no longer; the run goes on when none is left."""
        if self._waiting[run] > 0:
            return
        del self._waiting[run], self._runs[run]
        if not self._runs:
            self._logged_s = None
            if is_there:
                log.warning("holdfast goes on with run %s: what it waited for is there again.", run, extra={"run_id": run})
        self._say()

    def _say(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._report(), context=outside())

    async def _report(self) -> None:
        said: tuple[Stall, ...] | None = None
        while said != self.list_blocked():  # more may have come while it was reported
            said = self.list_blocked()
            with contextlib.suppress(StoreError):  # a reader of the same store would not hear of it either
                await self._tell()
