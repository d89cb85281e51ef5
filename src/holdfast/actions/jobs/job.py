"""One job in one step: how it runs, and what becomes of it.

It always ends with a result that the jobs after it read; only a try that is to be followed by another fails its step. In runs
that began before combinations were steps of their own (spread_job), those of a job share its step here. Never here: a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.actions.expressions import ExpressionError
from holdfast.actions.jobs import context
from holdfast.actions.jobs.attempt import Attempt
from holdfast.actions.jobs.decision import SKIPPED, Decision
from holdfast.actions.jobs.evaluation import Evaluation
from holdfast.actions.jobs.log import Log
from holdfast.actions.jobs.matrix_job import JobSettings, MatrixJob
from holdfast.actions.jobs.placement import MAX_AT_ONCE, at_once
from holdfast.actions.jobs.progress import Combination, CombinationResult, Result, of_kept, to_data
from holdfast.actions.syntax import matrix
from holdfast.actions.syntax.document import Job, Strategy
from holdfast.authoring.values import plain
from holdfast.authoring.values.view import StateView
from holdfast.errors import StepError

_MAX_PARALLEL: Final = 1000
"""What `max-parallel` may say."""
_DONE: Final = "done"
"""Under this name each combination that has succeeded is recorded."""
_KNOWN: Final = "has succeeded before, and is not run again"


class Plan(msgspec.Struct, frozen=True):
    """The combinations of a job, and how they run."""

    combinations: tuple[Combination, ...]
    fail_fast: bool
    most_at_once: int

    def strategy(self, combination: Combination) -> dict[str, Any]:
        """The context `strategy`."""
        return {
            "fail-fast": self.fail_fast,
            "job-index": combination.number,
            "job-total": len(self.combinations),
            "max-parallel": self.most_at_once,
        }


class JobNode:
    """The handler of a job's node."""

    def __init__(self, job: Job, decision: Decision, settings: JobSettings) -> None:
        self._job = job
        self._decision = decision
        self._given = settings

    async def run(self, state: StateView, ctx: Any) -> dict[str, Any]:
        """The node's output. Raises StepError for a try that failed and is to be followed by another."""
        attempt: Attempt = ctx
        attempt.keep_in("s3" if any(output.storage == "s3" for output in self._job.outputs) else "local")
        found = await self._come_to(attempt, state)
        attempt.provisional = found["result"] not in ("success", "skipped")
        return found

    async def _come_to(self, attempt: Attempt, state: StateView) -> dict[str, Any]:
        contexts = self._decision.contexts(state)
        evaluation, seen = Evaluation(attempt), await self._decision.seen(contexts, attempt)
        try:
            if not await evaluation.of(lambda: self._decision.runs(seen)):
                return SKIPPED
            plan = await evaluation.of(lambda: plan_of(self._job.strategy, contexts))
        except (ExpressionError, matrix.MatrixError) as problem:
            return output("failure", "failure", error=f"job {self._job.id!r}: {problem.message}")
        ended = await self._run(attempt, plan, contexts)
        failed = [each for each in ended if each.outcome == "failure"]
        if failed and attempt.failures < self._job.retry.times and all(each.may_be_tried_again for each in failed):
            raise StepError("; ".join(str(each.error) for each in failed))
        return together(self._job, ended)

    async def _run(self, attempt: Attempt, plan: Plan, contexts: context.Contexts) -> list[CombinationResult]:
        """All combinations, in the order in which they ended. What an earlier try has done is not done again."""
        before: list[tuple[int, CombinationResult]] = []
        ended: list[CombinationResult] = []
        places = asyncio.Semaphore(min(plan.most_at_once, MAX_AT_ONCE))
        stop, sharers = asyncio.Event(), at_once(self._job.strategy) or 1
        began_s = attempt.clock.monotonic_s()

        async def one(combination: Combination) -> None:
            if (known := await attempt.recorded(_DONE)) is not None:
                Log(attempt, f"{self._job.id}{combination.label}").say(_KNOWN)
                before.append(of_kept(known, combination))
                return
            async with places:
                if stop.is_set():
                    ended.append(CombinationResult(combination=combination, result="cancelled", outcome="cancelled"))
                    return
                seen = {**contexts, "matrix": combination.matrix, "strategy": plan.strategy(combination)}
                ended.append(
                    storable(
                        self._job,
                        await MatrixJob(attempt, self._job, self._given, seen, combination, stop, sharers, began_s).run(),
                    )
                )
                if plan.fail_fast and ended[-1].result == "failure":
                    stop.set()
                if ended[-1].outcome == "success" and combination.matrix is not None:
                    last = max((place for place, _ in before), default=0)
                    await attempt.record(_DONE, to_data(ended[-1], last + len(ended)))

        await attempt.gather(*map(one, plan.combinations))
        return [each for _, each in sorted(before, key=lambda known: known[0])] + ended


def storable(job: Job, ended: CombinationResult) -> CombinationResult:
    """Return the result of a combination in a form that can be recorded. If it cannot be, that combination fails, and no
    other."""
    why = plain.unstorable(to_data(ended, 0))
    if why is None:
        return ended
    error = f"job {job.id!r}: {why}"
    return CombinationResult(
        combination=ended.combination, result="failure", outcome="failure", error=error, may_be_tried_again=False
    )


def together(job: Job, ended: Sequence[CombinationResult]) -> dict[str, Any]:
    """Of outputs the last to end wins, and what is empty takes nothing's place."""
    outputs = {each.name: "" for each in job.outputs}
    for each in ended:
        outputs |= {name: value for name, value in each.outputs.items() if value != ""}
    error = "; ".join(each.error for each in ended if each.error is not None)
    result, outcome = _worst([each.result for each in ended]), _worst([each.outcome for each in ended])
    found = output(result, outcome, outputs, error or None)
    if job.strategy is None:
        return {**found, **_course_of(ended[0])}
    in_order = sorted(ended, key=lambda each: each.combination.number)
    shown = [{"matrix": each.combination.matrix, "result": each.result, "outcome": each.outcome} for each in in_order]
    return {**found, "combinations": [{**ended, **_course_of(each)} for ended, each in zip(shown, in_order, strict=True)]}


def plan_of(strategy: Strategy | None, contexts: context.Contexts) -> Plan:
    """Raises ExpressionError and MatrixError."""
    if strategy is None:
        return Plan((Combination(0),), fail_fast=True, most_at_once=1)
    found = strategy.combinations
    if found is None:
        found = matrix.expand(matrix.resolve(strategy.matrix, contexts))
    if not found:
        raise matrix.MatrixError("", "'exclude' leaves no combination of the matrix.")
    most = len(found)
    if strategy.max_parallel is not None:
        most = context.count(strategy.max_parallel, contexts, "max-parallel", _MAX_PARALLEL)
    combinations = tuple(Combination(number, each) for number, each in enumerate(found))
    return Plan(combinations, context.flag(strategy.fail_fast, contexts, "fail-fast"), most)


def _worst(results: Collection[Result]) -> Result:
    order: tuple[Result, ...] = ("failure", "cancelled", "success")
    return next(each for each in order if each in results)


def output(
    result: Result, outcome: Result, outputs: Mapping[str, str] | None = None, error: str | None = None
) -> dict[str, Any]:
    """`result` is what other jobs see; `outcome` the same before continue-on-error."""
    found: dict[str, Any] = {"result": result, "outcome": outcome, "outputs": dict(outputs or {})}
    return found if error is None else {**found, "error": error}


def _course_of(ended: CombinationResult) -> dict[str, Any]:
    """Return the part of a job's output that describes its course."""
    named = {} if ended.name is None else {"name": ended.name}
    times = {"times": ended.times} if ended.times else {}
    return {**named, "steps": ended.steps, **times, "log": ended.log}
