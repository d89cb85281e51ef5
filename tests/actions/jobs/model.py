"""GitHub's rules about jobs, combinations and steps, a second time and as plainly as they can be said; and a shell that
runs nothing.

Never here: a promise; anything of `holdfast.actions.jobs`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, NamedTuple

from holdfast.actions.shell import Limits, LogCounts, Script, ScriptEnd

ALWAYS: Final = 99
"""As often a script may fail that never succeeds."""


LABEL: Final = "gpu"


class Step(NamedTuple):
    """`fails`: so often its script fails before it succeeds."""

    condition: str = ""
    fails: int = 0
    spared: bool = False
    once: bool = False


class Job(NamedTuple):
    """`combinations` is 0 where there is no matrix; those of a job that fails fast run in turn. `label` is one that the test's
    process has, or `any`, and `told_by_matrix` whether the matrix gives it: neither changes anything."""

    id: str
    needs: tuple[str, ...] = ()
    condition: str = ""
    spared: bool = False
    tries: int = 1
    combinations: int = 0
    fails_fast: bool = True
    steps: tuple[Step, ...] = (Step(),)
    label: str = "any"
    told_by_matrix: bool = False


class Expected(NamedTuple):
    status: str
    results: dict[str, str]
    outcomes: dict[str, list[str]]
    """Of each combination, of jobs with a matrix that ran."""
    ran: Counter[tuple[str, str, str]]
    """(job, combination, step), as often as its script ran."""
    succeeded: set[tuple[str, str]]
    """(job, combination)."""


JOB_CONDITIONS: Final = (
    "",
    "always()",
    "failure()",
    "!cancelled()",
    "success() || failure()",
    "cancelled()",
    "false",
    "always() && contains(toJSON(jobs), 'failure')",
)
STEP_CONDITIONS: Final = (
    "",
    "always()",
    "failure()",
    "cancelled()",
    "!cancelled()",
    "false",
    "steps.s0.outcome == 'failure'",
    "always() && steps.s0.conclusion != 'success'",
)


def file_of(jobs: list[Job]) -> dict[str, Any]:
    """The workflow file, as data."""
    return {"jobs": {job.id: _job(job) for job in jobs}}


def _job(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {"runs-on": job.label, "continue-on-error": job.spared}
    found["retry"] = {"max": job.tries - 1, "delay-seconds": 0}
    found["steps"] = [
        {
            "id": f"s{n}",
            "run": f"fail {step.fails}",
            "continue-on-error": step.spared,
            "effect": "once" if step.once else "idempotent",
            **({"if": step.condition} if step.condition else {}),
        }
        for n, step in enumerate(job.steps)
    ]
    if job.needs:
        found["needs"] = list(job.needs)
    if job.condition:
        found["if"] = job.condition
    if job.combinations:
        parallel = 1 if job.fails_fast else job.combinations
        found["env"] = {"N": "${{ matrix.n }}"}
        found["strategy"] = {
            "matrix": {"n": list(range(job.combinations))},
            "fail-fast": job.fails_fast,
            "max-parallel": parallel,
        }
        if job.told_by_matrix:
            found["runs-on"] = "${{ matrix.where }}"
            found["strategy"]["matrix"]["where"] = [job.label]
    return found


def expected(jobs: list[Job]) -> Expected:
    """What the rules make of these jobs, each of which comes after those that it needs."""
    results: dict[str, str] = {}
    outcomes: dict[str, list[str]] = {}
    before: dict[str, set[str]] = {}
    ran: Counter[tuple[str, str, str]] = Counter()
    succeeded: set[tuple[str, str]] = set()
    for job in jobs:
        before[job.id] = set(job.needs).union(*(before[need] for need in job.needs))
        known = [results[id_] for id_ in before[job.id]]
        if _is_to_run(job.condition, known):
            work = _Work(job, ran, succeeded)
            results[job.id] = work.result()
            if job.combinations:
                outcomes[job.id] = work.outcomes
        else:
            results[job.id] = "skipped"
    status = "completed" if set(results.values()) <= {"success", "skipped"} else "failed"
    return Expected(status, results, outcomes, ran, succeeded)


def _is_to_run(condition: str, before: list[str]) -> bool:
    all_well, some_failed = all(result == "success" for result in before), "failure" in before
    return {
        "": all_well,
        "always()": True,
        "failure()": some_failed,
        "!cancelled()": True,
        "success() || failure()": all_well or some_failed,
        "cancelled()": False,
        "false": False,
        "always() && contains(toJSON(jobs), 'failure')": some_failed,
    }[condition]


class _Work:
    """One job that runs."""

    def __init__(self, job: Job, ran: Counter[tuple[str, str, str]], succeeded: set[tuple[str, str]]) -> None:
        self.job = job
        self.ran = ran
        self.succeeded = succeeded
        self.ledger: dict[tuple[str, str], bool] = {}
        self.outcomes: list[str] = []
        self.hopeless = False
        """A step that runs once has failed in this try, so that another would help nobody."""

    def result(self) -> str:
        for combination in [str(n) for n in range(self.job.combinations)] or [""]:
            stopped = self.job.fails_fast and not self.job.spared and "failure" in self.outcomes
            self.outcomes.append("cancelled" if stopped else self._tried(combination))
        if self.job.spared or "failure" not in self.outcomes:
            return "success"
        return "failure"

    def _tried(self, combination: str) -> str:
        for _ in range(self.job.tries):
            self.hopeless = False
            outcome = self._combination(combination)
            if outcome == "success" or self.hopeless:
                break
        return outcome

    def _combination(self, combination: str) -> str:
        status = "success"
        known: dict[str, tuple[str, str]] = {}
        for number, step in enumerate(self.job.steps):
            name = f"s{number}"
            if not _is_step_to_run(step.condition, status, known.get("s0", ("", ""))):
                known[name] = "skipped", "skipped"
                continue
            well = self._script(combination, name, step)
            known[name] = ("success", "success") if well else ("failure", "success" if step.spared else "failure")
            if not well and not step.spared:
                status = "failure"
                self.hopeless |= step.once
        if status == "success":
            self.succeeded.add((self.job.id, combination))
        return status

    def _script(self, combination: str, name: str, step: Step) -> bool:
        if (combination, name) in self.ledger:
            return self.ledger[combination, name]
        self.ran[self.job.id, combination, name] += 1
        well = self.ran[self.job.id, combination, name] > step.fails
        if step.once:
            self.ledger[combination, name] = well
        return well


def _is_step_to_run(condition: str, status: str, first: tuple[str, str]) -> bool:
    outcome, conclusion = first
    return {
        "": status == "success",
        "always()": True,
        "failure()": status == "failure",
        "cancelled()": False,
        "!cancelled()": True,
        "false": False,
        "steps.s0.outcome == 'failure'": status == "success" and outcome == "failure",
        "always() && steps.s0.conclusion != 'success'": conclusion != "success",
    }[condition]


class Shell:
    """Runs no script: it counts, and has each fail as often as it says. From the execution `hangs_at` on nothing ends
    any more, until `go_on`; what runs once is not broken off."""

    def __init__(self, hangs_at: int | None = None) -> None:
        self.ran: Counter[tuple[str, str, str]] = Counter()
        self.hanging = asyncio.Event()
        self._hangs_at = hangs_at
        self._once: set[tuple[str, str]] = set()

    def knows(self, jobs: list[Job]) -> None:
        self._once = {(job.id, f"s{n}") for job in jobs for n, step in enumerate(job.steps) if step.once}

    def go_on(self) -> None:
        self._hangs_at = None

    async def __call__(self, script: Script, limits: Limits, **_: Any) -> ScriptEnd:
        which = (script.job, script.env.get("N", ""), script.step)
        self.ran[which] += 1
        await asyncio.sleep(0)
        hangs = self._hangs_at is not None and self.ran.total() >= self._hangs_at
        if hangs and (script.job, script.step) not in self._once:
            self.hanging.set()
            await asyncio.Event().wait()
        failed = self.ran[which] <= int(script.text.removeprefix("fail "))
        return ScriptEnd(
            exit_code=int(failed),
            signal=None,
            timed_out=False,
            outputs={},
            environment={},
            file_problems=(),
            log_tail="",
            log=LogCounts(lines=0, bytes=0, dropped_lines=0, dropped_bytes=0),
            left_over=0,
            survivors=0,
            duration_s=0.0,
        )
