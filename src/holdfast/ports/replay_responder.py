"""The source of recorded answers for models, tools and users' code while a recorded run is replayed.

Never here: an implementation, a default, a file format.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from holdfast.core.facts.state import Operation, Question
from holdfast.core.values.ids import Path, RunId, StepId
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.remainder import ScopeLeft
from holdfast.ports.journal import Recall


class ReplayRequest(NamedTuple):
    """An operation that a step asks for, as its journal would have it."""

    run: RunId
    step: StepId
    path: Path
    kind: str
    name: str
    args_hash: str
    asked: Any = None
    """The request to the model, as requests are compared."""


class RecordedCall(NamedTuple):
    """A call of a tool that a step made, and what it came to: a value or, where there is one, an error."""

    path: Path
    tool: str
    policy: str
    args_hash: str
    request: Any
    value: Any = None
    error: ErrorRecord | None = None


class RecordedAttempt(NamedTuple):
    """The outcome of an attempt at a step: a result or, if there is one, an error; and the calls that it made before."""

    output: Any = None
    decisions: tuple[str, ...] | None = None
    trace: Any = None
    error: ErrorRecord | None = None
    calls: tuple[RecordedCall, ...] = ()


class ReplayResponder(Protocol):
    """Answers in order: of what was tried again, one try after the other. What it cannot answer it raises as NotRecorded."""

    def call(self, request: ReplayRequest, hold_nanousd: int = 0) -> Recall | None:
        """Return the outcome of a call of a model, a tool or a function of a flow; None if it is really to be made.
        `hold_nanousd` is the most that it could cost."""
        ...

    def operation(self, request: ReplayRequest) -> Operation | None:
        """Return the recorded operation at a place, for other kinds that go outside or look at something. Return None if the
        operation only looks and has no record."""
        ...

    def approval(self, request: ReplayRequest) -> Operation | None:
        """The use of a standing approval, by whatever name; None where a person was asked about the call."""
        ...

    def above(self, run: RunId, question: Question) -> tuple[ScopeLeft, ...]:
        """Return the budgets above its run as they were shown to a guard."""
        ...

    def step(self, run: RunId, step: StepId) -> RecordedAttempt | None:
        """Return the outcome of a whole step of plain code, or of scripts. None for a step whose operations are answered one by
        one."""
        ...
