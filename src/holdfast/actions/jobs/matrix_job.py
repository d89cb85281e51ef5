"""One combination of a job: a runner of its own, and the steps on it, one after the other.

Never here: whether the job runs, what its combinations are, what its result means for the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from holdfast.actions.expressions import ExpressionError
from holdfast.actions.jobs import context
from holdfast.actions.jobs.attempt import Attempt
from holdfast.actions.jobs.evaluation import Evaluation
from holdfast.actions.jobs.log import Log
from holdfast.actions.jobs.progress import Combination, CombinationResult, Progress
from holdfast.actions.jobs.remote import remote_runner
from holdfast.actions.jobs.runner import JobRunner, Shell, local_runner
from holdfast.actions.jobs.step import StepRun, StepScope
from holdfast.actions.syntax.document import Job, Variable

TIDY_S: Final = 300.0
"""What the steps that run after a cancellation have, all together: GitHub's five minutes."""


class JobSettings(NamedTuple):
    """The settings that a workflow gives to each of its jobs."""

    env: tuple[Variable, ...]
    shell: Shell


class MatrixJob:
    """One combination at work. `contexts` go up to the matrix; `stop` is set when the other combinations want this one
    cancelled; `sharers` is how many have its place together."""

    def __init__(
        self,
        attempt: Attempt,
        job: Job,
        settings: JobSettings,
        contexts: context.Contexts,
        combination: Combination,
        stop: asyncio.Event,
        sharers: int = 1,
        began_s: float | None = None,
    ) -> None:
        """`began_s` is when the attempt began; by default now."""
        self._attempt = attempt
        self._job = job
        self._given = settings
        self._contexts = contexts
        self._which = combination
        self._stop = stop
        self._sharers = sharers
        self._began_s = attempt.clock.monotonic_s() if began_s is None else began_s
        self._begun = 1
        """The number of the step that was begun last."""
        self._evaluation = Evaluation(attempt)
        self._progress = Progress(contexts, Log(attempt, f"{job.id}{combination.label}"))

    async def run(self) -> CombinationResult:
        """Raises nothing of its own: what goes wrong is the combination's failure."""
        progress, job, contexts, evaluated = self._progress, self._job, self._contexts, self._evaluation.of
        outputs: dict[str, str] = {}
        spared, name = False, None
        try:
            spared = await evaluated(lambda: context.flag(job.continue_on_error, contexts, "continue-on-error"))
            name = await evaluated(lambda: None if job.name is None else job.name.render(contexts))
            progress.environment = await evaluated(self._environment)
            limit_s = 60 * await evaluated(lambda: context.minutes(job.timeout_minutes, contexts))
            async with self._runner() as runner:
                try:
                    await self._run_steps(runner, self._attempt.clock.monotonic_s() + limit_s)
                except asyncio.CancelledError:
                    await self._tidy(runner)
                    raise
            seen = progress.seen(progress.environment)
            outputs = await evaluated(lambda: {each.name: each.value.render(seen) for each in job.outputs})
        except ExpressionError as problem:
            progress.fail(f"job {job.id!r}: {problem.message}")
        return CombinationResult(
            combination=self._which,
            name=name,
            result="success" if spared and progress.status == "failure" else progress.status,
            outcome=progress.status,
            outputs=outputs,
            steps=progress.steps,
            times=progress.times,
            log=progress.log.tail,
            error=progress.error,
            may_be_tried_again=progress.may_be_tried_again,
        )

    def _environment(self) -> dict[str, str]:
        """The workflow's variables, and the job's. Raises ExpressionError."""
        given = {name: self._contexts[name] for name in ("inputs", "vars")}
        return context.environment(self._given.env, given) | context.environment(self._job.env, self._contexts)

    @asynccontextmanager
    async def _runner(self) -> AsyncIterator[JobRunner]:
        """Open the runner of its steps, at the worker with which its job was placed, or else in this process."""
        attempt, worker = self._attempt, self._attempt.worker
        if worker is None:
            with local_runner(self._given.shell, attempt.clock, attempt.redact) as local:
                yield local
        else:
            async with remote_runner(attempt, worker, str(self._which.number)) as remote:
                yield remote

    async def _tidy(self, runner: JobRunner) -> None:
        """After its run was cancelled, the steps that ask for that: here, within a bound, and none that runs once."""
        with self._attempt.tidying() as is_cancelled:
            if not is_cancelled or self._attempt.worker is not None or self._job.steps[self._begun - 1].effect == "once":
                return
            self._progress.status = "cancelled"
            self._stop.set()
            deadline_s = self._attempt.clock.monotonic_s() + TIDY_S
            for number, step in enumerate(self._job.steps[self._begun :], self._begun + 1):
                left_s = deadline_s - self._attempt.clock.monotonic_s()
                if step.effect == "once" and not step.condition.implies_success:
                    self._progress.log.say(f"step {step.id or number!r} runs once, and is not begun in a run that is cancelled")
                elif left_s > 0 and step.effect != "once":
                    await StepRun(step, number, self._around(runner, left_s, has_gateway=False), self._progress).run()

    def _around(self, runner: JobRunner, left_s: float, *, has_gateway: bool) -> StepScope:
        return StepScope(
            self._attempt,
            self._job,
            self._which,
            runner,
            self._stop,
            left_s,
            self._evaluation,
            self._sharers,
            self._began_s,
            has_gateway,
        )

    async def _run_steps(self, runner: JobRunner, deadline_s: float) -> None:
        for number, step in enumerate(self._job.steps, 1):
            if self._stop.is_set():
                self._progress.status = "cancelled"
            left_s = deadline_s - self._attempt.clock.monotonic_s()
            if left_s <= 0:
                self._progress.fail("the job took longer than its timeout-minutes")
                return
            self._begun = number
            around = self._around(runner, left_s, has_gateway=self._attempt.worker is None)
            await StepRun(step, number, around, self._progress).run()
