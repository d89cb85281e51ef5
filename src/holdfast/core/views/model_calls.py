"""The model calls of a run as rows: what was asked, as far as it is kept, and what came of it.

Never here: reading payloads, words for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId, Path, StepId
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord

CallStatus: TypeAlias = Literal["running", "completed", "failed", "in_doubt"]


class ModelCallRow(msgspec.Struct, omit_defaults=True):
    """A call of a model. Times are Unix milliseconds, money is in nano-dollars."""

    call: CallId
    step: StepId
    path: Path
    model: str
    seq: int
    at_ms: int
    request: Payload | None = None
    status: CallStatus = "running"
    ended_at_ms: int | None = None
    reply: Payload | None = None
    error: ErrorRecord | None = None
    cost_nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    agent: str | None = None

    def _end(self, status: CallStatus, at_ms: int, reply: Payload | None, error: ErrorRecord | None, nanousd: int) -> None:
        self.status, self.ended_at_ms, self.reply, self.error, self.cost_nanousd = status, at_ms, reply, error, nanousd


class ModelCalls:
    """The model calls of a run, gathered from its history, event by event."""

    def __init__(self) -> None:
        self.rows: list[ModelCallRow] = []
        """In the order in which they left."""
        self._of: dict[CallId, ModelCallRow] = {}
        self._held: dict[CallId, int] = {}

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order."""
        event, at_ms = recorded.event, recorded.at_ms
        if isinstance(event, ev.ModelCallHeld):
            row = ModelCallRow(event.call, event.step, event.path, event.sent_to or event.model, recorded.seq, at_ms)
            row.request, row.agent = event.request, event.agent
            self._of[event.call], self._held[event.call] = row, event.hold_nanousd
            self.rows.append(row)
            return
        if (found := self._of.get(getattr(event, "call", None))) is None:  # type: ignore[arg-type]
            return
        match event:
            case ev.ModelCallSettled():
                found._end("completed", at_ms, event.output, None, event.cost_nanousd)
                found.input_tokens, found.output_tokens = event.input_tokens, event.output_tokens
            case ev.ModelCallFailed(error=error):
                found._end("failed", at_ms, None, error, 0)
            case ev.ModelCallInDoubt(error=error):
                found._end("in_doubt", at_ms, event.output or event.partial, error, self._held[event.call])
            case ev.ModelCallReconciled(cost_nanousd=nanousd):
                found.cost_nanousd = nanousd
            case _:
                pass


def model_calls(history: Iterable[ev.Recorded]) -> list[ModelCallRow]:
    """Return the model calls of a run, in the order in which they left."""
    gathered = ModelCalls()
    for recorded in history:
        gathered.add(recorded)
    return gathered.rows
