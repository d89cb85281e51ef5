"""Random workflow files: jobs with needs, conditions, combinations, tries, outputs and demands, drawn from a seed.

A file is what its writer meant, and the text of it. Never here: what a run of it must do (replay), or what its scripts
do (script).
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final, Literal

import msgspec

from tests.simulation.process import CPU_M, SLOTS
from tests.simulation.workers import GPU

IDS: Final = ("a", "b", "c", "d", "e")
FIRST: Final = "s0"
"""The step of a job whose outputs others read."""
OUTPUTS: Final = ("v", "last", "numbers")
"""Of every job: what its first step calls `v`, what its last one does, and numbers for others' matrices."""
JOB_CONDITIONS: Final = (
    "",
    "",
    "",
    "always()",
    "failure()",
    "!cancelled()",
    "success() || failure()",
    "cancelled()",
    "false",
    "always() && contains(jobs.*.result, 'failure')",
    "always() && contains(needs.*.result, 'skipped')",
)
STEP_CONDITIONS: Final = (
    "",
    "",
    "always()",
    "failure()",
    "cancelled()",
    "!cancelled()",
    "false",
    "steps.s0.outcome == 'failure'",
    "always() && steps.s0.conclusion != 'success'",
)

Values = tuple[int, ...]


class Step(msgspec.Struct, frozen=True):
    """`succeeds` is how likely its script does, each time that it runs."""

    id: str
    condition: str = ""
    succeeds: float = 1.0
    is_spared: bool = False
    once: bool = False
    who: str | None = None
    """What it calls itself in its environment."""
    minutes: float | None = None


class Matrix(msgspec.Struct, frozen=True):
    """Combinations of one number each. `source` is who says them: the file, the run's input, or the output of a job, for
    which `values` stand in where it has none."""

    source: Literal["file", "input", "job"]
    values: Values
    job: str | None = None


class Job(msgspec.Struct, frozen=True):
    id: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    condition: str = ""
    spared: Literal["none", "all", "first"] = "none"
    """Of which combinations a failure is allowed."""
    tries: int = 1
    matrix: Matrix | None = None
    fails_fast: bool = True
    most_at_once: int | None = None
    who: str | None = None
    minutes: float | None = None
    demands: dict[str, Any] = {}
    """Keys of the file that say where it may run, and what it takes there."""


class File(msgspec.Struct, frozen=True):
    """`given` is the run's input, from which some of what the file says comes; `variables` are what `vars` has for it."""

    name: str
    jobs: tuple[Job, ...]
    given: dict[str, Any]
    variables: dict[str, str]

    def job(self, id_: str) -> Job:
        """Raises LookupError for none of them."""
        return {job.id: job for job in self.jobs}[id_]

    def before(self, job: Job) -> set[str]:
        """The jobs that come before it."""
        needed = [each for each in self.jobs if each.id in job.needs]
        return set(job.needs).union(*(self.before(each) for each in needed))

    @property
    def text(self) -> str:
        """What is in the file: JSON, which is YAML too."""
        env = {"WHO": "file", "ABOUT": "${{ inputs.about }} ${{ vars.word }}"}
        return json.dumps({"name": self.name, "env": env, "jobs": {job.id: _job(job) for job in self.jobs}})


# --- Its text ---------------------------------------------------------------------------------------------------------


def _job(job: Job) -> dict[str, Any]:
    env = {"SEEN": "${{ toJSON(needs) }}"}
    found: dict[str, Any] = {"runs-on": "any", **job.demands, "env": env}
    if job.who is not None:
        env["WHO"] = job.who
    if job.needs:
        found["needs"] = list(job.needs)
    if job.condition:
        found["if"] = job.condition
    if job.minutes is not None:
        found["timeout-minutes"] = job.minutes
    if job.spared != "none":
        found["continue-on-error"] = True if job.spared == "all" else "${{ strategy.job-index == 0 }}"
    if job.tries > 1:
        found["retry"] = {"max": job.tries - 1, "delay-seconds": 2}
    if job.matrix is not None:
        found["strategy"] = _strategy(job, job.matrix)
        env["LEG"] = "${{ toJSON(matrix) }}"
    told = (f"{FIRST}.outputs.v", f"{job.steps[-1].id}.outputs.v", f"{FIRST}.outputs.numbers")
    found["outputs"] = {name: f"${{{{ steps.{path} }}}}" for name, path in zip(OUTPUTS, told, strict=True)}
    found["steps"] = [_step(step) for step in job.steps]
    return found


def _strategy(job: Job, matrix: Matrix) -> dict[str, Any]:
    values: Any = {
        "file": list(matrix.values),
        "input": "${{ fromJSON(inputs.numbers) }}",
        "job": f"${{{{ fromJSON(needs.{matrix.job}.outputs.numbers || '{json.dumps(matrix.values)}') }}}}",
    }[matrix.source]
    fast: Any = job.fails_fast if matrix.source == "file" else "${{ " + ("" if job.fails_fast else "!") + "inputs.yes }}"
    found = {"matrix": {"n": values}, "fail-fast": fast}
    return found if job.most_at_once is None else {**found, "max-parallel": job.most_at_once}


def _step(step: Step) -> dict[str, Any]:
    env = {} if step.id == FIRST else {"PREV": f"${{{{ steps.{FIRST}.outputs.v }}}}"}
    if step.who is not None:
        env["WHO"] = step.who
    script = f"succeed {step.succeeds}{' once' if step.once else ''}"
    found: dict[str, Any] = {"id": step.id, "run": script, "continue-on-error": step.is_spared}
    if env:
        found["env"] = env
    if step.condition:
        found["if"] = step.condition
    if step.once:
        found["effect"] = "once"
    if step.minutes is not None:
        found["timeout-minutes"] = step.minutes
    return found


# --- Drawing one ------------------------------------------------------------------------------------------------------


def draw_file(stream: Random, name: str) -> File:
    """A file without mistakes, that asks for nothing which it could never get."""
    numbers = _values(stream)
    jobs: list[Job] = []
    demanding = stream.random() < 0.3
    for id_ in IDS[: stream.choice((1, 2, 3, 3, 4, 5))]:
        jobs.append(_draw_job(stream, id_, jobs, numbers, demanding))
    given = {"about": name, "numbers": json.dumps(numbers), "yes": True}
    return File(name, tuple(jobs), given, {"word": f"word{stream.randrange(3)}"})


def _values(stream: Random) -> Values:
    return tuple(range(1, 1 + stream.choice((1, 2, 3, 4))))


def _draw_job(stream: Random, id_: str, before: list[Job], numbers: Values, demanding: bool) -> Job:
    """Where pools are lent, no script hangs for hours: each second of it is a look at them."""
    needs = stream.sample([job.id for job in before], min(len(before), stream.choice((0, 1, 1, 2))))
    steps = tuple(_draw_step(stream, number) for number in range(stream.choice((1, 1, 2, 3))))
    matrix = _draw_matrix(stream, needs, numbers) if stream.random() < 0.5 else None
    job = Job(
        id_,
        steps,
        tuple(needs),
        stream.choice(JOB_CONDITIONS) if needs else "",
        stream.choice(("none", "none", "none", "all", "first")),
        stream.choice((1, 1, 2, 3)),
        matrix,
        stream.random() < 0.6,
        stream.choice((None, None, 1, 2)) if matrix is not None else None,
        stream.choice((None, f"job {id_}")),
        stream.choice((0.5, 2) if demanding else (None, None, None, 0.5, 10)),
    )
    return msgspec.structs.replace(job, demands=_draw_demands(stream, job) if demanding else {})


def _draw_matrix(stream: Random, needs: list[str], numbers: Values) -> Matrix:
    drawn = stream.random()
    if drawn < 0.6:
        return Matrix("file", _values(stream))
    if drawn < 0.8 or not needs:
        return Matrix("input", numbers)
    return Matrix("job", (7,), stream.choice(needs))


def _draw_step(stream: Random, number: int) -> Step:
    return Step(
        f"s{number}",
        stream.choice(STEP_CONDITIONS) if number else "",
        stream.choice((1.0, 1.0, 1.0, 0.7, 0.3)),
        stream.random() < 0.15,
        stream.random() < 0.3,
        stream.choice((None, None, f"step {number}")),
        stream.choice((None, None, None, 0.5)),
    )


def _draw_demands(stream: Random, job: Job) -> dict[str, Any]:
    """What it asks for is taken by each combination that runs at once, so how many those are must be known."""
    found: dict[str, Any] = {}
    if stream.random() < 0.3:
        found["runs-on"] = GPU
    if stream.random() < 0.3:
        found["priority"] = 5
    at_once = 1
    if job.matrix is not None:
        if job.matrix.source != "file":
            return found
        at_once = min(len(job.matrix.values), job.most_at_once or len(job.matrix.values))
    if stream.random() < 0.5:
        found["resources"] = {"cpu": CPU_M // at_once}
    pools = {name: 1 for name in ("RATE", "SLOTS") if at_once <= SLOTS and stream.random() < 0.4}
    return {**found, "pools": pools} if pools else found
