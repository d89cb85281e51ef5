"""A gate as a row, and the checks of a decision that comes from outside.

Never here: what a decision may be (core.people.gates), words for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import contributors
from holdfast.core.facts.events import GateDecided, GateOpened, Recorded
from holdfast.core.facts.state import TOOL_APPROVAL, Gate, State
from holdfast.core.people.consequences import consequences
from holdfast.core.people.gates import closed, offered, remind_at_ms, stale_at_ms
from holdfast.core.people.reviewers import check_distinct, check_person
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.actor import Actor, is_among
from holdfast.core.values.ids import CallId, GateId, run_of
from holdfast.core.values.money import usd
from holdfast.core.values.policies import EffectPolicy
from holdfast.core.values.proposal import RiskLevel
from holdfast.core.views.gate_title import title_of
from holdfast.core.views.projection import RunRow
from holdfast.engine.background.kin import contributors_of_kin
from holdfast.errors import DecisionRefused, InvalidDecision, NotFound
from holdfast.ports import ToDecide
from holdfast.service.control.command import AskedTogether
from holdfast.service.control.control import Control
from holdfast.service.control.gate import OPEN, Story, approved, gate_of, unknown_gate
from holdfast.service.view import (
    AskedCallRow,
    AskedTogetherRow,
    GateApprovalRow,
    GateAssignmentRow,
    GateCallRow,
    GateWhole,
    is_verified,
    iso,
    maybe_usd,
)


async def decidable(
    control: Control, gate: GateId, by: str, roles: Sequence[str], maker: str | None, key_maker: str | None
) -> ToDecide:
    """Return the right of `by` to decide an open gate in these roles, with a link that `maker` holds first, who may come with a
    key that `key_maker` has made. Raises NotFound, AlreadyDecided, DecisionRefused."""
    state = await _state(control, gate)
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
        known = (await _state(control, gate)).gates.get(gate)
        if known is None:
            return  # the decision itself learns what became of it
        if not known.opened.hash_optional:
            raise InvalidDecision(
                "shown_hash is required: the hash of what the gate shows. Read the gate first. Nothing was decided.",
                field="shown_hash",
            )


async def _state(control: Control, gate: GateId) -> State:
    """Return the run of a gate as it stands. Raises NotFound."""
    try:
        return await control.run(run_of(gate)).state()
    except NotFound:
        raise unknown_gate(gate) from None


def approver_role(opened: GateOpened, decided: GateDecided) -> str | None:
    """Return the role in which a person was asked; None if by name, or if anyone was."""
    return next((role for role in decided.roles if is_among(opened.reviewers, None, [role])), None)


async def whole(control: Control, story: Story, run: RunRow, caller: Actor, not_permitted: str | None) -> GateWhole:
    """All about a gate: whom it asks what, what they see, what would follow, and what they decided. It is shown to
    `caller`, who may decide none for the reason `not_permitted`."""
    opened, decided = story.opened, story.decided
    is_together = story.state in OPEN and opened.reason == TOOL_APPROVAL
    together = await _still_together(control, opened.gate) if is_together else None
    approvals = await _approvals(control, story)
    approved_by = [by for each in approvals if (by := approved(each).by) is not None]
    state = await control.run(run.run).state()
    gate = await gate_of(control, story, run, state, await _allowed(control, story), approved_by)
    known = state.gates.get(opened.gate)
    return {
        "gate_id": opened.gate,
        "run_id": run.run,
        "workflow": run.workflow,
        "title": title_of(opened),
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
        "approved_by": approved_by,
        "opened_at": iso(story.opened_at_ms),
        "due_at": iso(opened.due_at_ms),
        "reminders": story.reminders,
        "escalated_at": iso(story.escalated_at_ms),
        "expires_at": iso(opened.expires_at_ms),
        "proposed_action": opened.proposed_action,
        "evidence_ids": list(opened.evidence_ids),
        "risk_level": cast("RiskLevel | None", opened.risk_level),
        "assigned": [_assigned(each) for each in story.assigned],
        "allowed": list(gate.decisions),
        "shown_hash": opened.shown_hash,
        "hash_optional": opened.hash_optional,
        "form": gate.form,
        "decision": gate.decision,
        "decision_reason": gate.decision_reason,
        "by": gate.by,
        "os_user": decided.os_user or None if decided is not None else None,
        "client": decided.client or None if decided is not None else None,
        "roles": list(decided.roles) if decided is not None else [],
        "verified": decided is not None and is_verified(decided),
        "approver_role": None if decided is None else approver_role(opened, decided),
        "shown": gate.shown,
        "initial_data": gate.initial_data,
        "data": gate.data,
        "asked_together": None if together is None or len(together.calls) == 1 else _together(together),
        "call": await _call(control, state, opened, gate.initial_data),
        "consequences": []
        if known is None
        else [
            {"decision": each.decision, "follows": each.follows, "nodes": [*each.nodes], "more": each.more}
            for each in consequences(await control.graph_of(state.graph_hash), state, known.opened)
        ],
        "spendable_usd": maybe_usd(state.budget.available_nanousd),
        "refusal": None if known is None else not_permitted or await _refusal(control, state, known, caller),
        "remind_at": None if known is None else iso(remind_at_ms(known)),
        "cancel_at": None if known is None else iso(_cancel_at_ms(known)),
        "closed_at": iso(story.closed_at_ms),
    }


async def _still_together(control: Control, gate: GateId) -> AskedTogether | None:
    """Return the calls that are asked about together; None if the gate was decided since its history was read."""
    try:
        return await control.asked_together(gate)
    except NotFound:
        return None


async def _call(control: Control, state: State, opened: GateOpened, arguments: Any) -> GateCallRow | None:
    """Return the call that a gate asks about, before it is made or with an unknown outcome."""
    made = state.calls.get(CallId(opened.subject or "")) if opened.reason == EFFECT_UNKNOWN else None
    if made is not None:
        return {
            "tool": made.name,
            "arguments": await control.payloads.value(made.request, state.tenant),
            "policy": cast("EffectPolicy", made.policy),
            "undone_by": made.compensation,
            "irreversible": None,
            "price_usd": usd(made.hold_nanousd),
        }
    if opened.reason != TOOL_APPROVAL:
        return None
    shown, terms = await control.payloads.value(opened.shown, state.tenant), opened.terms
    return {
        "tool": shown["tool"],
        "arguments": arguments,
        "policy": None if terms is None else terms.policy,
        "undone_by": None if terms is None else terms.undone_by,
        "irreversible": None if terms is None else terms.irreversible,
        "price_usd": None if terms is None else usd(terms.price_nanousd),
    }


async def _refusal(control: Control, state: State, gate: Gate, by: Actor) -> str | None:
    """Return why a person may not decide an open gate."""
    opened = gate.opened
    kin = await contributors_of_kin(control.runtime.runs, state) if opened.four_eyes else ()
    try:
        check_person(opened, by.name, by.roles, of=state, maker=by.maker, kin=kin)
        if opened.quorum > 1:
            check_distinct(state, opened, by)
    except DecisionRefused as refused:
        return refused.message
    return None


def _cancel_at_ms(gate: Gate) -> int | None:
    """Return when the run is cancelled if no answer comes; as things stand, if the deadline is still ahead."""
    opened = gate.opened
    if (at_ms := stale_at_ms(gate)) is not None or opened.due_at_ms is None or opened.cancel_after_ms is None:
        return at_ms
    return opened.due_at_ms + opened.cancel_after_ms


async def _contributors(control: Control, story: Story) -> Sequence[str]:
    """Return those who cannot decide a question with four eyes besides its requester; of one that is open, as things stand."""
    opened = story.opened
    if not opened.four_eyes or story.state not in OPEN:
        return opened.contributors
    state = await control.run(run_of(opened.gate)).state()
    kin = await contributors_of_kin(control.runtime.runs, state)
    return tuple(dict.fromkeys((*contributors(state, opened), *(kin or ()))))


async def _approvals(control: Control, story: Story) -> Sequence[Recorded]:
    """Return the approvals that count; of an open gate, as things stand."""
    if not story.approvals or story.state not in OPEN:
        return story.approvals
    gate = (await control.run(run_of(story.opened.gate)).state()).gates.get(story.opened.gate)
    counted = {each.by for each in gate.approvals} if gate is not None else set()
    return [each for each in story.approvals if approved(each).by in counted]


async def _allowed(control: Control, story: Story) -> list[str]:
    """Return the decisions that a gate takes now; of one that is closed, those that it took."""
    opened = story.opened
    if opened.reason != EFFECT_UNKNOWN or story.state not in OPEN:
        return list(opened.allowed)
    return list(offered(await control.run(run_of(opened.gate)).state(), opened))


def _approval(recorded: Recorded) -> GateApprovalRow:
    event = approved(recorded)
    return {
        "at": iso(recorded.at_ms),
        "by": event.by,
        "roles": list(event.roles),
        "reason": event.reason,
        "verified": is_verified(event),
    }


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


def _together(batch: AskedTogether) -> AskedTogetherRow:
    """The calls that a step asks about at the same time."""
    calls: list[AskedCallRow] = [{"gate_id": each.gate, "tool": each.tool, "arguments": each.arguments} for each in batch.calls]
    return {"calls": calls, "shown_hash": batch.shown_hash}
