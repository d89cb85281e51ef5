"""A step whose work is done by a connected worker: what it is given, and what it may ask for meanwhile.

The attempt, its journal, its calls and their money are this process's own; the worker has none of them. Never here: a
connection, the choice of a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.ids import RunId, StepId
from holdfast.engine.payloads import encode
from holdfast.errors import UsageError
from holdfast.ports import Work

if TYPE_CHECKING:
    from holdfast.engine.attempt import Attempt
    from holdfast.engine.journal import StepContext


async def perform(attempt: Attempt, context: StepContext, task: str, arguments: Any) -> Any:
    """What a connected worker makes of `arguments`."""
    hands, placed = attempt.house.hands, attempt.placed
    if hands is None or placed is None:
        raise UsageError(
            f"{attempt.name!r} is the task {task!r} of a connected worker, and this process takes no connections:"
            " `holdfast serve --grpc` does. The step was not begun."
        )
    node = attempt.graph.nodes[attempt.name]
    job = f"{attempt.run}/{attempt.step}/{attempt.number}"
    work = Work(job, task, encode(arguments), node.timeout_s, placed.pools)
    return await hands.perform(placed.worker, work, StepCalls(attempt, context))


class StepCalls:
    """Keeps ports.Calls: each call has a place of its own in the journal, so that several may be on their way."""

    def __init__(self, attempt: Attempt, context: StepContext) -> None:
        self.run: RunId = attempt.run
        self.step: StepId = attempt.step
        self._context = context

    async def model(
        self, number: int, model: str, user: Any, *, system: str, max_tokens: int | None, temperature: float | None
    ) -> Any:
        asked = self._context.model(model, user, system=system, max_tokens=max_tokens, temperature=temperature)
        return await self._context.apart(f"call-{number}", asked)

    async def tool(self, number: int, name: str, arguments: Any, *, key: str | None) -> Any:
        return await self._context.apart(f"call-{number}", self._context.call_tool(name, arguments, key=key))

    def redact(self, text: str) -> str:
        return self._context.redact(text)
