"""Contributors to a run: the persons who have a hand in what it asks about. None of them decides a question that needs a second
pair of eyes.

Who starts, edits, resolves, replays, signals, forks or backfills a run contributes to it for as long as it lives. So does

- who made the key that was used for that
- who answered a question with data, also in fields that it left open, or gave a reason, beside whatever word
- who has set its schedule, or has said something before in its conversation, or contributed to a run that answered there
- who wrote last a shared value that the run has read, or contributed to the run that wrote it
- who contributed to its origin, to its parent before it was asked for, to a child whose end the run has heard of, or to a
  run that has sent it a signal

Approving a question clears nobody, because nobody knows what of all this the question has shown. Only an edit of what it shows
is known to be shown: its author contributes to that question, and to nothing any more once another person has approved it.

Never here: which decisions a gate takes (gates), the runs under way above and below a run (engine.background.kin).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import MAX_DECIDED_KEPT, OTHERS, TOOL_APPROVAL, Approval, Contributor, Gate, State
from holdfast.core.values.actor import Actor, folded, is_among
from holdfast.core.values.payload import Payload

if TYPE_CHECKING:
    from holdfast.core.facts.commands import Value

MAX_CONTRIBUTORS: Final = 1000
"""Names that a run keeps. One with more has no question with four eyes decided, because it is not known who else there was."""

_BY_NAME: Final = (
    ev.RunReopened,
    ev.RunForked,
    ev.RunMigrated,
    ev.DeadLetterEdited,
    ev.StepReplayed,
    ev.EffectCompleted,
    ev.EffectFailed,
    ev.EffectReopened,
    ev.SignalReceived,
    ev.MessageReceived,
)
"""Events by which the person whom they name contributes. (Who edits what a gate shows contributes to that gate.)"""
MAX_AUTHORS: Final = 100
"""Names that are kept with a shared value, a schedule or an answer in a conversation."""
CONTRIBUTIONS: Final = frozenset({*_BY_NAME, ev.RunStarted, ev.ContributorNamed, ev.ChildEnded, ev.GateDecided})


def note(state: State, event: ev.Event) -> None:
    """Fold who contributed by `event`; before what else it changes."""
    match event:
        case ev.RunStarted(contributors=names) | ev.ChildEnded(contributors=names):
            _add(state, names)
        case ev.ContributorNamed(name=name, read=read):
            _add(state, [name], has_read=read is not None)
        case ev.GateDecided():
            if gives_content(state.gates[event.gate].opened, event.decision, event.data, event.reason):
                _add(state, [event.by, event.maker])
        case _:
            _add(state, [getattr(event, "by", None)])


def _add(state: State, names: Iterable[str | None], *, has_read: bool = False) -> None:
    for name in names:
        key = folded(name)
        if not key or name is None or _is_starter(state, key):
            continue
        known = state.contributors.get(key)
        if known is None and len(state.contributors) >= MAX_CONTRIBUTORS:
            key = OTHERS
            known = state.contributors.get(key)
        shown = OTHERS if key == OTHERS else name
        state.contributors[key] = Contributor(shown, state.seq, has_read and (known is None or known.has_read))
        for gate in state.gates.values():
            if gate.opened.four_eyes and gate.approvals:
                gate.approvals = [each for each in gate.approvals if key not in (folded(each.by), folded(each.maker))]


def note_makers(state: State, makers: Mapping[str, Iterable[str]]) -> None:
    """Fold who made the keys with which others decided, by the folded names of those."""
    for name, those in makers.items():
        is_full = name not in state.makers and len(state.makers) >= MAX_DECIDED_KEPT
        key = OTHERS if is_full else name
        state.makers[key] = bounded((*state.makers.get(key, ()), *((OTHERS,) if is_full else those)))


def _is_starter(state: State, key: str) -> bool:
    """Return True if a folded name is the starter's. One who goes by that of the others does not stand for them."""
    return key == folded(state.by) and key != OTHERS


def still_asked(gate: Gate) -> list[Approval]:
    """Return the approvals of a gate by those whom it asks now."""
    return [each for each in gate.approvals if is_asked(gate.opened, each)]


def is_asked(opened: ev.GateOpened, approval: Approval | ev.GateApproved) -> bool:
    """Return True if a gate asks the person who has approved it, as they acted then."""
    return not opened.reviewers or is_among(opened.reviewers, approval.by, approval.roles)


def gives_content(opened: ev.GateOpened, decision: str, data: Payload, reason: str | None) -> bool:
    """Return True if a decision gives the code that asked, or the author of the next draft, more than a word: data of any kind,
    also of fields that were left open, or a reason. The reason of an approved call stays in the history."""
    if opened.step is None:
        return False
    if decision in ("edit", "answer"):
        return True
    if decision == "approve":
        has_reason = bool(reason) and opened.reason != TOOL_APPROVAL
        return has_reason or (data.value() or {}) != (opened.filled.value() or {})
    return bool(reason) or data.value() not in (None, {})


def contributors(state: State, opened: ev.GateOpened | None = None) -> tuple[str, ...]:
    """Return those besides the starter who contributed to the run, or to what an open question of it asks about."""
    found = {folded(name): name for name in (() if opened is None else opened.contributors)}
    found |= {key: known.name for key, known in state.contributors.items()}
    return tuple(found.values())


def with_read(state: State, opened_with: Iterable[Value]) -> tuple[str, ...]:
    """Return the contributors to the run once these values are recorded, which its step has looked at."""
    read = [name for value in opened_with for name in value.authors]
    return tuple(dict.fromkeys((*contributors(state), *(name for name in read if is_new(state, name, by_reading=True)))))


def is_new(state: State, name: str, *, by_reading: bool = False) -> bool:
    """Return True if a person is not known to have a hand in the run; one by what it has read is another than the rest."""
    key = folded(name)
    known = state.contributors.get(key)
    return bool(key) and not _is_starter(state, key) and (known is None or (known.has_read and not by_reading))


def authors(state: State) -> tuple[str, ...]:
    """Return those who have a hand in what the run writes: without who wrote what it has read."""
    names = [known.name for known in state.contributors.values() if not known.has_read]
    return bounded([*([] if state.by is None else [state.by]), *names])


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Return as many of the names as are kept; where there are more, OTHERS stands for those who are left out."""
    known = tuple(dict.fromkeys(names))
    if len(known) <= MAX_AUTHORS:
        return known
    return (*[name for name in known if name != OTHERS][1 - MAX_AUTHORS :], OTHERS)


def of_claim(by: Actor) -> tuple[str, ...]:
    """Return the persons who act under a claim."""
    return tuple(name for name in (by.name, by.maker) if name is not None)


def edited(opened: ev.GateOpened, event: ev.GateEdited) -> ev.GateOpened:
    """Return the question that a gate asks after an edit."""
    names = (*opened.contributors, *(each for each in (event.by, event.maker) if each is not None))
    return msgspec.structs.replace(
        opened, filled=event.data, shown_hash=event.shown_hash, contributors=names, edited_by=event.by
    )


def assigned(opened: ev.GateOpened, event: ev.GateAssigned) -> ev.GateOpened:
    """Return the question that a gate asks once it was given to others."""
    first = opened.reviewers if opened.asked_first is None else opened.asked_first
    return msgspec.structs.replace(opened, reviewers=event.reviewers, asked_first=first)


def shown_now(opened: ev.GateOpened, content: Any, filled: Any) -> Any:
    """Return what a question shows: of one that was edited, with the edit in it."""
    if opened.edited_by is None:
        return content
    fields = content if isinstance(content, dict) else {"shown": content}
    return {**fields, "arguments" if "arguments" in fields else "edited": filled}


def makers(events: Sequence[ev.Event], by: Actor, state: State) -> list[ev.Event]:
    """Return what is to be recorded of the maker of the key that was used for a contribution by `events`."""
    if by.maker is None or folded(by.maker) == folded(by.name) or not is_new(state, by.maker):
        return []
    known = state.contributors.get(folded(by.name))
    has_contributed = known is not None and known.seq > state.seq - len(events)
    has_contributed = has_contributed or any(isinstance(each, (*_BY_NAME, ev.RunStarted)) for each in events)
    return [ev.ContributorNamed(by.maker)] if has_contributed else []
