"""A job whose combinations are steps of their own, each placed by what it asks for, tried again and logged by itself.

A combination completes with what it came to, also where that is a failure: its job tells of it, and a run that is taken up does
it again. Never here: one combination's steps (matrix_job), a job that is one step (job).
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.actions.expressions import ExpressionError
from holdfast.actions.jobs import context, placement
from holdfast.actions.jobs.attempt import Attempt
from holdfast.actions.jobs.decision import SKIPPED, Decision
from holdfast.actions.jobs.evaluation import Evaluation
from holdfast.actions.jobs.job import JobNode, Plan, output, plan_of, storable, together
from holdfast.actions.jobs.matrix_job import JobSettings, MatrixJob
from holdfast.actions.jobs.progress import Combination, CombinationResult, of_kept, to_data
from holdfast.actions.syntax import matrix
from holdfast.actions.syntax.document import Job
from holdfast.authoring.values.view import StateView
from holdfast.core.values.demand import Demand
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import OperationFailed, StepError

COMBINATION: Final = "combination"
"""What the items of its map are done by."""


class SpreadJob(JobNode):
    """The handlers of its node, and of its combinations."""

    def __init__(self, job: Job, decision: Decision, settings: JobSettings, retry: RetryPolicy) -> None:
        super().__init__(job, decision, settings)
        self._retry = retry

    async def _come_to(self, attempt: Attempt, state: StateView) -> dict[str, Any]:
        contexts = self._decision.contexts(state)
        evaluation = Evaluation(attempt)
        try:
            if not await evaluation.of(lambda: self._decision.runs(contexts)):
                return SKIPPED
            plan = await evaluation.of(lambda: plan_of(self._job.strategy, contexts))
            demands = await evaluation.of(lambda: [self._demand(plan, each, contexts) for each in plan.combinations])
        except (ExpressionError, matrix.MatrixError) as problem:
            return output("failure", "failure", error=f"job {self._job.id!r}: {problem.message}")
        numbers = [each.number for each in plan.combinations]
        try:
            ended = await attempt.map(
                self.combination,
                numbers,
                max_parallel=min(plan.most_at_once, len(numbers)),
                retry=self._retry,
                demand=lambda number: demands[number],
                fail_fast=plan.fail_fast,
            )
        except OperationFailed as failed:
            return output("failure", "failure", error=f"job {self._job.id!r}: {failed.message}")
        placed = [_result_of(*each) for each in zip(ended, plan.combinations, strict=True)]
        return together(self._job, [each for _, each in sorted(placed, key=lambda one: one[0])])

    def _demand(self, plan: Plan, combination: Combination, contexts: context.Contexts) -> Demand:
        return placement.demand_at(self._job, self._contexts_of(plan, combination, contexts))

    def _contexts_of(self, plan: Plan, combination: Combination, contexts: context.Contexts) -> dict[str, Any]:
        return {**contexts, "matrix": combination.matrix, "strategy": plan.strategy(combination)}

    async def combination(self, ctx: Any, number: int) -> dict[str, Any]:
        """One combination, in a step of its own. Raises StepError for a try that failed and is to be followed by another."""
        attempt: Attempt = ctx
        attempt.keep_in("s3" if any(each.storage == "s3" for each in self._job.outputs) else "local")
        contexts = self._decision.contexts(await attempt.view())
        plan = await Evaluation(attempt).of(lambda: plan_of(self._job.strategy, contexts))
        which, stop = plan.combinations[number], attempt.stopping
        work = MatrixJob(attempt, self._job, self._given, self._contexts_of(plan, which, contexts), which, stop)
        ended = storable(self._job, await work.run())
        may_again = ended.may_be_tried_again and attempt.failures < self._job.retry.times and not stop.is_set()
        if ended.outcome == "failure" and may_again:
            raise StepError(f"{self._job.id}{which.label}: {ended.error}")
        attempt.provisional = ended.result != "success"
        return to_data(ended, attempt.now_ms)


def _result_of(data: dict[str, Any] | None, combination: Combination) -> tuple[int, CombinationResult]:
    """Return the order in which a combination ended, and its result. One that never began counts as cancelled."""
    if data is not None:
        return of_kept(data, combination)
    return 0, CombinationResult(combination=combination, result="cancelled", outcome="cancelled")
