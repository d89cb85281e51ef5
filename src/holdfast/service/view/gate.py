"""Gates in lists. Never here: printing, all that a gate shows (service.gate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, cast

from holdfast.core.people.consequences import FollowUp
from holdfast.core.values.policies import EffectPolicy
from holdfast.core.values.proposal import RiskLevel
from holdfast.core.views.projection import GateState
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso

if TYPE_CHECKING:
    from holdfast.core.views import projection

_OPEN: Final = ("open", "escalated")


class GateRow(TypedDict):
    """A gate: a question that a person answers."""

    gate_id: field.GateId
    run_id: field.RunId
    workflow: field.Workflow
    title: Annotated[
        str | None, doc("Its subject, in a line: the proposed action, the question or the tool call; null if nothing says it.")
    ]
    step: Annotated[str | None, doc("The step that asks; null if the engine asks about the run.")]
    reason: Annotated[
        str, doc("Reason why it is asked, as a code: `approval`, `question`, `tool_approval`, `effect_unknown`, ….")
    ]
    subject: Annotated[str | None, doc("Subject: the id of a call or a step, or the name of a tool.")]
    state: Annotated[GateState, doc("State: `escalated` is open past its deadline, `withdrawn` is no longer needed.")]
    reviewers: Annotated[list[str], doc("The persons, roles and teams that it asks; empty if any reviewer may decide.")]
    opened_at: Annotated[Time, doc("Time at which it was asked.")]
    due_at: Annotated[Time | None, doc("When it escalates.")]
    expires_at: Annotated[Time | None, doc("When it stops taking answers.")]
    proposed_action: Annotated[str | None, doc("Action that follows an approval, in a sentence.")]
    evidence_ids: Annotated[list[str], doc("The ids of what the proposal is based on.")]
    risk_level: Annotated[RiskLevel | None, doc("Risk of what is proposed; null if the workflow states none.")]
    quorum: Annotated[int, doc("Number of persons who must approve.")]
    approved_by: Annotated[list[str], doc("The persons who have approved so far.")]
    reminders: Annotated[int, doc("Number of reminders that were sent.")]
    decision: Annotated[str | None, doc("The decision: `approve`, `reject`, `edit`, or one of the gate's own.")]
    by: Annotated[str | None, doc("The person who decided.")]
    closed_at: Annotated[Time | None, doc("Time at which it was decided, expired or was withdrawn; null while it is open.")]


class GateApprovalRow(TypedDict):
    """An approval of a gate that needs several."""

    at: Annotated[Time, doc("Time of the approval.")]
    by: Annotated[str | None, doc("Person who approved.")]
    roles: Annotated[list[str], doc("The roles in which the person acted.")]
    reason: Annotated[str | None, doc("Reason that the person gave.")]
    verified: Annotated[bool, doc("True if the name is that of the token or key; otherwise the caller claims it.")]


class GateAssignmentRow(TypedDict):
    """A change of a gate's reviewers."""

    at: Annotated[Time, doc("Time of the change.")]
    reviewers: Annotated[list[str], doc("The reviewers from then on.")]
    delegated: Annotated[bool, doc("True if a reviewer delegated it; otherwise an operator reassigned it.")]
    by: Annotated[str | None, doc("Person who made the change.")]
    reason: Annotated[str | None, doc("Reason that the person gave.")]
    verified: Annotated[bool, doc("True if the name is that of the token or key; otherwise the caller claims it.")]


class AskedCallRow(TypedDict):
    """A tool call that a gate asks about."""

    gate_id: Annotated[str, doc("Id of the gate that asks about this call.")]
    tool: field.Tool
    arguments: Annotated[Any, doc("The arguments of the call.")]


class AskedTogetherRow(TypedDict):
    """Tool calls that a step asks about at the same time."""

    calls: Annotated[list[AskedCallRow], doc("Calls that are asked about, each with its own gate.")]
    shown_hash: Annotated[str, doc("The hash of all that is shown; send it with a decision about all of them.")]


class GateCallRow(TypedDict):
    """The tool call that a gate is about."""

    tool: field.Tool
    arguments: Annotated[Any, doc("The arguments of the call.")]
    policy: Annotated[EffectPolicy | None, doc("Effect policy of the tool; null if it is unknown.")]
    undone_by: Annotated[
        str | None,
        doc("Tool that undoes the call if the run fails or is cancelled; nothing undoes it once the run has completed."),
    ]
    irreversible: Annotated[bool | None, doc("True if the tool declares that nothing can undo it; null if unknown.")]
    price_usd: Annotated[Dollars | None, doc("Price of the call by the tool's declaration; null if it is unknown.")]


class GateConsequenceRow(TypedDict):
    """The consequence of a decision that an open gate takes."""

    decision: Annotated[str, doc("The decision.")]
    follows: Annotated[
        FollowUp,
        doc(
            "Effect of the decision: `counted` and `asked_again` leave the gate open for other persons; `answered` calls no"
            " tool, the data is its response."
        ),
    ]
    nodes: Annotated[list[str], doc("Nodes that the run goes on to, if their guards allow it; empty if unknown.")]
    more: Annotated[int, doc("Number of persons who must still approve after this decision.")]


class GateWhole(GateRow):
    """A gate with what it shows and how it was decided."""

    call: Annotated[GateCallRow | None, doc("The tool call that it is about; null for another question.")]
    consequences: Annotated[
        list[GateConsequenceRow], doc("The consequence of each decision that it takes; empty once it is closed.")
    ]
    spendable_usd: Annotated[
        Dollars | None,
        doc("The most that the run can still spend under its cost limit; null if it has none, so that the most is unknown."),
    ]
    refusal: Annotated[str | None, doc("Reason why the caller may not decide it; null if they may, or if it is closed.")]
    remind_at: Annotated[Time | None, doc("Time of the next reminder; null if there is none.")]
    cancel_at: Annotated[Time | None, doc("Time at which the run is cancelled without a decision; null for never.")]

    requester: Annotated[str | None, doc("The person for whom it is asked.")]
    four_eyes: Annotated[bool, doc("True if neither the requester nor a contributor may decide it.")]
    not_by: Annotated[list[str], doc("The persons who may not decide it.")]
    contributors: Annotated[list[str], doc("The persons who had a part in what it shows.")]
    edited_by: Annotated[str | None, doc("The person who edited what it shows.")]
    approvals: Annotated[list[GateApprovalRow], doc("The approvals so far, without the one that decided it.")]
    escalated_at: Annotated[Time | None, doc("Time at which its deadline passed; null if it has not.")]
    assigned: Annotated[list[GateAssignmentRow], doc("The changes of its reviewers.")]
    allowed: Annotated[list[str], doc("The decisions that it takes.")]
    shown_hash: Annotated[str, doc("The hash of what it shows; send it with the decision.")]
    hash_optional: Annotated[bool, doc("True if a decision may leave `shown_hash` out.")]
    form: Annotated[Any, doc("The JSON Schema of the data that a decision brings; null for anything.")]
    decision_reason: Annotated[str | None, doc("The reason of the decision or withdrawal.")]
    os_user: Annotated[str | None, doc("The operating system's user who decided.")]
    client: Annotated[str | None, doc("The token or key with which it was decided.")]
    roles: Annotated[list[str], doc("The roles in which the person acted.")]
    verified: Annotated[bool, doc("True if the name is that of the token or key; otherwise the caller claims it.")]
    approver_role: Annotated[str | None, doc("The role in which the person was asked; null if by name.")]
    shown: Annotated[Any, doc("Data that the gate shows.")]
    initial_data: Annotated[Any, doc("The data that the form begins with.")]
    data: Annotated[Any, doc("The data of the decision.")]
    asked_together: Annotated[AskedTogetherRow | None, doc("The calls that one decision can answer together.")]


def of_gate(row: projection.GateRow, change: projection.GateChange | None) -> GateRow:
    return {
        "gate_id": row.gate,
        "run_id": row.run,
        "workflow": row.workflow,
        "title": row.title,
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
        "closed_at": None if change is None or change.state in _OPEN else iso(change.at_ms),
    }
