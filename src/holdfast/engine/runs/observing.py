"""Calls observers about what happens in this process: of each commit, what began and ended with it.

Never here: what is made of it, waiting for an observer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Event
from holdfast.core.facts.state import State
from holdfast.core.values.ids import step_of
from holdfast.core.values.policies import EXPIRED, REJECTED, ErrorRecord
from holdfast.platform.border import is_ours
from holdfast.ports.observer import (
    CallBegan,
    CallEnded,
    CallKind,
    CallOutcome,
    DeadLettered,
    EventsCommitted,
    GateBegan,
    GateEnded,
    Observation,
    Observer,
    RunBegan,
    RunEnded,
    RunOutcome,
    StepBegan,
    StepEnded,
    StepOutcome,
)

log = logging.getLogger("holdfast")

_RUN_ENDS: Final[Mapping[type[Event], RunOutcome]] = {
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunCancelled: "cancelled",
}
_STEP_ENDS: Final[Mapping[type[Event], StepOutcome]] = {
    ev.StepCompleted: "completed",
    ev.StepFailed: "failed",
    ev.AttemptFailed: "retrying",
    ev.AttemptLost: "lost",
    ev.StepStopped: "stopped",
    ev.StepCancelled: "cancelled",
    ev.StepSkipped: "skipped",
}
_CALL_ENDS: Final[Mapping[type[Event], tuple[CallKind, CallOutcome]]] = {
    ev.ModelCallSettled: ("model", "completed"),
    ev.ModelCallFailed: ("model", "failed"),
    ev.ModelCallInDoubt: ("model", "in_doubt"),
    ev.ModelCallReconciled: ("model", "reconciled"),
    ev.EffectCompleted: ("tool", "completed"),
    ev.EffectFailed: ("tool", "failed"),
    ev.EffectReleased: ("tool", "released"),
    ev.EffectInDoubt: ("tool", "in_doubt"),
    ev.EffectUnanswered: ("tool", "unanswered"),
    ev.OutcomeOrphaned: ("tool", "orphaned"),
}
_PARTS: Final[frozenset[type]] = frozenset(
    {RunBegan, RunEnded, StepBegan, StepEnded, DeadLettered, CallBegan, CallEnded, GateBegan, GateEnded}
)


class Observers:
    """The observers of one process; false if there are none."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)
        self.are_any = bool(self._observers)
        self._wants = tuple((each, getattr(each, "only", None)) for each in self._observers)
        self._wants_parts = any(only is None or not only.isdisjoint(_PARTS) for _, only in self._wants)
        """True if an observer wants what began and ended with a commit, besides its events."""
        self._of_commits = tuple(each for each, only in self._wants if only is None or EventsCommitted in only)
        self._faulty: list[Observer] = []

    def __bool__(self) -> bool:
        return self.are_any

    def notify(self, observation: Observation) -> None:
        """Call each of them. One that raises is called on: what it makes of the next is still worth having, and a figure that
        stands still from then on would be worse than one that is a little off."""
        for observer, only in self._wants:
            if only is not None and type(observation) not in only:
                continue
            try:
                observer(observation)
            except BaseException as problem:
                if is_ours(problem):
                    raise
                self._report(observer, problem)

    def committed(self, events: Sequence[Event], state: State, *, own: bool) -> None:
        """Events of a run are durable; `own` ones were decided here."""
        committed = EventsCommitted(state, events, own)
        for observer in self._of_commits:  # at each step, so without another call
            try:
                observer(committed)
            except BaseException as problem:
                if is_ours(problem):
                    raise
                self._report(observer, problem)
        for event in events if own and self._wants_parts else ():
            if (observation := _began(event, state) or _ended(event, state)) is not None:
                self.notify(observation)
            if type(event) is ev.StepFailed and not event.absorbed and event.error.error_class != REJECTED:
                about = (state.run, state.tenant, state.workflow, state.at_ms)
                self.notify(DeadLettered(*about, event.step, event.attempt, event.error, event.parked))

    def _report(self, observer: Observer, problem: BaseException) -> None:
        if not any(each is observer for each in self._faulty):
            self._faulty.append(observer)
            log.error(
                "holdfast: an observer has failed. It is still notified; more of its errors are not logged.", exc_info=problem
            )


NOBODY: Final = Observers()


def _began(event: Event, s: State) -> Observation | None:
    """Return what began with an event of the commit that led to this state."""
    about = (s.run, s.tenant, s.workflow, s.at_ms)
    match event:
        case ev.RunStarted():
            return RunBegan(*about, event.version)
        case ev.RunReopened():
            return RunBegan(*about, s.version, reopened=True)
        case ev.StepStarted():
            return StepBegan(*about, event.step, event.attempt)
        case ev.ModelCallHeld():
            return CallBegan(*about, event.call, event.step, "model", event.sent_to or event.model)
        case ev.EffectIntended():
            return CallBegan(*about, event.call, event.step, "tool", event.tool)
        case ev.GateOpened():
            return GateBegan(*about, event.gate, event.reason, event.step)
        case _:
            return None


def _ended(event: Any, s: State) -> Observation | None:
    """Return what ended with it."""
    about = (s.run, s.tenant, s.workflow, s.at_ms)
    error: ErrorRecord | None = getattr(event, "error", None)
    if (outcome := _RUN_ENDS.get(type(event))) is not None:
        return RunEnded(*about, outcome, s.at_ms - s.started_at_ms, s.budget.settled_nanousd, error)
    if (left := _STEP_ENDS.get(type(event))) is not None:
        return StepEnded(*about, event.step, getattr(event, "attempt", 0), left, error)
    if (became := _CALL_ENDS.get(type(event))) is not None:
        cost_nanousd = getattr(event, "cost_nanousd", 0)
        tokens = (event.input_tokens, event.output_tokens) if isinstance(event, ev.ModelCallSettled) else (0, 0)
        return CallEnded(*about, event.call, step_of(event.call), *became, error, cost_nanousd, *tokens)
    match event:
        case ev.StepSuspended():
            return StepEnded(*about, event.step, event.attempt, "handed_over" if event.yields else "suspended")
        case ev.GateDecided():
            return GateEnded(*about, event.gate, event.decision)
        case ev.GateExpired():
            return GateEnded(*about, event.gate, EXPIRED)
        case ev.GateWithdrawn():
            return GateEnded(*about, event.gate, None)
        case _:
            return None
