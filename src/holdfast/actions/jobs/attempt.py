"""A job's view of the attempt in which it runs, and of the worker with which it was placed. The engine's StepContext is such an
attempt.

Never here: an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

from holdfast.authoring.tool import Tool
from holdfast.authoring.values.view import StateView
from holdfast.core.capacity.estimates import Report
from holdfast.core.rules.limits import LimitsLeft
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.policies import RetryPolicy
from holdfast.ports import Calls, Clock

T = TypeVar("T")


class Worker(Protocol):
    """The connected worker that does a step's work, in parts that have names."""

    async def perform(self, part: str, task: str, arguments: Any, calls: Calls) -> Any:
        """As ports.WorkerGateway."""
        ...

    def break_off(self, part: str, number: int) -> None:
        """As ports.WorkerGateway."""
        ...


class ScriptLimits(Protocol):
    """The limits of a script's processes, for those that its file does not set."""

    @property
    def memory_mb(self) -> int: ...

    @property
    def cpu_s(self) -> int: ...

    @property
    def file_mb(self) -> int: ...

    @property
    def processes(self) -> int: ...


class KeptLog(Protocol):
    """The stored output of a job."""

    def add(self, line: str) -> None:
        """A line without secrets."""
        ...


class Attempt(Protocol):
    """One try of a job."""

    run_id: RunId
    step_id: StepId
    tenant: str
    provisional: bool
    """Set where the job is to be done again should its run be taken up after it has failed."""

    @property
    def worker(self) -> Worker | None:
        """The worker that does the job's work; None if this process does it itself."""
        ...

    @property
    def failures(self) -> int:
        """The number of tries that have failed before this one."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def script_limits(self) -> ScriptLimits: ...

    @property
    def pools(self) -> Mapping[str, int]:
        """The amounts reserved of pools, for all combinations together that share them."""
        ...

    def report(self, reports: Iterable[Report]) -> None:
        """Record the amounts of pools that scripts report as used."""
        ...

    def redact(self, text: str) -> str:
        """`text` without secrets."""
        ...

    async def aside(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, run in a thread."""
        ...

    def tidying(self) -> AbstractContextManager[bool]:
        """Inside, what is left to be done after it was called off; whether its run is cancelled."""
        ...

    def keep_in(self, storage: Literal["local", "s3"]) -> None:
        """Set the storage of its output and of what it records."""
        ...

    def kept_log(self, job: str) -> KeptLog:
        """For what it prints in this try. `job` is what people call it."""
        ...

    def program_variables(
        self, name: str, *, on_change: Literal["stop", "live"]
    ) -> AbstractAsyncContextManager[Mapping[str, str | None]]:
        """Inside, a script may make model calls: yields the variables that lead it to the gateway, None for those that would
        lead it past. Leaving waits for calls under way, and raises what the step has to wait for."""
        ...

    async def view(self) -> StateView:
        """The run as this try sees it."""
        ...

    async def left(self) -> LimitsLeft:
        """Return the rest of the run's limits; recorded at its place."""
        ...

    async def map(
        self,
        function: Any,
        items: Sequence[Any],
        /,
        *,
        max_parallel: int,
        demand: Callable[[Any], Demand],
        retry: RetryPolicy,
        fail_fast: bool,
    ) -> list[Any]:
        """Have each item done in a step of its own; None for one that never began. Raises OperationFailed."""
        ...

    @property
    def stopping(self) -> asyncio.Event:
        """Set when this is such an item, and another has failed with which it is to end."""
        ...

    @property
    def now_ms(self) -> int:
        """The store's time."""
        ...

    async def gather(self, *branches: Awaitable[Any]) -> list[Any]:
        """Run them at the same time, each with places of its own in the journal."""
        ...

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run it at a place of that name in the journal."""
        ...

    async def record(self, name: str, result: Any) -> None:
        """Keep a result for every later attempt."""
        ...

    async def recorded(self, name: str) -> Any:
        """Return the value that an earlier attempt has recorded under that name, or None."""
        ...

    async def call_tool(
        self, name: str, arguments: Any, *, key: str | None = None, allowed: Mapping[str, Tool] | None = None
    ) -> Any:
        """Call a tool under the ledger, or get what became of it before. Raises OperationFailed."""
        ...
