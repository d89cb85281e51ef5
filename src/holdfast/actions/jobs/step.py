"""One step of a job: whether it runs, what its script is given, and what its ending means.

Never here: starting a process (a runner does that), what an effect's lost outcome means (the ledger knows).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.actions import shell
from holdfast.actions.expressions import ExpressionError, to_text, whole_text
from holdfast.actions.jobs import context, idempotency, placement, provider
from holdfast.actions.jobs.attempt import Attempt
from holdfast.actions.jobs.evaluation import Evaluation
from holdfast.actions.jobs.idempotency import Outcome
from holdfast.actions.jobs.progress import Combination, Progress
from holdfast.actions.jobs.runner import JobRunner
from holdfast.actions.shell.runner import MAX_DURATION_S
from holdfast.actions.syntax.document import Job, Limits, Step
from holdfast.core.capacity.estimates import Report
from holdfast.core.values.ids import named_effect_key
from holdfast.errors import InvalidInput, KeyReused, OperationFailed, OutcomeUnknown, PlaceLost, SchemaMismatch, ToolFailed
from holdfast.platform.current_span import trace_headers

_SHOWN_CHARACTERS: Final = 2000
"""Of a script, to the person who is asked what became of it."""
_OWN_FAILURES: Final = (ExpressionError, InvalidInput, KeyReused, ToolFailed, OutcomeUnknown, OperationFailed, SchemaMismatch)
"""What is the failure of a step, and of nothing else."""


class StepScope(NamedTuple):
    """The surroundings of a step: its try, job, combination and runner, and the most time that it has."""

    attempt: Attempt
    job: Job
    combination: Combination
    runner: JobRunner
    stop: asyncio.Event
    left_s: float
    evaluation: Evaluation
    sharers: int
    """How many combinations have what was reserved together."""
    began_s: float
    """Beginning of the attempt."""
    has_gateway: bool
    """Its script may call models through the gateway of this process."""


class StepRun:
    """One step at work."""

    def __init__(self, step: Step, number: int, around: StepScope, progress: Progress) -> None:
        self._step = step
        self._around = around
        self._progress = progress
        self._evaluated = around.evaluation.of
        self._key = step.id or str(number)
        self._environment = progress.environment

    async def run(self) -> None:
        """Run it, if it is to run; afterwards `progress` knows what became of it."""
        progress = self._progress
        try:
            # First its own variables, then its condition, which may read them: the order of GitHub's runner.
            seen = progress.seen(progress.environment)
            own = await self._evaluated(lambda: context.environment(self._step.env, seen))
            self._environment = {**progress.environment, **own}
            if not await self._is_to_run():
                progress.record(self._step, self._key, "skipped", "skipped")
                return
            outcome = await self._perform()
        except _OWN_FAILURES as problem:
            outcome = Outcome(succeeded=False, said=problem.message)
        if outcome is None:
            progress.record(self._step, self._key, "cancelled", "cancelled")
            return
        progress.environment = {**progress.environment, **outcome.environment}
        progress.path = (*reversed(outcome.path), *progress.path)
        if outcome.summary:
            for line in (f"summary of step {await self._name()!r}:", *outcome.summary.splitlines()):
                progress.log.say(line)
        if outcome.succeeded:
            progress.record(self._step, self._key, "success", "success", outcome.outputs)
        else:
            await self._fail(outcome)

    @property
    def _seen(self) -> dict[str, Any]:
        return self._progress.seen(self._environment)

    async def _is_to_run(self) -> bool:
        seen, functions = self._seen, context.of_status(self._progress.status)
        return await self._evaluated(lambda: self._step.condition.evaluate(seen, functions))

    async def _fail(self, outcome: Outcome) -> None:
        why, seen = f"step {await self._name()!r}: {outcome.said}", self._seen
        try:
            spared = await self._evaluated(lambda: context.flag(self._step.continue_on_error, seen, "continue-on-error"))
        except ExpressionError as problem:
            spared, why = False, f"{why} {problem.message}"
        if spared:
            self._progress.log.say(why)
        else:
            # What is recorded of a step that runs once stays, so another try would fail as this one did.
            self._progress.fail(why, for_good=self._step.effect == "once")
        self._progress.record(self._step, self._key, "failure", "success" if spared else "failure", outcome.outputs)

    async def _name(self) -> str:
        """Return its name for people. A name without a value is no reason to fail."""
        name, seen = self._step.name, self._seen
        try:
            return self._key if name is None else await self._evaluated(lambda: name.render(seen))
        except ExpressionError:
            return self._key

    # --- Its script -----------------------------------------------------------------------------------------------

    async def _perform(self) -> Outcome | None:
        """None if it was cancelled."""
        script, limits = await self._evaluated(self._script), await self._evaluated(self._limits)
        if self._step.effect == "once":
            return await self._perform_once(script, limits)
        if self._around.has_gateway:
            ending = await self._with_models(script, limits)
        else:
            ending = await self._unless_stopped(self._execute(script, limits))
        return None if ending is None else idempotency.outcome_of(ending)

    async def _with_models(self, script: shell.Script, limits: shell.Limits) -> shell.ScriptEnd | None:
        """Run a script whose model calls are the job's. At a limit the job is left, to begin again when there is room: calls
        that were answered are not made again, and a script that asks for something else makes a new one."""
        attempt = self._around.attempt
        async with attempt.program_variables(f"calls-{self._key}", on_change="live") as variables:
            script = msgspec.structs.replace(script, env=provider.environment_of(script.env, variables))
            return await self._unless_stopped(self._execute(script, limits))

    async def _perform_once(self, script: shell.Script, limits: shell.Limits) -> Outcome:
        """Cancelled combinations do not break it off: half of it done would be a question for a person."""
        shown: dict[str, Any] = {"job": script.job, "step": self._key, "script": script.text[:_SHOWN_CHARACTERS]}
        if self._around.combination.matrix is not None:
            shown["matrix"] = self._around.combination.matrix
        attempt = self._around.attempt
        ending: shell.ScriptEnd | None = None

        async def perform() -> shell.ScriptEnd:
            nonlocal ending
            try:
                ending = await self._execute(script, limits)
            except PlaceLost as gone:
                raise OutcomeUnknown(f"It is unknown how it ended. {gone.message}") from None
            return ending

        tool = idempotency.tool_of(self._tool, perform, limits)
        call = attempt.call_tool(tool.name, shown, key=self._effect, allowed={tool.name: tool})
        outcome = idempotency.recorded(await attempt.apart(f"step-{self._key}", call))
        if ending is None:
            self._progress.log.say(f"step {await self._name()!r} is not run again; what became of it is known: {outcome.said}")
        return outcome

    async def _execute(self, script: shell.Script, limits: shell.Limits) -> shell.ScriptEnd:
        clock, began_s = self._around.attempt.clock, self._around.attempt.clock.monotonic_s()
        try:
            ending = await self._around.runner.run(script, limits, self._progress.log.line)
        finally:
            times = began_s - self._around.began_s, clock.monotonic_s() - began_s
            self._progress.times[self._key] = round(1000 * times[0]), round(1000 * times[1])
        for problem in ending.usage_problems:
            self._progress.log.say(problem)
        branch, sharers = self._around.combination.number, self._around.sharers
        self._around.attempt.report(Report(pool, amount, branch, sharers) for pool, amount in ending.usage)
        return ending

    @property
    def _tool(self) -> str:
        """The name under which the ledger and people know it."""
        return f"{self._around.job.id}.{self._key}"

    @property
    def _effect(self) -> str:
        """The name of its effect in its run: the same in every try."""
        return f"{self._around.job.id}/{self._around.combination.number}/{self._key}"

    def _script(self) -> shell.Script:
        step, attempt, seen, asks = self._step, self._around.attempt, self._seen, self._around.job.resources
        place = {name.upper(): value for name, value in trace_headers().items()}
        bound = {each.name: whole_text(to_text(each.value.evaluate(seen))) for each in step.script.bindings}
        return shell.Script(
            text=step.script.text,
            run=attempt.run_id,
            job=self._around.job.id,
            step=self._key,
            idempotency_key=named_effect_key(attempt.tenant, attempt.run_id, self._effect, self._tool),
            folder="" if step.working_directory is None else step.working_directory.render(seen),
            shell=step.shell,
            env={**place, **self._environment, **bound},
            path=self._progress.path,
            gpus=placement.literal_amount(asks.gpus),
            memory_mb=placement.literal_amount(asks.memory_mb),
            cpu_m=placement.literal_amount(asks.cpu_millicores),
            pools={pool: max(1, amount // self._around.sharers) for pool, amount in attempt.pools.items()},
        )

    def _limits(self) -> shell.Limits:
        given, limit_s = self._step.timeout_minutes, float(MAX_DURATION_S)
        if given is not None:
            limit_s = 60 * context.minutes(given, self._seen)
        said, usual = self._around.job.limits or Limits(), self._around.attempt.script_limits
        mega = 1_000_000
        return shell.Limits(
            timeout_s=min(limit_s, self._around.left_s),
            memory_bytes=(said.memory_mb or usual.memory_mb) * mega,
            cpu_s=said.cpu_s or usual.cpu_s,
            file_bytes=(said.file_mb or usual.file_mb) * mega,
            processes=said.processes or usual.processes,
        )

    async def _unless_stopped(self, script: Awaitable[shell.ScriptEnd]) -> shell.ScriptEnd | None:
        """Return the ending of the script. None if its combination was cancelled meanwhile, and its `if` does not keep it
        running."""
        running = asyncio.ensure_future(script)
        stopped = asyncio.ensure_future(self._around.stop.wait())
        try:
            waits = {running} if self._around.stop.is_set() else {running, stopped}  # it has been asked already
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                self._progress.status = "cancelled"
                if not await self._is_to_run():
                    return None
                await asyncio.wait((running,))
            return running.result()
        finally:
            stopped.cancel()
            while not running.done():
                running.cancel()
                await asyncio.wait((running,))
            if not running.cancelled():
                running.exception()  # asyncio complains of errors that are never retrieved
