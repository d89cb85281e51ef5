"""The check that names in expressions exist: jobs that come before, steps that have run, outputs, keys of a matrix.

Never here: which contexts a place knows (keys.py says that); the value of anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.actions.expressions import ContextRead as Read
from holdfast.actions.syntax import matrix
from holdfast.actions.syntax.document import Job
from holdfast.actions.syntax.mistake import listed, quoted, suggestion
from holdfast.actions.syntax.reading import EntryReader, Path
from holdfast.core.rules.limits import LimitsLeft

_OF_JOB: Final = ("outputs", "result")
_OF_STEP: Final = ("outputs", "outcome", "conclusion")
_OF_STRATEGY: Final = ("fail-fast", "job-index", "job-total", "max-parallel")
_STATUS: Final = ("status",)


class Jobs(msgspec.Struct, frozen=True):
    """The jobs of a file by their ids in lower case, and what comes before each."""

    jobs: Mapping[str, Job]
    before: Mapping[str, frozenset[str]]
    unread: frozenset[str] = frozenset()
    """Further jobs, which could not be read."""
    vague: Mapping[str, frozenset[str]] = {}
    """Of each job the keys of which nobody knows what they say, because they are refused or wrong, which has been told. What is
    read of them is no further mistake."""

    def is_vague(self, job: Job, key: str) -> bool:
        return key in self.vague.get(job.id.lower(), ())


def check(reading: EntryReader, jobs: Jobs) -> None:
    """Tell every reference that leads nowhere."""
    for use in reading.uses:
        for read in use.names.readings:
            problem = _problem(read, use.path, jobs)
            if problem is not None:
                message, example = problem
                reading.wrong(reading.source.place(use.scalar, read.offset), use.path, message, example)


_Problem = tuple[str, str | None] | None


def _problem(read: Read, path: Path, jobs: Jobs) -> _Problem:
    job = jobs.jobs.get(str(path[1]).lower()) if path[0] == "jobs" and len(path) > 1 else None
    # A key that is only known when it runs may be any, and what follows it is a key of something unknown.
    keys = [key for key in itertools.takewhile(lambda key: key is not None, read.keys) if key is not None]
    if job is None or not keys:
        return None
    match read.context.lower():
        case "needs":
            return _of_need(job, keys, jobs)
        case "jobs":
            return _of_job(job, keys, jobs)
        case "steps":
            return None if jobs.is_vague(job, "steps") else _of_step(job, keys, path)
        case "matrix":
            return None if jobs.is_vague(job, "strategy") else _of_matrix(job, keys[0])
        case "strategy":
            return _one_of("strategy", keys[0], _OF_STRATEGY)
        case "left":
            return _one_of("left", keys[0], LimitsLeft.__struct_fields__)
        case "job":
            return None if jobs.is_vague(job, keys[0].lower()) else _one_of("job", keys[0], _STATUS)
        case _:
            return None


def _of_need(job: Job, keys: list[str], jobs: Jobs) -> _Problem:
    """`needs` knows what the job needs itself."""
    if keys[0].lower() in {need.lower() for need in job.needs}:
        return _of_result(f"needs.{keys[0]}", jobs, keys)
    return _not_before(job, keys[0], jobs, "this job does not need {}")


def _of_job(job: Job, keys: list[str], jobs: Jobs) -> _Problem:
    """`jobs` knows everything that comes before, however far."""
    if keys[0].lower() in jobs.before.get(job.id.lower(), frozenset()) - {job.id.lower()}:
        return _of_result(f"jobs.{keys[0]}", jobs, keys)
    return _not_before(job, keys[0], jobs, "{} does not come before this job")


def _not_before(job: Job, name: str, jobs: Jobs, reason: str) -> _Problem:
    other = jobs.jobs.get(name.lower())
    if name.lower() in jobs.unread:
        return None
    if other is None:
        ids = [each.id for each in jobs.jobs.values()]
        return f"there is no job {quoted(name)}.{suggestion(name, ids)} There is {_names(ids)}.", None
    if other.id == job.id:
        return "a job cannot read its own outputs or result; within a job, steps.ID.outputs.NAME is read.", None
    return (
        f"{reason.format(repr(other.id))}, so nothing of it is known here. Add it to 'needs'.",
        f"needs: [{', '.join((*job.needs, other.id))}]",
    )


def _of_result(owner: str, jobs: Jobs, parts: list[str]) -> _Problem:
    job, keys = jobs.jobs.get(parts[0].lower()), parts[1:]
    if not keys or job is None:
        return None
    if keys[0].lower() not in _OF_JOB:
        example = f"{owner}.outputs.{keys[0]}" if any(each.name.lower() == keys[0].lower() for each in job.outputs) else None
        return _one_of(owner, keys[0], _OF_JOB, example)
    names = [output.name for output in job.outputs]
    is_known = keys[0].lower() == "outputs" and len(keys) > 1 and not jobs.is_vague(job, "outputs")
    if is_known and keys[1].lower() not in {name.lower() for name in names}:
        found = f"the job {job.id!r} has no output {quoted(keys[1])}.{suggestion(keys[1], names)}"
        if names:
            return f"{found} It has {_names(names)}.", None
        return f"{found} It has none.", f"{job.id}:\n  outputs:\n    {keys[1]}: ${{{{ steps.ID.outputs.NAME }}}}"
    return None


def _of_step(job: Job, keys: list[str], path: Path) -> _Problem:
    ids = {step.id.lower(): number for number, step in enumerate(job.steps) if step.id is not None}
    spelled = [step.id for step in job.steps if step.id is not None]
    number = ids.get(keys[0].lower())
    if number is None:
        there = f"It has {_names(spelled)}." if spelled else "None of its steps has an id; give the step one."
        return f"no step of this job has the id {quoted(keys[0])}.{suggestion(keys[0], spelled)} {there}", None
    here = path[3] if len(path) > 3 and path[2] == "steps" else None
    if isinstance(here, int) and number == here:
        return f"a step cannot read what it has not done yet; {keys[0]!r} is this step itself.", None
    if isinstance(here, int) and number > here:
        return f"the step {keys[0]!r} runs later, as step {number + 1} of this job; move it before this one.", None
    if len(keys) > 1 and keys[1].lower() not in _OF_STEP:
        return _one_of(f"steps.{keys[0]}", keys[1], _OF_STEP, f"steps.{keys[0]}.outputs.{keys[1]}")
    return None


def _of_matrix(job: Job, key: str) -> _Problem:
    if job.strategy is None:
        return ("this job has no matrix.", f"strategy:\n  matrix:\n    {key}: [first, second]")
    known = matrix.keys_of(job.strategy.matrix)
    if known is None or key.lower() in known:
        return None
    return f"the matrix has no key {quoted(key)}.{suggestion(key, known)} It has {_names(sorted(known))}.", None


def _one_of(owner: str, key: str, names: tuple[str, ...], example: str | None = None) -> _Problem:
    if key.lower() in names:
        return None
    return f"{owner} has no {quoted(key)}.{suggestion(key, names)} It has {_names(names)}.", example


def _names(names: tuple[str, ...] | list[str]) -> str:
    return listed(names) or "nothing"
