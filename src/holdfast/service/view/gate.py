"""Gates in lists. Never here: printing, all that a gate shows (service.gate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from msgspec import Meta

from holdfast.core.values.proposal import RiskLevel
from holdfast.core.views.projection import GateState
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.views import projection


class GateRow(TypedDict):
    """A gate: a question that a person answers."""

    gate_id: str
    run_id: str
    step: Annotated[str | None, Meta(description="The step that asks; null if the engine asks about the run.")]
    reason: Annotated[
        str, Meta(description="Why it is asked, as a code: `approval`, `question`, `tool_approval`, `effect_unknown`, ….")
    ]
    subject: Annotated[str | None, Meta(description="What it is about: a call, a step, a tool.")]
    state: GateState
    reviewers: Annotated[list[str], Meta(description="The persons, roles and teams that it asks; empty for anybody.")]
    opened_at: Time
    due_at: Annotated[Time | None, Meta(description="When it escalates.")]
    expires_at: Annotated[Time | None, Meta(description="When it stops taking answers.")]
    proposed_action: Annotated[str | None, Meta(description="What happens if it is approved, in a sentence.")]
    evidence_ids: Annotated[list[str], Meta(description="The ids of what the proposal is based on.")]
    risk_level: RiskLevel | None
    quorum: Annotated[int, Meta(description="How many persons must approve.")]
    approved_by: Annotated[list[str], Meta(description="The persons who have approved so far.")]
    reminders: Annotated[int, Meta(description="How many reminders were sent.")]
    decision: Annotated[str | None, Meta(description="The decision: `approve`, `reject`, `edit`, or one of the gate's own.")]
    by: Annotated[str | None, Meta(description="The person who decided.")]


class GateApprovalRow(TypedDict):
    """An approval of a gate that needs several."""

    at: Time
    by: str | None
    roles: Annotated[list[str], Meta(description="The roles in which the person acted.")]
    reason: str | None
    verified: Annotated[bool, Meta(description="True if the name is that of the token or key; otherwise the caller claims it.")]


class GateAssignmentRow(TypedDict):
    """A change of a gate's reviewers."""

    at: Time
    reviewers: Annotated[list[str], Meta(description="The reviewers from then on.")]
    delegated: Annotated[bool, Meta(description="True if a reviewer delegated it; otherwise an operator reassigned it.")]
    by: str | None
    reason: str | None
    verified: Annotated[bool, Meta(description="True if the name is that of the token or key; otherwise the caller claims it.")]


class AskedCallRow(TypedDict):
    """A tool call that a gate asks about."""

    gate_id: str
    tool: str
    arguments: Annotated[Any, Meta(description="The arguments of the call.")]


class AskedTogetherRow(TypedDict):
    """Tool calls that a step asks about at the same time."""

    calls: list[AskedCallRow]
    shown_hash: Annotated[str, Meta(description="The hash of all that is shown; send it with a decision about all of them.")]


class GateWhole(GateRow):
    """A gate with what it shows and how it was decided."""

    requester: Annotated[str | None, Meta(description="The person for whom it is asked.")]
    four_eyes: Annotated[bool, Meta(description="True if neither the requester nor a contributor may decide it.")]
    not_by: Annotated[list[str], Meta(description="The persons who may not decide it.")]
    contributors: Annotated[list[str], Meta(description="The persons who had a part in what it shows.")]
    edited_by: Annotated[str | None, Meta(description="The person who edited what it shows.")]
    approvals: Annotated[list[GateApprovalRow], Meta(description="The approvals so far, without the one that decided it.")]
    escalated_at: Time | None
    assigned: Annotated[list[GateAssignmentRow], Meta(description="The changes of its reviewers.")]
    allowed: Annotated[list[str], Meta(description="The decisions that it takes.")]
    shown_hash: Annotated[str, Meta(description="The hash of what it shows; send it with the decision.")]
    hash_optional: Annotated[bool, Meta(description="True if a decision may leave `shown_hash` out.")]
    form: Annotated[Any, Meta(description="The JSON Schema of the data that a decision brings; null for anything.")]
    why: Annotated[str | None, Meta(description="The reason of the decision, or why the gate was withdrawn.")]
    os_user: Annotated[str | None, Meta(description="The operating system's user who decided.")]
    client: Annotated[str | None, Meta(description="The token or key with which it was decided.")]
    roles: Annotated[list[str], Meta(description="The roles in which the person acted.")]
    verified: Annotated[bool, Meta(description="True if the name is that of the token or key; otherwise the caller claims it.")]
    approver_role: Annotated[str | None, Meta(description="The role in which the person was asked; null if by name.")]
    rationale: Annotated[str | None, Meta(description="The reason of the decision.")]
    shown: Annotated[Any, Meta(description="What it shows.")]
    filled: Annotated[Any, Meta(description="The values that the form begins with.")]
    data: Annotated[Any, Meta(description="The data of the decision.")]
    asked_together: Annotated[AskedTogetherRow | None, Meta(description="The calls that one decision can answer together.")]


def of_gate(row: projection.GateRow, change: projection.GateChange | None) -> GateRow:
    return {
        "gate_id": row.gate,
        "run_id": row.run,
        "step": row.step,
        "reason": row.reason,
        "subject": row.subject,
        "state": change.state if change is not None else "open",
        "reviewers": list(row.reviewers),
        "opened_at": iso(row.opened_at_ms),
        "due_at": iso(row.due_at_ms),
        "expires_at": iso(row.expires_at_ms),
        "proposed_action": row.proposed_action,
        "evidence_ids": list(row.evidence_ids),
        "risk_level": cast("RiskLevel | None", row.risk_level),
        "quorum": row.quorum,
        "approved_by": list((change.approved_by if change is not None else None) or ()),
        "reminders": (change.reminders if change is not None else None) or 0,
        "decision": change.decision if change is not None else None,
        "by": change.by if change is not None else None,
    }
