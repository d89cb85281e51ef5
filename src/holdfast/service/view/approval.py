"""Standing approvals. Never here: printing, which call one covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.nouns.tool_policy import StandingApproval


def of_approval(id_: str, approval: StandingApproval, tenant: str, now_ms: int) -> dict[str, Any]:
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


def _state(approval: StandingApproval, now_ms: int) -> str:
    if approval.revoked_by is not None:
        return "revoked"
    return "stands" if approval.stands(now_ms) else "used_up" if approval.left == 0 else "over"
