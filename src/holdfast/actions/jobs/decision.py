"""The decision about running a job, by the results of the jobs before it and by its `if`.

If a job may have to wait for its place, a node of its own decides first. So a job that is skipped waits for no place. Never
here: a place, a combination.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from holdfast.actions.expressions import ExpressionError
from holdfast.actions.jobs import context
from holdfast.actions.jobs.evaluation import Evaluation
from holdfast.actions.syntax.document import Job
from holdfast.authoring.values.view import StateView

RUN: Final = "run"
SKIP: Final = "skip"
SKIPPED: Final[dict[str, Any]] = {"result": "skipped", "outcome": "skipped", "outputs": {}}
"""The output of a job that is skipped."""
_DECIDES: Final = ".if"
_LEFT: Final = "left"


def decider(job: str) -> str:
    """The name of the node that decides about a job. No job can have it, because of its dot."""
    return job + _DECIDES


def is_decider(node: str) -> bool:
    return node.endswith(_DECIDES)


def output_of(state: StateView, job: str) -> dict[str, Any]:
    """Return the output of a job that is over."""
    found = state.events[job].output
    return SKIPPED if found is None else found


class Decision:
    """About one job. `needs` and `before` are ids: what it names, and all that comes before it. `variables` are what `vars`
    has."""

    def __init__(self, job: Job, needs: Collection[str], before: Collection[str], variables: Mapping[str, str]) -> None:
        self._job = job
        self._needs = needs
        self._before = before
        self._variables = variables

    def contexts(self, state: StateView) -> dict[str, Any]:
        """Return the contexts of its `if` and its `strategy`."""
        before = {id_: output_of(state, id_) for id_ in self._before}
        return context.deciding(context.starting(state.input, self._variables), self._needs, before)

    async def seen(self, contexts: context.Contexts, ctx: Any) -> context.Contexts:
        """Return what its `if` sees: what is left of the run's limits too, where it asks. That is recorded, so that a later try
        sees the same."""
        if _LEFT not in self._job.condition.names.contexts:
            return contexts
        return {**contexts, _LEFT: msgspec.to_builtins(await ctx.left())}

    def runs(self, contexts: context.Contexts) -> bool:
        """Raises ExpressionError."""
        results = [each["result"] for each in contexts["jobs"].values()]
        return self._job.condition.evaluate(contexts, context.of_results(results))

    async def way(self, state: StateView, ctx: Any) -> str:
        """The handler of the node that decides. What cannot be worked out is the job's own failure, which it tells itself."""
        try:
            seen = await self.seen(self.contexts(state), ctx)
            return RUN if await Evaluation(ctx).of(lambda: self.runs(seen)) else SKIP
        except ExpressionError:
            return RUN
