"""Standing approvals. Never here: printing, which call one covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from holdfast.core.nouns.tool_policy import Comparison
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.tool_policy import StandingApproval

ApprovalState: TypeAlias = Literal["stands", "used_up", "over", "revoked"]


class ConditionRow(TypedDict):
    """A condition on an argument of a tool call."""

    argument: Annotated[str, Meta(description="The argument's name, or its path into objects: `order.amount`.")]
    compared: Annotated[Comparison, Meta(description="The comparison; numbers are compared as decimals.")]
    value: Annotated[Any, Meta(description="What the argument is compared with.")]


class ApprovalRow(TypedDict):
    """A standing approval: tool calls that a person has approved in advance."""

    approval: Annotated[str, Meta(description="Its id.")]
    tenant: str
    tool: Annotated[str, Meta(description="The tools it covers, as a pattern with `*` and `?`.")]
    when: Annotated[list[ConditionRow], Meta(description="The conditions on the arguments, all of which must hold.")]
    workflow: Annotated[str | None, Meta(description="The only workflow whose calls it covers; null for any.")]
    run_id: Annotated[str | None, Meta(description="The only run whose calls it covers; null for any.")]
    state: Annotated[
        ApprovalState, Meta(description="`stands` while it covers calls; `used_up` after `most` calls, `over` after `until`.")
    ]
    used: Annotated[int, Meta(description="How many calls it has covered.")]
    most: Annotated[int | None, Meta(description="How many calls it covers at most; null for any number.")]
    by: Annotated[str, Meta(description="The person who granted it.")]
    roles: Annotated[list[str], Meta(description="The roles in which they granted it.")]
    reason: str | None
    granted_at: Time
    until: Annotated[Time, Meta(description="When it ends.")]
    revoked_by: Annotated[str | None, Meta(description="The person who revoked it.")]


def of_approval(id_: str, approval: StandingApproval, tenant: str, now_ms: int) -> ApprovalRow:
    """What somebody has said beforehand, how often it was used, and whether it stands for more."""
    return {
        "approval": id_,
        "tenant": tenant,
        "tool": approval.tool,
        "when": msgspec.to_builtins(approval.when),
        "workflow": approval.workflow,
        "run_id": approval.run,
        "state": _state(approval, now_ms),
        "used": approval.used,
        "most": approval.most,
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
