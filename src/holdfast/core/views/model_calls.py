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


def model_calls(history: Iterable[ev.Recorded]) -> list[ModelCallRow]:
    """Return the model calls of a run, in the order in which they left."""
    found: dict[CallId, ModelCallRow] = {}
    held: dict[CallId, int] = {}
    for recorded in history:
        at_ms = recorded.at_ms
        match recorded.event:
            case ev.ModelCallHeld() as event:
                row = ModelCallRow(event.call, event.step, event.path, event.sent_to or event.model, recorded.seq, at_ms)
                row.request, row.agent = event.request, event.agent
                found[event.call], held[event.call] = row, event.hold_nanousd
            case ev.ModelCallSettled(call=call) as event if call in found:
                row = found[call]
                row._end("completed", at_ms, event.output, None, event.cost_nanousd)
                row.input_tokens, row.output_tokens = event.input_tokens, event.output_tokens
            case ev.ModelCallFailed(call=call, error=error) if call in found:
                found[call]._end("failed", at_ms, None, error, 0)
            case ev.ModelCallInDoubt(call=call, error=error) as event if call in found:
                reply = event.output or event.partial
                found[call]._end("in_doubt", at_ms, reply, error, held[call])
            case ev.ModelCallReconciled(call=call, cost_nanousd=nanousd) if call in found:
                found[call].cost_nanousd = nanousd
            case _:
                pass
    return list(found.values())
