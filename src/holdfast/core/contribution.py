"""Contributors to a run: those who started, edited, resolved, replayed, signalled or forked it. None of them decides a question
that needs a second pair of eyes.

A question with four eyes that another person has approved clears what was contributed before it was shown, except the start:
somebody else has looked at it, and agreed. Never here: which decisions a gate takes (gates).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.core import events as ev
from holdfast.core.claim import Claim, folded
from holdfast.core.payload import Payload
from holdfast.core.state import Contributor, Gate, State

MOST_CONTRIBUTORS: Final = 1000
"""Names that a run keeps. One with more has no question with four eyes decided, because it is not known who else there was."""

_BY_NAME: Final = (
    ev.RunReopened, ev.RunForked, ev.RunMigrated, ev.DeadLetterEdited, ev.StepReplayed, ev.EffectCompleted, ev.EffectFailed,
    ev.EffectReopened, ev.SignalReceived, ev.MessageReceived,
)  # fmt: skip
"""Events by which the person whom they name contributes. (Who edits what a gate shows contributes to that gate.)"""
CONTRIBUTIONS: Final = frozenset({*_BY_NAME, ev.RunStarted, ev.ContributorNamed, ev.ChildEnded, ev.GateDecided})


def note(state: State, event: ev.Event) -> None:
    """Fold who contributed by `event`; before what else it changes."""
    match event:
        case ev.RunStarted(contributors=names) | ev.ChildEnded(contributors=names):
            _add(state, names)
        case ev.ContributorNamed(name=name):
            _add(state, [name])
        case ev.GateDecided():
            gate = state.gates[event.gate]
            if gate.opened.four_eyes and event.decision == "approve":
                _clear(state, gate)
            if gives_content(gate.opened, event.decision, event.data):
                _add(state, [event.by])
        case _:
            _add(state, [getattr(event, "by", None)])


def _add(state: State, names: Iterable[str | None]) -> None:
    for name in names:
        key = folded(name)
        if not key or name is None or key == folded(state.by):
            continue
        if key in state.contributors or len(state.contributors) < MOST_CONTRIBUTORS:
            state.contributors[key] = Contributor(name, state.seq)
        else:
            state.contributors_lost = True


def _clear(state: State, gate: Gate) -> None:
    """Forget what was contributed before the gate was shown as it was decided."""
    for key, known in list(state.contributors.items()):
        if known.seq <= gate.shown_seq:
            del state.contributors[key]


def gives_content(opened: ev.GateOpened, decision: str, data: Payload) -> bool:
    """Return True if a decision says more than yes or no to what a step has shown. Sending a draft back is no content of it."""
    if opened.step is None:
        return False
    if decision in ("edit", "answer"):
        return True
    return decision == "approve" and (data.value() or {}) != (opened.filled.value() or {})


def contributors(state: State, opened: ev.GateOpened | None = None) -> tuple[str, ...]:
    """Return those besides the starter who contributed to the run, or to what an open question of it asks about."""
    found = {folded(name): name for name in (() if opened is None else opened.contributors)}
    found |= {key: known.name for key, known in state.contributors.items()}
    return tuple(found.values())


def edited(opened: ev.GateOpened, event: ev.GateEdited) -> ev.GateOpened:
    """Return the question that a gate asks after an edit."""
    names = opened.contributors if event.by is None else (*opened.contributors, event.by)
    return msgspec.structs.replace(
        opened, filled=event.data, shown_hash=event.shown_hash, contributors=names, edited_by=event.by
    )


def shown_now(opened: ev.GateOpened, shown: Any, filled: Any) -> Any:
    """Return what a question shows: of one that was edited, with the edit in it."""
    if opened.edited_by is None:
        return shown
    fields = shown if isinstance(shown, dict) else {"shown": shown}
    return {**fields, "arguments" if "arguments" in fields else "edited": filled}


def makers(events: Sequence[ev.Event], by: Claim, state: State) -> list[ev.Event]:
    """Return what is to be recorded of the maker of the key with which somebody contributed by `events`."""
    key = folded(by.maker)
    if not key or by.maker is None or key in (folded(by.name), folded(state.by)) or key in state.contributors:
        return []
    known = state.contributors.get(folded(by.name))
    has_contributed = known is not None and known.seq > state.seq - len(events)
    has_contributed = has_contributed or any(
        isinstance(each, (*_BY_NAME, ev.RunStarted, ev.GateEdited)) for each in events
    )
    return [ev.ContributorNamed(by.maker)] if has_contributed else []
