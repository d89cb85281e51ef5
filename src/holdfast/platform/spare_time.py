"""Processor time for work that can wait: all of it in a process that is known to be calm, and a small share in any other.

Work that comes after a rest has the small share too, until the process was calm beside it: whatever made the work may go on.

Never here: the work.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

SHARE: Final = 0.02
"""Part of the event loop's processor time that waiting work may take in a busy process."""
_BUSY: Final = 0.5
"""Part of the time that everything else in the event loop needs from which on the process is busy."""
_SPAN_S: Final = 0.25
"""Interval over which that is measured."""
_CALM_SPANS: Final = 4
"""Calm intervals in a row that make a process calm: one alone may be a wait for the disk."""
_UNPROVEN_S: Final = _CALM_SPANS * _SPAN_S
"""Time from the end of a rest in which nothing has shown yet whether the process is calm."""
_SLOWEST: Final = 0.05
"""Part of a processor that a busy thread is taken to have at least."""
LONGEST_PAUSE_S: Final = 5.0
_SCHEDULING: Final = Path("/proc/thread-self/schedstat")
"""Time of this thread on a processor, and time that it waited for one, in nanoseconds."""


def needed_s() -> float:
    """Return the time that this thread has needed so far: on a processor and, where the system says so, waiting for one."""
    try:
        ran_ns, waited_ns, _ = _SCHEDULING.read_bytes().split()
    except (OSError, ValueError):
        return time.thread_time()
    return (int(ran_ns) + int(waited_ns)) / 1e9


class SpareTime:
    """The spare time of one process, for several tasks that share it equally."""

    def __init__(
        self,
        wall_s: Callable[[], float] = time.monotonic,
        needed_s: Callable[[], float] = needed_s,
        thread_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._wall_s = wall_s
        self._needed_s = needed_s
        self._thread_s = thread_s
        self._sharers = 0
        self._spent_s = 0.0
        self._since = wall_s(), needed_s(), thread_s(), 0.0
        self._pace = 1.0
        """Part of the latest busy interval in which this thread had a processor."""
        self._calm_spans = _CALM_SPANS

    def share(self) -> TimeShare:
        """Return the part of one more task."""
        self._sharers += 1
        return TimeShare(self)

    @property
    def is_busy(self) -> bool:
        """True if everything else in the event loop needs more than half of its time. For the loop's own thread to ask."""
        wall_s, needed_s, thread_s, spent_s = self._since
        now_s = self._wall_s()
        if now_s - wall_s >= _SPAN_S:
            since_s, ran_s = self._needed_s() - needed_s, self._thread_s() - thread_s
            was_busy = since_s - (self._spent_s - spent_s) > _BUSY * (now_s - wall_s)
            self._calm_spans = 0 if was_busy else self._calm_spans + 1
            self._pace = min(max(ran_s / (now_s - wall_s), _SLOWEST), 1.0) if was_busy else 1.0
            self._since = now_s, needed_s + since_s, thread_s + ran_s, self._spent_s
        return self._calm_spans < _CALM_SPANS

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds

    def _pause_s(self, spent_s: float) -> float:
        return min(spent_s * (self._sharers / SHARE - 1) / self._pace, LONGEST_PAUSE_S)


class TimeShare:
    """The part of one task."""

    def __init__(self, spare: SpareTime) -> None:
        self._spare = spare
        self._spent_s = 0.0
        self._rests = True
        self._proven_s = 0.0
        """Time from which on the process is known to be calm, if it is."""

    @property
    def is_busy(self) -> bool:
        """True if the process has other work to do, or may have."""
        return self._spare.is_busy or self._rests or self._spare._wall_s() < self._proven_s

    def rest(self) -> None:
        """There is nothing to do: what comes next may come from work that begins now."""
        self._rests = True

    def go_on(self) -> None:
        """There is something to do."""
        if self._rests:
            self._rests, self._proven_s = False, self._spare._wall_s() + _UNPROVEN_S

    def of(self, work: Awaitable[T]) -> Awaitable[T]:
        """Return the same work, whose processor time counts for this part."""
        return _Metered(work, self._spare._thread_s, self._spend)

    def pause_s(self) -> float:
        """Return the pause that the work so far asks for, in seconds; 0 in a calm process. While that is not known yet, no
        pause is longer than until it is."""
        spent_s, self._spent_s = self._spent_s, 0.0
        if self._spare.is_busy:
            return self._spare._pause_s(spent_s)
        return min(self._spare._pause_s(spent_s), max(self._proven_s - self._spare._wall_s(), 0.0))

    def _spend(self, seconds: float) -> None:
        self._spent_s += seconds
        self._spare._spend(seconds)


class _Metered(Generic[T]):
    """Work whose every turn in the event loop is measured; other tasks' turns between them are not."""

    def __init__(self, work: Awaitable[T], now_s: Callable[[], float], spend: Callable[[float], None]) -> None:
        self._work = work
        self._now_s = now_s
        self._spend = spend

    def __await__(self) -> Generator[Any, Any, T]:
        turns = self._work.__await__()
        go_on: Callable[[Any], Any] = turns.send
        value: Any = None
        while True:
            began_s = self._now_s()
            try:
                awaited = go_on(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._spend(self._now_s() - began_s)
            try:
                value = yield awaited
                go_on = turns.send
            except BaseException as problem:  # noqa: BLE001 - a cancellation is the work's own to see
                value = problem
                go_on = turns.throw
