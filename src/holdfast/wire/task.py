"""The API for a worker's tasks: `Tasks` collects them, and each call of one is given a `Job`.

Never here: a connection; grpc, so that a file which only defines tasks stays quick to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from holdfast.core.values.demand import LABEL, RESERVED
from holdfast.errors import StepError, UsageError

Body = Callable[..., Any]


class CallFailed(StepError):
    """A call that the server made for a job has failed. `error_class` is its class, `retryable` is True if a retry may help,
    and `number` is the call's."""

    error_class: str = "error"
    retryable: bool = False
    number: int = 0


class ServerConnection(Protocol):
    """A job's connection to its server."""

    async def call(self, job: str, number: int, **request: Any) -> Any: ...

    def progress(self, job: str, text: str) -> None: ...

    async def line(self, job: str, text: str) -> None: ...


class Job:
    """A job of a worker, with the calls that its body may request from the server.

    Each request is recorded under its number. If the job runs again after a crash, it gets the recorded results. So a body must
    repeat the same requests in the same order."""

    def __init__(
        self, id_: str, asks: ServerConnection, pools: Mapping[str, int], timeout_s: float | None, traceparent: str = ""
    ) -> None:
        self.id = id_
        """Run, step and attempt; no two jobs share it."""
        self.pools = MappingProxyType(dict(pools))
        """What is reserved for it of pools, by their names."""
        self.timeout_s = timeout_s
        self.traceparent = traceparent
        """Place in the trace that it continues (W3C Trace Context); empty for none. It is OpenTelemetry's current span."""
        self.cancelled = False
        """Its result counts no more. An async body is cancelled as well; a plain function looks here."""
        self.piece: asyncio.Future[Any] | None = None
        """What is being done of work that comes piece by piece."""
        self.is_broken_off = False
        """Whether that piece was cancelled, and the job goes on."""
        self._asks = asks
        self._number = 0

    async def model(
        self, model: str, user: Any, *, system: str = "", max_tokens: int | None = None, temperature: float | None = None
    ) -> str:
        """Make a model call through the server, with its keys and the run's money, and return the text.

        Args:
            model: Name of the model.
            user: The user's message.
            system: The system text.
            max_tokens: Maximum number of output tokens.
            temperature: The temperature; by default the provider's.

        Raises:
            CallFailed: The call failed.
        """
        said: str = await self._asks.call(
            self.id, self._next(), model=model, user=user, system=system, max_tokens=max_tokens, temperature=temperature
        )
        return said

    async def tool(self, name: str, arguments: Mapping[str, Any] | None = None, *, key: str | None = None) -> Any:
        """Call a tool that the node lists through the server, and return its result.

        Args:
            name: Name of the tool.
            arguments: Its arguments.
            key: Name of the effect; by default its place in the step.

        Raises:
            CallFailed: The call failed.
        """
        return await self._asks.call(self.id, self._next(), tool=name, arguments=dict(arguments or {}), key=key)

    def progress(self, text: str) -> None:
        """Send a line to the server's log.

        Args:
            text: The line.
        """
        self._asks.progress(self.id, text)

    async def next(self, outcome: Any) -> Any:
        """Return the next piece of work that comes piece by piece; None if there is no more.

        `outcome` is the result of the piece before, None before the first. If it is to end early, `piece` is cancelled.
        """
        return await self._asks.call(self.id, self._next(), done=outcome)

    async def line(self, text: str) -> None:
        """The same as `progress`, and nothing is left out: where the server does not keep up, it waits."""
        await self._asks.line(self.id, text)

    def break_off(self, number: int) -> None:
        """End the piece that the answer to that call started, if it still runs."""
        if number == self._number and self.piece is not None and not self.piece.done():
            self.is_broken_off = True
            self.piece.cancel()

    def _next(self) -> int:
        self._number += 1
        return self._number


class Tasks:
    """The tasks that a worker offers, by name.

    tasks = Tasks()

    @tasks.task("resize")
    async def resize(job, arguments): ...
    """

    def __init__(self) -> None:
        self.bodies: dict[str, Body] = {}

    def task(self, name: str) -> Callable[[Body], Body]:
        """Offer the decorated function as a task. It gets the job and its arguments, and returns the output as JSON data.

        A plain function runs in a thread.

        Args:
            name: Name of the task, without blanks and commas.

        Raises:
            UsageError: The name is invalid, or used twice.
        """
        if not LABEL.fullmatch(name):
            raise UsageError(f"{name!r:.130} names no task; use 1 to 100 characters without blanks and commas.")
        if name.startswith(RESERVED):
            raise UsageError(f"{name!r} is Holdfast's own: no other task's name begins with {RESERVED!r}.")

        def offer(body: Body) -> Body:
            if name in self.bodies:
                raise UsageError(f"There are two tasks called {name!r}; give one of them another name.")
            self.bodies[name] = body
            return body

        return offer
