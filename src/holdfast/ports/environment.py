"""Time, new names, and threads: what a process finds around itself.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, Protocol

from holdfast.core.values.ids import AppendId, RunId, SessionId


class Clock(Protocol):
    """Time as the engine feels it."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that counts sleep and never jumps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """New names."""

    def run(self, now_ms: int) -> RunId:
        """A UUIDv7 of that time."""
        ...

    def session(self) -> SessionId: ...

    def append(self) -> AppendId: ...

    def approval(self) -> str:
        """Of a standing approval."""
        ...


class Threads(Protocol):
    """Where users' functions run. A plain one cannot be stopped: `abandoned` of them have been given up and still run.

    `on_return` is called, in the event loop, whenever an abandoned one has come back.
    """

    abandoned: int
    on_return: Callable[[], None]

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], context: Context | None = None) -> Any:
        """What `function` returns; awaited too where that is awaitable. In `context`, or in a copy of the caller's; an async
        function without it in the caller's own. Raises what the function raises, as `border.ordinary` has it."""
        ...

    def close(self) -> None:
        """Begin nothing more. What still runs is not waited for."""
        ...
