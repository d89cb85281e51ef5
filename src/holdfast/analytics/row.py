"""An event as a row of the table `events`: what it is about, its amounts, and nothing that users have written.

Each event makes the same row whenever it is exported, and its run and number are its id. Never here: a database.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId, StepId, node_of, root_of, step_of
from holdfast.ports import CommittedEvent

_MAX_TEXT: Final = 1_000
"""Characters of a name in a row."""
_MAX_INT: Final = 2**63 - 1
_encode = msgspec.json.Encoder().encode


class EventRow(NamedTuple):
    """A row of the table, in the order of its columns."""

    tenant: str
    workflow: str
    version: int
    run: UUID
    seq: int
    at: datetime
    type: str
    team: str
    step: str
    node: str
    attempt: int
    call: str
    model: str
    outcome: str
    error_class: str
    hold_nanousd: int
    cost_nanousd: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cacheable_nanousd: int
    given_up: dict[str, int]
    trace: str
    payload: str


COLUMNS: Final = EventRow._fields

_OUTCOMES: Final[dict[type[ev.Event], str]] = {
    ev.RunStarted: "running",
    ev.RunReopened: "running",
    ev.RunCompleted: "completed",
    ev.RunFailed: "failed",
    ev.RunCancelled: "cancelled",
    ev.StepCompleted: "completed",
    ev.StepSuspended: "suspended",
    ev.StepFailed: "failed",
    ev.AttemptFailed: "failed",
    ev.AttemptLost: "lost",
    ev.ModelCallSettled: "completed",
    ev.ModelCallReconciled: "completed",
    ev.ModelCallFailed: "failed",
    ev.ModelCallInDoubt: "in_doubt",
    ev.EffectCompleted: "completed",
    ev.EffectFailed: "failed",
    ev.EffectReleased: "released",
    ev.EffectInDoubt: "in_doubt",
    ev.EffectUnanswered: "unanswered",
}
"""The status of a run, an attempt or a call from an event on."""


def cost_of(event: ev.Event) -> int:
    """Return what an event says that calls have cost: the sum over a history is the cost of its run."""
    match event:
        case ev.ModelCallSettled() | ev.ModelCallReconciled() | ev.EffectFailed():
            return event.cost_nanousd
        case ev.EffectCompleted(hold=ev.Hold(nanousd=cost)):
            return cost
        case ev.EffectIntended():
            return sum(hold.nanousd for hold in event.given_up.values())
        case _:
            return 0


def _model_of(event: ev.Event) -> str:
    match event:
        case ev.ModelCallHeld():
            return event.sent_to or event.model
        case ev.EffectIntended():
            return f"tool {event.tool}"
        case _:
            return ""


def row_of(committed: CommittedEvent, redact: Callable[[bytes], bytes] | None = None) -> EventRow:
    """Return the row of an event. With `redact`, which takes secrets out, it has the whole event as JSON."""
    event, recorded = committed.recorded.event, committed.recorded
    told: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    call = told.get("call") or ""
    step: str = told.get("step") or (step_of(CallId(call)) if call else "")
    error = told.get("error")
    given_up = event.given_up if isinstance(event, ev.EffectIntended) else {}
    return EventRow(
        tenant=committed.tenant,
        workflow=committed.workflow,
        version=committed.version,
        run=UUID(committed.run),
        seq=recorded.seq,
        at=datetime.fromtimestamp(recorded.at_ms / 1000, UTC),
        type=type(event).__name__,
        team=(event.team or "")[:_MAX_TEXT] if isinstance(event, ev.RunStarted) else "",
        step=step[:_MAX_TEXT],
        node=root_of(node_of(StepId(step)))[:_MAX_TEXT] if step else "",
        attempt=told.get("attempt") or 0,
        call=call,
        model=_model_of(event)[:_MAX_TEXT],
        outcome=_OUTCOMES.get(type(event), ""),
        error_class=error.error_class[:_MAX_TEXT] if error is not None else "",
        hold_nanousd=_amount(told.get("hold_nanousd")),
        cost_nanousd=_amount(cost_of(event)),
        input_tokens=_amount(told.get("input_tokens")),
        output_tokens=_amount(told.get("output_tokens")),
        cache_read_tokens=_amount(told.get("cache_read_tokens")),
        cache_write_tokens=_amount(told.get("cache_write_tokens")),
        cacheable_nanousd=_amount(told.get("cacheable_nanousd")),
        given_up={each: _amount(hold.nanousd) for each, hold in given_up.items()},
        trace=(recorded.trace_id or "")[:_MAX_TEXT],
        payload="" if redact is None else redact(_encode(event)).decode(),
    )


def _amount(value: int | None) -> int:
    """Return an amount for a column of 64 bits. Raises OverflowError for one that it cannot hold."""
    if value is None:
        return 0
    if not -_MAX_INT <= value <= _MAX_INT:
        raise OverflowError(f"{value} does not fit a column of 64 bits")
    return value
