"""A step that is a task of a connected worker as a whole, and what the worker may ask for while it is at it.

Never here: a connection, the choice of a worker.
"""

from __future__ import annotations

import logging
from typing import Any

from holdfast.core.values.ids import RunId, StepId
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.remote import worker_of
from holdfast.engine.operations.context import StepContext
from holdfast.errors import StepError, UsageError
from holdfast.ports import JOB_LOG

job_log = logging.getLogger(JOB_LOG)


async def perform(attempt: Attempt, context: StepContext, task: str, arguments: Any) -> Any:
    """Return a connected worker's result for `arguments`."""
    worker = worker_of(attempt)
    if worker is None:
        raise UsageError(
            f"{attempt.name!r} is the task {task!r} of a connected worker, and this process takes no connections"
            " (`holdfast serve --grpc` does). The step was not begun."
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

    async def next(self, number: int, answer: Any) -> Any:
        raise StepError("A task is given all that there is to do at once.")

    async def line(self, text: str) -> None:
        for line in text.splitlines():
            shown = self._context.redact(line)
            job_log.info("%s", shown, extra={"run": self.run, "job": self.step})
            self._kept.add(shown)
