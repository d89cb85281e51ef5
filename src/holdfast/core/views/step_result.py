"""The result of a completed step: a job's step completes whatever its scripts did, and its output has its result.

Never here: words for people.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from holdfast.core.values.ids import NodeName
from holdfast.core.values.payload import Payload

END: Final = NodeName("run.end")
"""The node that gathers the results of jobs. No job can have this id, because of its dot."""
StepResult: TypeAlias = Literal["completed", "failed", "cancelled", "skipped"]
_JOB: Final = frozenset({"result", "outcome", "outputs"})
"""The fields in the output of a YAML job, and of each combination of its matrix."""
_MAX_SKIPPED_BYTES: Final = 256
"""A job that was skipped has no outputs: a longer output is not read for that."""


def job_of(output: Payload) -> dict[str, Any]:
    """Return the output of a job; nothing if it is another's, or lives in a blob."""
    said = output.value() if output.blob is None else None
    return said if isinstance(said, dict) and said.keys() >= _JOB else {}


def step_result(output: Payload, *, is_failure: bool) -> StepResult:
    """Return what a step that has completed came to. `is_failure` if its output tells of a failure."""
    if is_failure:
        return "cancelled" if job_of(output).get("result") == "cancelled" else "failed"
    if len(bytes(output.json)) > _MAX_SKIPPED_BYTES:
        return "completed"
    job = job_of(output)
    return "skipped" if (job.get("result"), job.get("outcome")) == ("skipped", "skipped") else "completed"
