"""The page that a person sees about a step whose code asks for something else than its journal holds.

Never here: noticing that (journal), what follows for the step (core.people.changed_code).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from holdfast.authoring.values.plain import encode
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import Payload
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Divergence
from holdfast.errors import BlobLost, InvalidInput

_PAGE: Final = 1000
_MAX_SHOWN: Final = 2000
"""Characters of arguments that a question shows."""
_RECORDED: Final = (ev.EffectIntended, ev.GateOpened, ev.TimerStarted)


async def describe_divergence(attempt: Attempt, left: Divergence) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the journal holds and what the code asks for."""
    kind, name, asked = left.asked
    recorded = await _recorded(attempt, left.stands)
    return _described(attempt, left.op.kind, left.op.name, recorded), _described(attempt, kind, name, asked)


def _described(attempt: Attempt, kind: str, name: str, arguments: Any) -> dict[str, Any]:
    redact = attempt.services.payloads.redact
    try:
        text = redact(encode(arguments).decode())
    except InvalidInput:
        text = redact(repr(arguments))
    told = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
    operation = kind if kind == name else f"{kind} {redact(name)!r}"
    return {"operation": operation} if arguments is None else {"operation": operation, "arguments": told}


async def _recorded(attempt: Attempt, path: Path) -> Any:
    """The arguments of the operation at `path`, as far as the history has them: not what a model was asked."""
    store, found, after = attempt.services.runtime.store, None, 0
    while page := await attempt.patiently(partial(store.log.events, attempt.run, after, _PAGE)):
        for each in page:
            event: Any = each.event
            if isinstance(event, _RECORDED) and (event.step, event.path) == (attempt.step, path):
                found = each
        after = page[-1].seq
    match found.event if found is not None else None:
        case ev.EffectIntended() as intent:
            return await _value(attempt, intent.request)
        case ev.GateOpened() as gate:
            return await _value(attempt, gate.shown)
        case ev.TimerStarted() as timer if found is not None:
            return {"seconds": (timer.due_at_ms - found.at_ms) / 1000}
        case _:
            return None


async def _value(attempt: Attempt, payload: Payload) -> Any:
    try:
        return await attempt.value(payload)
    except BlobLost as lost:
        return lost.message
