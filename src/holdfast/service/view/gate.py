"""Gates in lists. Never here: printing, all that a gate shows (service.gate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.views.projection import GateChange, GateRow


def of_gate(row: GateRow, change: GateChange | None) -> dict[str, Any]:
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
        "risk_level": row.risk_level,
        "quorum": row.quorum,
        "approved_by": list((change.approved_by if change is not None else None) or ()),
        "reminders": (change.reminders if change is not None else None) or 0,
        "decision": change.decision if change is not None else None,
        "by": change.by if change is not None else None,
    }
