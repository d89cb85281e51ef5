"""The operations that a step's code has called, from the call to their end, so that none is forgotten.

A call is a coroutine: one that has not begun was never awaited. Never here: what an operation does, what becomes of the step.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple

_FEW: Final = 32
"""Calls that are kept before those are dropped that have ended."""
_MAX_NAMED: Final = 3


class _Call(NamedTuple):
    code: Coroutine[Any, Any, Any]
    name: str
    caller: CodeType
    instruction: int

    def __str__(self) -> str:
        return f"{self.name!r} ({self.place})"

    @property
    def place(self) -> str:
        lines = (line for start, end, line in self.caller.co_lines() if start <= self.instruction < end)
        return f"{Path(self.caller.co_filename).name}:{next(lines, None) or self.caller.co_firstlineno}"


class OperationCalls:
    """The operation calls of a step, or of a branch of it."""

    def __init__(self) -> None:
        self._calls: list[tuple[Any, str, CodeType, int]] = []
        self._most = _FEW

    def add(self, name: str, code: Coroutine[Any, Any, Any], depth: int) -> None:
        """Keep a call, and the line that made it: that of the frame `depth` above this one."""
        calls = self._calls
        if len(calls) >= self._most:  # a closed coroutine has no frame
            self._calls = calls = [call for call in calls if call[0].cr_frame is not None]
            self._most = max(_FEW, 2 * len(calls))
        frame = sys._getframe(depth)
        calls.append((code, name, frame.f_code, frame.f_lasti))

    def under_way(self) -> str | None:
        """Name a call that has begun and not ended; None if there is none."""
        return _named(self._in(inspect.CORO_SUSPENDED))

    def current(self) -> str | None:
        """Name the operation that the code is asking for."""
        return _named(self._in(inspect.CORO_RUNNING))

    def forgotten(self) -> str | None:
        """Say which calls were not awaited; None if all were."""
        calls = [*self._in(inspect.CORO_CREATED)]
        if not calls:
            return None
        told = [*dict.fromkeys(f"`{call.name}(...)` was not awaited ({call.place})" for call in calls)]
        more = f", and {len(told) - _MAX_NAMED} more" if len(told) > _MAX_NAMED else ""
        return f"Write `await {calls[0].name}(...)`: {', '.join(told[:_MAX_NAMED])}{more}, so it was not done."

    def move_to(self, others: OperationCalls) -> None:
        """Leave the calls that have not begun to the code around this branch."""
        others._calls.extend(self._in(inspect.CORO_CREATED))
        self._calls = []

    def close(self) -> None:
        """Drop the calls that have not begun: asyncio complains of a coroutine that is never awaited."""
        for call in self._in(inspect.CORO_CREATED):
            call.code.close()
        self._calls = []

    def _in(self, state: str) -> Iterator[_Call]:
        under_way = (call for call in self._calls if call[0].cr_frame is not None)
        return (_Call(*call) for call in under_way if inspect.getcoroutinestate(call[0]) == state)


def _named(calls: Iterator[_Call]) -> str | None:
    call = next(calls, None)
    return None if call is None else str(call)
