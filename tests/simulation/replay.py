"""The rules of jobs, combinations and steps, a second time and as plainly as they can be said: what a combination must have
come to, given what its scripts did.

Never here: who is to blame where it says something else (job_auditor); anything of `holdfast.actions.jobs`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.simulation.file import FIRST, OUTPUTS, Job, Step
from tests.simulation.world import Execution


class Outcome(NamedTuple):
    """What became of a script, as far as its job needs to know."""

    succeeded: bool
    outputs: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class Replay(NamedTuple):
    """What the rules make of a combination."""

    outcome: str
    steps: Mapping[str, Mapping[str, str]]
    outputs: Mapping[str, str]
    is_hopeless: bool = False
    """It has failed in a step that runs once, so that another try would help nobody."""


class _Stop(NamedTuple):
    """What came between a combination and its end: it was cancelled before the step of that number, or broken off in the
    middle of it; and its time was over before another."""

    cancelled: int | None = None
    broken_off: int | None = None
    late: int | None = None


def job_runs(job: Job, before: Mapping[str, str]) -> bool:
    """Whether a job runs after jobs with these results: all that come before it."""
    results = set(before.values())
    all_well, some_failed = results <= {"success"}, "failure" in results
    return {
        "": all_well,
        "always()": True,
        "failure()": some_failed,
        "!cancelled()": True,
        "success() || failure()": all_well or some_failed,
        "cancelled()": False,
        "false": False,
        "always() && contains(jobs.*.result, 'failure')": some_failed,
        "always() && contains(needs.*.result, 'skipped')": any(before[id_] == "skipped" for id_ in job.needs),
    }[job.condition]


def step_runs(condition: str, status: str, first: Mapping[str, str] | None = None) -> bool:
    """Whether a step runs, where `first` is what is known of the first of its job."""
    outcome, conclusion = ("", "") if first is None else (first["outcome"], first["conclusion"])
    return {
        "": status == "success",
        "always()": True,
        "failure()": status == "failure",
        "cancelled()": status == "cancelled",
        "!cancelled()": status != "cancelled",
        "false": False,
        "steps.s0.outcome == 'failure'": status == "success" and outcome == "failure",
        "always() && steps.s0.conclusion != 'success'": conclusion != "success",
    }[condition]


def worst(results: Sequence[str]) -> str:
    """What several combinations come to together."""
    return next(each for each in ("failure", "cancelled", "success") if each in results)


def replays(job: Job, ran: Sequence[Execution], settled: Mapping[str, Outcome], *, is_cancelled: bool) -> Iterator[Replay]:
    """All that can have become of a combination whose scripts `ran` like this: nobody outside knows when it heard that it
    was to stop, or looked at its time. `settled` is what is in the ledger of its steps that run once."""
    places = range(len(job.steps))
    ways = [_Stop()]
    if is_cancelled:
        ways = [_Stop(cancelled=at) for at in places] + [_Stop(broken_off=at) for at in places]
        if not ran:  # before it began
            yield Replay("cancelled", {}, dict.fromkeys(OUTPUTS, ""))
    for way in ways:
        for late in (None, *places):
            if (replay := _replay(job, ran, settled, way._replace(late=late))) is not None:
                yield replay


def _replay(job: Job, ran: Sequence[Execution], settled: Mapping[str, Outcome], stop: _Stop) -> Replay | None:
    """None if it cannot have gone that way."""
    status, is_hopeless = "success", False
    steps: dict[str, dict[str, str]] = {}
    left: dict[str, Mapping[str, str]] = {step.id: {} for step in job.steps}
    environment: dict[str, str] = {}
    waiting = deque(ran)
    for number, step in enumerate(job.steps):
        if stop.cancelled == number:
            status = "cancelled"
        if stop.late == number:
            status = _failed(status)
            break
        if not step_runs(step.condition, status, steps.get(FIRST)):
            steps[step.id] = _told("skipped", "skipped")
            continue
        execution = waiting.popleft() if waiting and waiting[0].step == step.id else None
        if execution is not None and not _is_given(job, step, execution, environment, left[FIRST]):
            return None
        if execution is not None and stop.broken_off == number and _may_be_broken_off(execution):
            status = "cancelled"
            steps[step.id] = _told("cancelled", "cancelled")
            continue
        outcome = settled.get(step.id) if step.once else _outcome(execution)
        if outcome is None:
            return None
        left[step.id] = outcome.outputs
        environment |= outcome.environment
        spared = outcome.succeeded or step.is_spared
        steps[step.id] = _told("success" if outcome.succeeded else "failure", "success" if spared else "failure")
        if not spared:
            is_hopeless |= step.once
            status = _failed(status)
    if waiting:
        return None
    first, last = left[FIRST], left[job.steps[-1].id]
    outputs = {"v": first.get("v", ""), "last": last.get("v", ""), "numbers": first.get("numbers", "")}
    return Replay(status, steps, outputs, is_hopeless)


def _is_given(job: Job, step: Step, execution: Execution, environment: Mapping[str, str], first: Mapping[str, str]) -> bool:
    """Whether a script's environment is what the steps before it have left, and what is said nearest to it wins."""
    env = execution.env
    who = step.who or job.who or "file"
    sees_first = step.id == FIRST or env["PREV"] == first.get("v", "")
    return sees_first and env["WHO"] == who and env.get("LEFT") == environment.get("LEFT")


def _may_be_broken_off(execution: Execution) -> bool:
    """A worker may have ended it before it heard that it was to break it off, and then nobody asks how."""
    return execution.ending == "cancelled" or not execution.is_here


def _outcome(execution: Execution | None) -> Outcome | None:
    if execution is None or execution.ending in (None, "cancelled"):
        return None
    return Outcome(execution.ending == "succeeded", execution.outputs, execution.environment)


def _failed(status: str) -> str:
    return "cancelled" if status == "cancelled" else "failure"


def _told(outcome: str, conclusion: str) -> dict[str, str]:
    return {"outcome": outcome, "conclusion": conclusion}
