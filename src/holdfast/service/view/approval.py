"""Standing approvals. Never here: printing, which call one covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

import msgspec

from holdfast.core.nouns.tool_policy import Operator
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.tool_policy import StandingApproval

ApprovalState: TypeAlias = Literal["stands", "used_up", "over", "revoked"]


class ConditionRow(TypedDict):
    """A condition on an argument of a tool call."""

    argument: Annotated[str, doc("The argument's name, or its path into objects: `order.amount`.")]
    operator: Annotated[Operator, doc("The comparison; numbers are compared as decimals.")]
    value: Annotated[Any, doc("Value with which the argument is compared.")]


class ApprovalRow(TypedDict):
    """A standing approval: tool calls that a person has approved in advance."""

    approval: Annotated[str, doc("Its id.")]
    tenant: field.Tenant
    tool: Annotated[str, doc("The tools it covers, as a pattern with `*` and `?`.")]
    when: Annotated[list[ConditionRow], doc("The conditions on the arguments, all of which must hold.")]
    workflow: Annotated[str | None, doc("The only workflow whose calls it covers; null for any.")]
    run_id: Annotated[str | None, doc("The only run whose calls it covers; null for any.")]
    state: Annotated[ApprovalState, doc("`stands` while it covers calls; `used_up` after `max_calls`, `over` after `until`.")]
    used: Annotated[int, doc("Number of calls that it has covered.")]
    max_calls: Annotated[int | None, doc("Maximum number of calls that it covers; null for any number.")]
    by: Annotated[str, doc("The person who granted it.")]
    roles: Annotated[list[str], doc("The roles in which they granted it.")]
    reason: Annotated[str | None, doc("Reason that the person gave.")]
    granted_at: Annotated[Time, doc("Time at which it was granted.")]
    until: Annotated[Time, doc("When it ends.")]
    revoked_by: Annotated[str | None, doc("The person who revoked it.")]


def of_approval(id_: str, approval: StandingApproval, tenant: str, now_ms: int) -> ApprovalRow:
    """Return a standing approval, how often it was used, and whether it covers more calls."""
    return {
        "approval": id_,
        "tenant": tenant,
        "tool": approval.tool,
        "when": msgspec.to_builtins(approval.when),
        "workflow": approval.workflow,
        "run_id": approval.run,
        "state": _state(approval, now_ms),
        "used": approval.used,
        "max_calls": approval.max_calls,
        "by": approval.by,
        "roles": list(approval.roles),
        "reason": approval.reason or None,
        "granted_at": iso(approval.granted_at_ms),
        "until": iso(approval.until_ms),
        "revoked_by": approval.revoked_by,
    }


def _state(approval: StandingApproval, now_ms: int) -> ApprovalState:
    if approval.revoked_by is not None:
        return "revoked"
    return "stands" if approval.stands(now_ms) else "used_up" if approval.left == 0 else "over"
