"""The progress of one combination of a job: what its steps have left for those after them.

Never here: running anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.actions.expressions import to_text
from holdfast.actions.jobs.context import Contexts
from holdfast.actions.jobs.log import Log
from holdfast.actions.syntax.document import Step

Result = Literal["success", "failure", "cancelled", "skipped"]


class Combination(msgspec.Struct, frozen=True):
    """One combination of a job's matrix; the only one where there is none."""

    number: int
    matrix: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        """` (small, 3)`"""
        return "" if not self.matrix else f" ({', '.join(to_text(value) for value in self.matrix.values())})"


class CombinationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a combination. `outcome` is `result` before continue-on-error."""

    combination: Combination
    name: str | None = None
    """What people see of the job."""
    result: Result
    outcome: Result
    outputs: Mapping[str, str] = {}
    steps: Mapping[str, Mapping[str, str]] = {}
    times: Mapping[str, tuple[int, int]] = {}
    """Beginning of each script after that of its attempt, and its duration, in milliseconds."""
    log: str = ""
    error: str | None = None
    may_be_tried_again: bool = True


def to_data(ended: CombinationResult, place: int) -> dict[str, Any]:
    """As JSON data: with its place among those that have ended, and without its combination, which is known."""
    found: dict[str, Any] = msgspec.to_builtins(ended)
    return {"place": place, **{name: value for name, value in found.items() if name != "combination"}}


def of_kept(data: Mapping[str, Any], combination: Combination) -> tuple[int, CombinationResult]:
    """Return the place of this combination, and its result, from the data that `to_data` made; without the times of its
    scripts, which are those of another attempt."""
    known = msgspec.convert({**data, "combination": {"number": combination.number}}, CombinationResult)
    return data["place"], msgspec.structs.replace(known, combination=combination, times={})


class Progress:
    """One combination at work. `contexts` are what is known before its first step."""

    def __init__(self, contexts: Contexts, log: Log) -> None:
        self.log = log
        self.environment: dict[str, str] = {}
        """The workflow's variables, the job's, and what steps have written into their environment files."""
        self.path: tuple[str, ...] = ()
        """What steps have written into their path files, the last first."""
        self.status: Result = "success"
        self.steps: dict[str, Mapping[str, str]] = {}
        """Outcome and conclusion of each step, by id or number."""
        self.times: dict[str, tuple[int, int]] = {}
        """Beginning and duration of each script."""
        self.error: str | None = None
        """What made it fail first."""
        self.may_be_tried_again = True
        self._contexts = contexts
        self._known: dict[str, Any] = {}

    def seen(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return the contexts of expressions in a step with that environment, and after the last step."""
        return {**self._contexts, "env": environment, "steps": self._known, "job": {"status": self.status}}

    def record(
        self, step: Step, key: str, outcome: Result, conclusion: Result, outputs: Mapping[str, str] | None = None
    ) -> None:
        """A step is over."""
        self.steps[key] = {"outcome": outcome, "conclusion": conclusion}
        if step.id is not None:
            self._known[step.id] = {**self.steps[key], "outputs": dict(outputs or {})}

    def fail(self, reason: str, *, for_good: bool = False) -> None:
        """`for_good`: trying again would not help."""
        self.log.say(reason)
        self.error = self.error or reason
        self.may_be_tried_again &= not for_good
        if self.status != "cancelled":
            self.status = "failure"
