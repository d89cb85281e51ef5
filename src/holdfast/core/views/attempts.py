"""The attempts of a run's steps as rows: when each piece of work began, where, and how it ended.

Never here: reading payloads, words for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import SessionId, StepId
from holdfast.core.values.policies import ErrorRecord

AttemptStatus: TypeAlias = Literal["running", "completed", "failed", "lost", "suspended", "stopped", "cancelled"]

_ENDS: Final[dict[type, AttemptStatus]] = {
    ev.StepCompleted: "completed",
    ev.StepFailed: "failed",
    ev.AttemptFailed: "failed",
    ev.AttemptLost: "lost",
    ev.StepSuspended: "suspended",
    ev.StepStopped: "stopped",
    ev.StepCancelled: "cancelled",
}


class AttemptRow(msgspec.Struct, omit_defaults=True):
    """A piece of work on a step, from its start to its end or its wait. Times are Unix milliseconds.

    A step that goes on after a wait does so in the same `attempt`, in another row.
    """

    step: StepId
    attempt: int
    session: SessionId
    seq: int
    began_at_ms: int
    ready_at_ms: int | None = None
    """When the step could have begun, if it had to wait for a slot or a worker first."""
    status: AttemptStatus = "running"
    ended_at_ms: int | None = None
    ended_seq: int | None = None
    retry_at_ms: int | None = None
    error: ErrorRecord | None = None


class Attempts:
    """The attempts of a run's steps, gathered from its history, event by event."""

    def __init__(self) -> None:
        self.rows: list[AttemptRow] = []
        """In the order in which they began."""
        self._latest: dict[StepId, AttemptRow] = {}
        self._ready: dict[StepId, int] = {}
        self._rests: set[StepId] = set()

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order."""
        match recorded.event:
            case ev.StepReady(step=step):
                self._ready[step] = recorded.at_ms
            case ev.StepStarted(step=step, session=session):
                before = self._latest.get(step)
                number = 1 if before is None else before.attempt + (step not in self._rests)
                self._rests.discard(step)
                row = AttemptRow(step, number, session, recorded.seq, recorded.at_ms, self._ready.pop(step, None))
                self._latest[step] = row
                self.rows.append(row)
            case ev.StepReplayed(step=step):
                self._rests.discard(step)
            case event if (kind := _ENDS.get(type(event))) is not None:
                _end(self._latest.get(getattr(event, "step", StepId(""))), kind, recorded)
                if kind == "suspended":
                    self._rests.add(getattr(event, "step", StepId("")))
            case _:
                pass


def attempts(history: Iterable[ev.Recorded]) -> list[AttemptRow]:
    """Return the attempts of a run's steps, in the order in which they began."""
    gathered = Attempts()
    for recorded in history:
        gathered.add(recorded)
    return gathered.rows


def _end(row: AttemptRow | None, kind: AttemptStatus, recorded: ev.Recorded) -> None:
    if row is None or row.ended_at_ms is not None:
        return
    row.status, row.ended_at_ms, row.ended_seq = kind, recorded.at_ms, recorded.seq
    row.error, row.retry_at_ms = getattr(recorded.event, "error", None), getattr(recorded.event, "retry_at_ms", None)
