"""A step whose work is done by a connected worker: what it is given, and what it may ask for meanwhile.

The attempt, its journal, its calls and their money are this process's own; the worker has none of them. Never here: a
connection, the choice of a worker.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.authoring.plain import encode
from holdfast.core.ids import RunId, StepId
from holdfast.engine.placing import HERE
from holdfast.errors import StepError, UsageError
from holdfast.ports import JOB_LOG, Calls, Hands, Work

if TYPE_CHECKING:
    from holdfast.engine.attempt import Attempt
    from holdfast.engine.journal import StepContext

job_log = logging.getLogger(JOB_LOG)


class RemoteWorker:
    """The connected worker with which a step was placed."""

    def __init__(self, attempt: Attempt, hands: Hands, place: str) -> None:
        self._attempt = attempt
        self._hands = hands
        self._place = place

    async def perform(self, part: str, task: str, arguments: Any, calls: Calls) -> Any:
        """Have it do `task` as a part of the step, `` for all of it; what came of it. Raises as ports.Hands."""
        attempt = self._attempt
        pools = attempt.placed.pools if attempt.placed is not None else {}
        work = Work(self._job(part), task, encode(arguments), attempt.graph.nodes[attempt.name].timeout_s, pools)
        return await self._hands.perform(self._place, work, calls)

    def break_off(self, part: str, number: int) -> None:
        """Have it end what it was told to do next in the answer to that question."""
        self._hands.break_off(self._place, self._job(part), number)

    def _job(self, part: str) -> str:
        attempt = self._attempt
        return "/".join(each for each in (attempt.run, attempt.step, str(attempt.number), part) if each)


def worker_of(attempt: Attempt) -> RemoteWorker | None:
    """Who does the attempt's work, if this process does not."""
    hands, placed = attempt.services.hands, attempt.placed
    return (
        None
        if hands is None or placed is None or placed.worker == HERE
        else RemoteWorker(attempt, hands, placed.worker)
    )


async def perform(attempt: Attempt, context: StepContext, task: str, arguments: Any) -> Any:
    """What a connected worker makes of `arguments`."""
    worker = worker_of(attempt)
    if worker is None:
        raise UsageError(
            f"{attempt.name!r} is the task {task!r} of a connected worker, and this process takes no connections:"
            " `holdfast serve --grpc` does. The step was not begun."
        )
    return await worker.perform("", task, arguments, StepCalls(attempt, context))


class StepCalls:
    """Keeps ports.Calls: each call has a place of its own in the journal, so that several may be on their way."""

    def __init__(self, attempt: Attempt, context: StepContext) -> None:
        self.run: RunId = attempt.run
        self.step: StepId = attempt.step
        self._kept = context.kept_log(attempt.step)
        self._context = context

    async def model(
        self, number: int, model: str, user: Any, *, system: str, max_tokens: int | None, temperature: float | None
    ) -> Any:
        asked = self._context.model(model, user, system=system, max_tokens=max_tokens, temperature=temperature)
        return await self._context.apart(f"call-{number}", asked)

    async def tool(self, number: int, name: str, arguments: Any, *, key: str | None) -> Any:
        return await self._context.apart(f"call-{number}", self._context.call_tool(name, arguments, key=key))

    async def next(self, number: int, said: Any) -> Any:
        raise StepError("A task is given all that there is to do at once.")

    async def line(self, text: str) -> None:
        for line in text.splitlines():
            shown = self._context.redact(line)
            job_log.info("%s", shown, extra={"run": self.run, "job": self.step})
            self._kept.add(shown)
