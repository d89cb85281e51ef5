"""All about a gate, from its run's history: what was asked, of whom, and what became of it.

Never here: what a decision may be (core.people.gates), words for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import assigned, contributors, edited, is_asked, shown_now
from holdfast.core.facts.events import GateDecided, GateOpened, Recorded
from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.people.gates import closed, offered
from holdfast.core.people.reviewers import check_person
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.claim import is_among
from holdfast.core.values.ids import GateId, run_of
from holdfast.core.values.proposal import RiskLevel
from holdfast.core.views.projection import GateState, RunRow
from holdfast.engine.background.kin import contributors_of_kin
from holdfast.errors import InvalidDecision, NotFound
from holdfast.ports import ToDecide
from holdfast.service.control.command import AskedTogether
from holdfast.service.control.control import Control
from holdfast.service.view import (
    AskedCallRow,
    AskedTogetherRow,
    GateApprovalRow,
    GateAssignmentRow,
    GateWhole,
    is_verified,
    iso,
)


class Story(NamedTuple):
    """A gate, from its run's history."""

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

    @property
    def state(self) -> GateState:
        if self.decided is not None:
            return "decided"
        if self.expired:
            return "expired"
        if self.withdrawn is not None:
            return "withdrawn"
        return "open" if self.escalated_at_ms is None else "escalated"


async def decidable(
    control: Control, gate: GateId, by: str, roles: Sequence[str], maker: str | None, key_maker: str | None
) -> ToDecide:
    """Return the right of `by` to decide an open gate in these roles, with a link that `maker` holds first, who may come with a
    key that `key_maker` has made. Raises NotFound, AlreadyDecided, DecisionRefused."""
    state = await control.run(run_of(gate)).state()
    if gate not in state.gates:
        raise closed(state, gate)
    opened = state.gates[gate].opened
    kin = await contributors_of_kin(control.runtime.runs, state) if opened.four_eyes else ()
    check_person(opened, by, roles, of=state, maker=key_maker, kin=kin)
    # Four eyes hold for both of them.
    check_person(msgspec.structs.replace(opened, reviewers=()), maker, (), of=state, maker=key_maker, kin=kin)
    return ToDecide(gate, opened.shown_hash, by)


async def expect_hash(control: Control, gates: Iterable[GateId], shown_hash: str | None) -> None:
    """Raise InvalidDecision for a decision that does not name what was shown, unless the gate says that it may."""
    if shown_hash is not None:
        return
    for gate in gates:
        known = (await control.run(run_of(gate)).state()).gates.get(gate)
        if known is None:
            return  # the decision itself learns what became of it
        if not known.opened.hash_optional:
            raise InvalidDecision(
                f"Give shown_hash, the hash of what gate {gate:.300} shows: read the gate first, and send what it has there"
                " with the decision. Nothing was decided."
            )


async def story_of(control: Control, gate: str) -> Story:
    """Return the history of a gate. Raises NotFound."""
    row = await control.find(run_of(GateId(gate)))
    story: Story | None = None
    for each in await control.run(row.run).events():
        event = each.event
        if getattr(event, "gate", None) != gate:
            continue
        story = Story(event, each.at_ms, 0, None, None, None) if isinstance(event, ev.GateOpened) else story
        story = story and _after(story, each)
    if story is None:
        raise NotFound(f"There is no gate {gate}; `holdfast gates list` shows those that are open.")
    return story


def _after(story: Story, recorded: Recorded) -> Story:
    """Return the story of a gate with one event more."""
    match event := recorded.event:
        case ev.GateAssigned():
            opened = assigned(story.opened, event)
            kept = tuple(each for each in story.approvals if is_asked(opened, _approved(each)))
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
            return story._replace(decided=event)
        case ev.GateExpired():
            return story._replace(expired=True)
        case ev.GateWithdrawn():
            return story._replace(withdrawn=event.reason)
        case _:
            return story


def approver_role(opened: GateOpened, decided: GateDecided) -> str | None:
    """Return the role in which a person was asked; None if by name, or if anyone was."""
    return next((role for role in decided.roles if is_among(opened.reviewers, None, [role])), None)


async def whole(control: Control, story: Story, run: RunRow) -> GateWhole:
    """All about a gate: whom it asks what, what they see, and what they decided."""
    opened, decided, value = story.opened, story.decided, control.payloads.value
    is_together = story.state in ("open", "escalated") and opened.reason == TOOL_APPROVAL
    together = await control.asked_together(opened.gate) if is_together else None
    approvals = await _approvals(control, story)
    return {
        "gate_id": opened.gate,
        "run_id": run.run,
        "step": opened.step,
        "reason": opened.reason,
        "subject": opened.subject,
        "state": story.state,
        "reviewers": list(opened.reviewers),
        "requester": opened.requester,
        "four_eyes": opened.four_eyes,
        "not_by": list(opened.not_by),
        "contributors": list(await _contributors(control, story)),
        "edited_by": opened.edited_by,
        "quorum": opened.quorum,
        "approvals": [_approval(each) for each in approvals],
        "approved_by": [by for each in approvals if (by := _approved(each).by) is not None],
        "opened_at": iso(story.opened_at_ms),
        "due_at": iso(opened.due_at_ms),
        "reminders": story.reminders,
        "escalated_at": iso(story.escalated_at_ms),
        "expires_at": iso(opened.expires_at_ms),
        "proposed_action": opened.proposed_action,
        "evidence_ids": list(opened.evidence_ids),
        "risk_level": cast("RiskLevel | None", opened.risk_level),
        "assigned": [_assigned(each) for each in story.assigned],
        "allowed": await _allowed(control, story),
        "shown_hash": opened.shown_hash,
        "hash_optional": opened.hash_optional,
        "form": opened.form,
        "decision": decided.decision if decided is not None else None,
        "why": decided.reason if decided is not None else story.withdrawn,
        "by": decided.by if decided is not None else None,
        "os_user": decided.os_user or None if decided is not None else None,
        "client": decided.client or None if decided is not None else None,
        "roles": list(decided.roles) if decided is not None else [],
        "verified": decided is not None and is_verified(decided),
        "approver_role": None if decided is None else approver_role(opened, decided),
        "rationale": decided.reason if decided is not None else None,
        "shown": shown_now(opened, await value(opened.shown, run.tenant), filled := await value(opened.filled, run.tenant)),
        "filled": filled,
        "data": await value(decided.data, run.tenant) if decided is not None else None,
        "asked_together": None if together is None or len(together.calls) == 1 else _together(together),
    }


async def _contributors(control: Control, story: Story) -> Sequence[str]:
    """Return those who cannot decide a question with four eyes besides its requester; of one that is open, as things stand."""
    opened = story.opened
    if not opened.four_eyes or story.state not in ("open", "escalated"):
        return opened.contributors
    state = await control.run(run_of(opened.gate)).state()
    kin = await contributors_of_kin(control.runtime.runs, state)
    return tuple(dict.fromkeys((*contributors(state, opened), *(kin or ()))))


async def _approvals(control: Control, story: Story) -> Sequence[Recorded]:
    """Return the approvals that count; of an open gate, as things stand."""
    if not story.approvals or story.state not in ("open", "escalated"):
        return story.approvals
    gate = (await control.run(run_of(story.opened.gate)).state()).gates.get(story.opened.gate)
    counted = {each.by for each in gate.approvals} if gate is not None else set()
    return [each for each in story.approvals if _approved(each).by in counted]


async def _allowed(control: Control, story: Story) -> list[str]:
    """Return the decisions that a gate takes now; of one that is closed, those that it took."""
    opened = story.opened
    if opened.reason != EFFECT_UNKNOWN or story.state not in ("open", "escalated"):
        return list(opened.allowed)
    return list(offered(await control.run(run_of(opened.gate)).state(), opened))


def _approval(recorded: Recorded) -> GateApprovalRow:
    event = _approved(recorded)
    return {
        "at": iso(recorded.at_ms),
        "by": event.by,
        "roles": list(event.roles),
        "reason": event.reason,
        "verified": is_verified(event),
    }


def _approved(recorded: Recorded) -> ev.GateApproved:
    event = recorded.event
    assert isinstance(event, ev.GateApproved)
    return event


def _assigned(recorded: Recorded) -> GateAssignmentRow:
    event = recorded.event
    assert isinstance(event, ev.GateAssigned)
    return {
        "at": iso(recorded.at_ms),
        "reviewers": list(event.reviewers),
        "delegated": event.delegated,
        "by": event.by,
        "reason": event.reason,
        "verified": is_verified(event),
    }


def _together(asked: AskedTogether) -> AskedTogetherRow:
    """The calls that a step asks about at the same time."""
    calls: list[AskedCallRow] = [{"gate_id": each.gate, "tool": each.tool, "arguments": each.arguments} for each in asked.calls]
    return {"calls": calls, "shown_hash": asked.shown_hash}
