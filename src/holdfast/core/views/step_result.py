"""The result of a completed step: a job's step completes whatever its scripts did, and its output has its result.

Never here: words for people.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.core.values.ids import NodeName
from holdfast.core.values.payload import Payload

END: Final = NodeName("run.end")
"""The node that gathers the results of jobs. No job can have this id, because of its dot."""
StepResult: TypeAlias = Literal["completed", "failed", "cancelled", "skipped"]
_JOB: Final = frozenset({"result", "outcome", "outputs"})
"""The fields in the output of a YAML job, and of each combination of its matrix."""
_TIMES: Final = b'"times":'
_ENDS: Final[dict[str, StepResult]] = {"success": "completed", "failure": "failed"}
_MAX_SKIPPED_BYTES: Final = 256
"""A job that was skipped has no outputs: a longer output is not read for that."""


def job_of(output: Payload) -> dict[str, Any]:
    """Return the output of a job; nothing if it is another's, or lives in a blob."""
    said = output.value() if output.blob is None else None
    return said if isinstance(said, dict) and said.keys() >= _JOB else {}


class ScriptTime(NamedTuple):
    """A script of a job: the place of its combination, its step, how it ended; when it began, from the beginning of the
    attempt, and how long it took."""

    combination: int
    step: str
    outcome: StepResult
    began_ms: int
    took_ms: int


Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class _Course(msgspec.Struct):
    steps: dict[str, dict[str, str]] = {}
    times: dict[str, tuple[Duration, Duration]] = {}


class _Courses(_Course):
    combinations: list[_Course] = []


def script_times(output: Payload) -> list[ScriptTime]:
    """Return the scripts of a job, in order; none if the output is another's, lives in a blob, or is of an early history."""
    if output.blob is not None or _TIMES not in bytes(output.json):
        return []
    try:
        said = msgspec.convert(job_of(output), _Courses)
    except msgspec.ValidationError:
        return []
    return [
        ScriptTime(place, step, _ENDS.get(each.steps.get(step, {}).get("outcome", ""), "cancelled"), began_ms, took_ms)
        for place, each in enumerate(said.combinations or [said])
        for step, (began_ms, took_ms) in each.times.items()
    ]


def step_result(output: Payload, *, is_failure: bool) -> StepResult:
    """Return what a step that has completed came to. `is_failure` if its output tells of a failure."""
    if is_failure:
        return "cancelled" if job_of(output).get("result") == "cancelled" else "failed"
    if len(bytes(output.json)) > _MAX_SKIPPED_BYTES:
        return "completed"
    job = job_of(output)
    return "skipped" if (job.get("result"), job.get("outcome")) == ("skipped", "skipped") else "completed"
