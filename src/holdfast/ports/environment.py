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
    """The threads in which users' functions run. A plain function cannot be stopped: `abandoned` of them have been given up and
    still run.

    `on_return` is called, in the event loop, each time an abandoned one comes back.
    """

    abandoned: int
    on_return: Callable[[], None]

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], context: Context | None = None) -> Any:
        """Return the result of `function`, awaited if it is awaitable. The function runs in `context`, or in a copy of the
        caller's. An async function without `context` runs in the caller's own. Raises what the function raises, as
        `border.ordinary` converts it."""
        ...

    def close(self) -> None:
        """Begin nothing more. What still runs is not waited for."""
        ...
