"""The connected worker with which a step was placed, as the step's attempt knows it.

The attempt, its journal, its calls and their money are this process's own; the worker has none of them. Never here: a
connection, the choice of a worker.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.values.plain import encode
from holdfast.core.values.trace import HEADER
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.capacity.placing import HERE
from holdfast.platform.current_span import trace_headers
from holdfast.ports import Calls, Work, WorkerGateway


class RemoteWorker:
    """The connected worker with which a step was placed."""

    def __init__(self, attempt: Attempt, gateway: WorkerGateway, place: str) -> None:
        self._attempt = attempt
        self._gateway = gateway
        self._place = place

    async def perform(self, part: str, task: str, arguments: Any, calls: Calls) -> Any:
        """Have it do `task` as a part of the step, `` for all of it; what came of it. Raises as ports.WorkerGateway."""
        attempt = self._attempt
        node = attempt.graph.node(attempt.name)
        limit_s = node.timeout_s if node is not None else None
        trace, ids = trace_headers().get(HEADER, ""), attempt.log_ids
        work = Work(
            self._job(part), task, encode(arguments), limit_s, attempt.pools, trace, ids.tenant, ids.workflow, ids.trace_id
        )
        return await self._gateway.perform(self._place, work, calls)

    def break_off(self, part: str, number: int) -> None:
        """Have it end its next task in the answer to that question."""
        self._gateway.break_off(self._place, self._job(part), number)

    def _job(self, part: str) -> str:
        attempt = self._attempt
        return "/".join(each for each in (attempt.run, attempt.step, str(attempt.number), part) if each)


def worker_of(attempt: Attempt) -> RemoteWorker | None:
    """Return the remote worker that does the attempt's work; None if this process does it."""
    gateway, placed = attempt.services.workers, attempt.placed
    return None if gateway is None or placed is None or placed.worker == HERE else RemoteWorker(attempt, gateway, placed.worker)
