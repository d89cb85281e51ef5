"""A gate as a person sees it, from its run's state while it is open and from its history afterwards.

Never here: what a decision may be (core.people.gates), rows (service.gate).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import assigned, edited, is_asked, shown_now
from holdfast.core.facts.events import GateDecided, GateOpened, Recorded
from holdfast.core.facts.state import State
from holdfast.core.rules.limits import answer_form
from holdfast.core.values.ids import GateId, run_of
from holdfast.core.values.payload import NULL
from holdfast.core.views.projection import GateState, RunRow
from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.service.control.base import ControlBase


class Gate(NamedTuple):
    """A question to a person, as the person sees it, with its decision once it has one."""

    gate: str
    """Id of the gate."""
    run: str
    """Id of the run that asks."""
    step: str | None
    """Step that asks; None if the run itself asks."""
    reason: str
    """Reason of the question: `approval`, `question`, `tool_approval` …"""
    shown: Any
    """Data that the gate shows."""
    shown_hash: str
    """Hash of what it shows. Pass it to `decide`: the decision then counts only for that."""
    form: dict[str, Any] | None
    """JSON Schema of the data that a decision brings; None for anything."""
    initial_data: Any
    """Data that the form begins with."""
    decisions: tuple[str, ...]
    """Decisions that it takes."""
    reviewers: tuple[str, ...]
    """Persons and roles that it asks; empty for anyone."""
    four_eyes: bool
    """True if neither the requester nor a contributor may decide it."""
    due_at_ms: int | None
    """Deadline; reminders stop then."""
    expires_at_ms: int | None
    """Time after which it takes no decision."""
    quorum: int = 1
    """Number of different persons who must approve it."""
    approved_by: tuple[str, ...] = ()
    """Persons who have approved it so far."""
    proposed_action: str | None = None
    """Action that it is about."""
    evidence_ids: tuple[str, ...] = ()
    """Evidence for the action."""
    risk_level: str | None = None
    """Risk of the action."""
    subject: str | None = None
    """Call or limit that it is about."""
    opened_at_ms: int = 0
    """Time at which it opened."""
    state: GateState = "open"
    """`open` or `escalated` while it takes decisions, then `decided`, `expired` or `withdrawn`."""
    decision: str | None = None
    """Its decision; None while it has none."""
    by: str | None = None
    """Person who decided it."""
    decision_reason: str | None = None
    """Reason of the decision or withdrawal."""
    data: Any = None
    """Data of the decision."""

    @property
    def is_open(self) -> bool:
        """True while it takes decisions."""
        return self.state in OPEN


OPEN: frozenset[GateState] = frozenset({"open", "escalated"})


class Story(NamedTuple):
    """A gate's events, folded."""

    opened: GateOpened
    opened_at_ms: int
    reminders: int
    escalated_at_ms: int | None
    decided: GateDecided | None
    withdrawn: str | None
    assigned: tuple[Recorded, ...] = ()
    """By whom it was given to others."""
    expired: bool = False
    approvals: tuple[Recorded, ...] = ()
    """Those of what it shows, of several that it needs; without the last."""
    closed_at_ms: int | None = None
    """Time at which it was decided, expired or was withdrawn."""

    @property
    def state(self) -> GateState:
        if self.decided is not None:
            return "decided"
        if self.expired:
            return "expired"
        if self.withdrawn is not None:
            return "withdrawn"
        return "open" if self.escalated_at_ms is None else "escalated"


async def story_of(control: ControlBase, gate: str) -> Story:
    """Return the history of a gate. Raises NotFound."""
    row = await run_that_asks(control, gate)
    story = _folded(await control.store.log.events(row.run), gate)
    if story is None:
        raise unknown_gate(gate)
    return story


async def run_that_asks(control: ControlBase, gate: str) -> RunRow:
    """Return the run of a gate. Raises NotFound."""
    try:
        return await control.find(run_of(GateId(gate)))
    except NotFound:
        raise unknown_gate(gate) from None


def unknown_gate(gate: str) -> NotFound:
    """Return the refusal for a gate that is not there, or is hidden from the caller."""
    return NotFound(f"There is no gate {gate:.300}; `holdfast gates list` shows those that are open.")


def _folded(events: Iterable[Recorded], gate: str) -> Story | None:
    story: Story | None = None
    for each in events:
        event = each.event
        if getattr(event, "gate", None) != gate:
            continue
        story = Story(event, each.at_ms, 0, None, None, None) if isinstance(event, ev.GateOpened) else story
        story = story and _after(story, each)
    return story


def _after(story: Story, recorded: Recorded) -> Story:
    """Return the story of a gate with one event more."""
    match event := recorded.event:
        case ev.GateAssigned():
            opened = assigned(story.opened, event)
            kept = tuple(each for each in story.approvals if is_asked(opened, approved(each)))
            return story._replace(opened=opened, assigned=(*story.assigned, recorded), approvals=kept)
        case ev.GateApproved():
            return story._replace(approvals=(*story.approvals, recorded))
        case ev.GateEdited():
            return story._replace(opened=edited(story.opened, event), approvals=())
        case ev.GateReminded():
            return story._replace(reminders=event.number)
        case ev.GateEscalated():
            return story._replace(escalated_at_ms=recorded.at_ms)
        case ev.GateDecided():
            return story._replace(decided=event, closed_at_ms=recorded.at_ms)
        case ev.GateExpired():
            return story._replace(expired=True, closed_at_ms=recorded.at_ms)
        case ev.GateWithdrawn():
            return story._replace(withdrawn=event.reason, closed_at_ms=recorded.at_ms)
        case _:
            return story


def approved(recorded: Recorded) -> ev.GateApproved:
    """Return the approval in an event of a story's approvals."""
    event = recorded.event
    assert isinstance(event, ev.GateApproved)
    return event


async def gate_of(
    control: ControlBase, story: Story, run: RunRow, state: State, decisions: Sequence[str], approved_by: Sequence[str]
) -> Gate:
    """Return a gate with the decisions that it takes and those who have approved it."""
    opened, decided, value = story.opened, story.decided, control.payloads.value
    filled = await value(opened.filled, run.tenant)
    answer = answer_form(state, opened.reason) if opened.gate in state.gates else None
    form, initial_data = (opened.form, filled) if answer is None else answer
    return Gate(
        gate=opened.gate,
        run=run.run,
        step=opened.step,
        reason=opened.reason,
        shown=shown_now(opened, await value(opened.shown, run.tenant), filled),
        shown_hash=opened.shown_hash,
        form=form,
        initial_data=initial_data,
        decisions=tuple(decisions),
        reviewers=opened.reviewers,
        four_eyes=opened.four_eyes,
        due_at_ms=opened.due_at_ms,
        expires_at_ms=opened.expires_at_ms,
        quorum=opened.quorum,
        approved_by=tuple(approved_by),
        proposed_action=opened.proposed_action,
        evidence_ids=opened.evidence_ids,
        risk_level=opened.risk_level,
        subject=opened.subject,
        opened_at_ms=story.opened_at_ms,
        state=story.state,
        decision=None if decided is None else decided.decision,
        by=None if decided is None else decided.by,
        decision_reason=story.withdrawn if decided is None else decided.reason,
        data=await value(NULL if decided is None else decided.data, run.tenant),
    )
