"""Ids of the work that runs in this context, for each line that is logged there.

A step's attempt sets them in the context of its code; tasks that the code makes, and threads of `asyncio.to_thread`, inherit
them. What the engine does for all runs is outside of any step, also where a step has made it begin.

Never here: a log, its form.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

import msgspec

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.trace import attempt_span, trace_of


class LogIds(msgspec.Struct):
    """Ids of one attempt of a step, or of what else is known of the work. An empty one is unknown."""

    run_id: str = ""
    step_id: str = ""
    attempt: int = 0
    tenant: str = ""
    workflow: str = ""
    traceparent: str = ""
    root: str = ""

    @property
    def trace_id(self) -> str:
        """Return the id of the run's trace; empty without a run at the top of its tree."""
        return trace_of(self.traceparent, RunId(self.root)).trace_id if self.root else ""

    @property
    def span_id(self) -> str:
        """Return the id of the attempt's span, which traces have too."""
        return attempt_span(RunId(self.run_id), StepId(self.step_id), self.attempt) if self.attempt else ""


NAMES: Final = ("run_id", "step_id", "attempt", "tenant", "workflow", "trace_id", "span_id")
NOWHERE: Final = LogIds()

_here: Final[ContextVar[LogIds]] = ContextVar("holdfast_log_ids", default=NOWHERE)

enter: Final = _here.set
"""Puts ids in this context."""
here: Final = _here.get
"""Returns the ids in this context."""


def outside() -> Context:
    """Return a copy of this context without ids, for a task that no step of its own has."""
    context = copy_context()
    context.run(_here.set, NOWHERE)
    return context


def about(ids: LogIds) -> dict[str, Any]:
    """Return ids as the `extra` of a line that is logged outside of their context."""
    return {name: value for name in NAMES if (value := getattr(ids, name))}
