"""The workers that are connected to a process, and what they may ask it for.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from holdfast.core.values.ids import RunId, StepId

JOB_LOG: Final = "holdfast.job_log"
"""The logger of what work has to show. Its records have `run` and `job` besides their message."""


class Work(msgspec.Struct, frozen=True):
    """Work for a connected worker: a step's, or a part of it. No two have the same `job`."""

    job: str
    task: str
    arguments_json: bytes
    timeout_s: float | None = None
    pools: Mapping[str, int] = {}
    """What was reserved for it of pools, by their names."""
    traceparent: str = ""
    """Place in the trace that it continues, as a header; empty for none."""
    tenant: str = ""
    workflow: str = ""
    trace_id: str = ""
    """Tenant, workflow and trace of its run, for the lines of its log."""


class Calls(Protocol):
    """The requests of a worker while it works. Everything that must be journaled is done here. `number` is the call's place in
    the step, counted by the worker. The same number in a later attempt gets the recorded outcome.

    A call raises StepError if it failed; the worker gets this error. Any other exception ends the work.
    """

    run: RunId
    step: StepId

    async def model(
        self, number: int, model: str, user: Any, *, system: str, max_tokens: int | None, temperature: float | None
    ) -> Any:
        """One model call: its text."""
        ...

    async def tool(self, number: int, name: str, arguments: Any, *, key: str | None) -> Any:
        """One call of a tool that the node lists."""
        ...

    async def next(self, number: int, message: Any) -> Any:
        """Return the next thing to do, for a worker that gets its work piece by piece; null at the end. `message` is the
        outcome of the piece before. Asked again, the answer is the same."""
        ...

    async def line(self, text: str) -> None:
        """Take a line that the worker shows of its work."""
        ...


class WorkerGateway(Protocol):
    """The workers that are connected to this process. `tells_tenants_apart`: some may not be given every tenant's jobs."""

    tells_tenants_apart: bool

    async def perform(self, place: str, work: Work, calls: Calls) -> Any:
        """Have `work` done by the worker `place`; what came of it, as JSON data. To be cancelled, it is called off there too.

        Raises RemoteFailed or the StepError of one of `calls` where the work failed, PlaceLost where its worker is gone.
        """
        ...

    def break_off(self, place: str, job: str, number: int) -> None:
        """Have the worker end its next task in the answer to that question, and then ask for another."""
        ...
