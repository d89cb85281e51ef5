"""Observers of a running engine: the reports that they get about runs, and about what happens around them.

Never here: what is made of it (a metric, a trace, a line of progress), anything that the engine would wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from holdfast.core.facts.events import Event
from holdfast.core.facts.state import State
from holdfast.core.values.ids import CallId, GateId, RunId, StepId
from holdfast.core.values.policies import ErrorRecord

RunOutcome = Literal["completed", "failed", "cancelled"]
CallKind = Literal["model", "tool"]
StepOutcome = Literal["completed", "failed", "retrying", "suspended", "handed_over", "lost", "stopped", "cancelled", "skipped"]
CallOutcome = Literal["completed", "failed", "released", "in_doubt", "unanswered", "reconciled", "orphaned"]


class RunObservation(msgspec.Struct, frozen=True):
    """Something in a run, at `at_ms` of the store's time. It is durable."""

    run: RunId
    tenant: str
    workflow: str
    at_ms: int


class RunBegan(RunObservation, frozen=True):
    """A run was started or, `reopened`, taken up after it had failed."""

    version: int
    reopened: bool = False


class RunEnded(RunObservation, frozen=True):
    """A run has come to its end, `took_ms` after it was started, and has cost so much so far."""

    outcome: RunOutcome
    took_ms: int
    cost_nanousd: int
    error: ErrorRecord | None = None


class StepBegan(RunObservation, frozen=True):
    """An attempt of a step began."""

    step: StepId
    attempt: int


class StepEnded(RunObservation, frozen=True):
    """An attempt of a step is over, or, where none was under way, the step itself.

    After `suspended`, `handed_over`, `retrying`, `lost` and `stopped` it may begin again, as its next attempt; a person's
    decision may end it without one.
    """

    step: StepId
    attempt: int
    outcome: StepOutcome
    error: ErrorRecord | None = None


class DeadLettered(RunObservation, frozen=True):
    """A step has failed for good, after so many attempts, and nothing takes that up: a person is to say what becomes of it.
    `asked`: its run waits for that; otherwise it fails."""

    step: StepId
    attempts: int
    error: ErrorRecord
    asked: bool


class CallBegan(RunObservation, frozen=True):
    """A call is about to leave: of the model or the tool `name`."""

    call: CallId
    step: StepId
    kind: CallKind
    name: str


class CallEnded(RunObservation, frozen=True):
    """The outcome of a call. A call that is `in_doubt` or `unanswered` ends once more if its outcome becomes known later."""

    call: CallId
    step: StepId
    kind: CallKind
    outcome: CallOutcome
    error: ErrorRecord | None = None
    cost_nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class GateBegan(RunObservation, frozen=True):
    """A person is asked; `step` is None where the engine asks about the run."""

    gate: GateId
    reason: str
    step: StepId | None


class GateEnded(RunObservation, frozen=True):
    """A gate was decided: `outcome` is the decision, or `expired`. Or it needs no answer any more: None."""

    gate: GateId
    outcome: str | None


class EventsCommitted(msgspec.Struct, frozen=True):
    """`events` of a run are durable, and led to `state`, which goes on: read it at once, never keep it.

    `own`: this process has decided them. Events of other processes come as this, and not as what began and ended, if the run is
    in this process's memory.
    """

    state: State
    events: Sequence[Event]
    own: bool


class AppendsFlushed(msgspec.Struct, frozen=True):
    """The store has answered a group of `appends`, each of one run, of which it took `taken`."""

    appends: int
    taken: int
    took_s: float


class StepPlaced(msgspec.Struct, frozen=True):
    """A step that asks for something has its place: this process, or a `worker` that is connected to it, with so much of
    `pools`. It begins there soon, if nothing comes in between."""

    run: RunId
    step: StepId
    worker: str | None
    pools: Mapping[str, int]


class PoolWaited(msgspec.Struct, frozen=True):
    """A step's model call has waited for what is lent of its provider's `pools`, and has it."""

    run: RunId
    step: StepId
    model: str
    pools: tuple[str, ...]
    took_s: float


class RequestAnswered(msgspec.Struct, frozen=True):
    """A request to the HTTP port of this process has its answer, or the beginning of it. `waits`: the sender asked to wait for
    the run."""

    is_command: bool
    status: int
    took_s: float
    waits: bool = False


Observation = (
    RunBegan
    | RunEnded
    | StepBegan
    | StepEnded
    | DeadLettered
    | CallBegan
    | CallEnded
    | GateBegan
    | GateEnded
    | EventsCommitted
    | AppendsFlushed
    | StepPlaced
    | PoolWaited
    | RequestAnswered
)


class Observer(Protocol):
    """A function that an engine calls about what happens. It runs in the event loop: it returns at once, and asks the engine
    nothing.

    Beginnings and ends come in the order of each run's history, from the process that has committed them, after they are
    durable. Nothing comes twice. What a process commits without hearing of it (it died, the store's reply was lost) is in the
    history alone. An observer that raises is called on as before, and its first error is logged.

    An observer with an attribute `only`, a set of these classes, is called about no others. Those that no observer wants cost
    nothing.
    """

    def __call__(self, observation: Observation, /) -> None: ...
