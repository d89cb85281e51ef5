"""Guards that many workflows want: the two of "Agent Workflow Orchestration" §9, by the names that they have there.

They read the workflow's typed state and fail closed: what is not known is not allowed. Never here: who asks a guard, and when
(core.rules.readiness).
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.authoring.values.view import StateView
from holdfast.errors import TransitionDenied, UsageError

_HARMLESS: Final = ("low", "medium")


def require_evidence(state: StateView) -> None:
    """Allow a transition only with evidence: the field `evidence` of the workflow's state is not empty.

    Args:
        state: State of the run, as a guard gets it.

    Raises:
        TransitionDenied: The field is empty.
        UsageError: The state has no such field.
    """
    if not _field(state, "evidence"):
        raise TransitionDenied("There is no evidence, and nothing is drafted without it.")


def require_approval_for_high_risk(state: StateView) -> None:
    """Allow work of high or critical risk only when it is approved: `risk_level` of the workflow's state is `low` or `medium`,
    or `approval.status` is `approved`. A missing risk counts as high.

    Args:
        state: State of the run, as a guard gets it.

    Raises:
        TransitionDenied: The risk is high and nothing is approved.
        UsageError: The state has no such fields.
    """
    risk, approval = _field(state, "risk_level"), _field(state, "approval")
    risk = getattr(risk, "value", risk)
    status = approval.get("status") if isinstance(approval, dict) else getattr(approval, "status", None)
    if risk not in _HARMLESS and getattr(status, "value", status) != "approved":
        raise TransitionDenied(f"The risk is {risk or 'not known'}, so this needs an approval, and has none.")


def _field(state: StateView, name: str) -> Any:
    """Return a field of the workflow's state; None if it has not been set."""
    data = state.data
    if name not in type(data).model_fields:
        raise UsageError(f"This guard reads the field {name!r} of the state, and {type(data).__name__} has none.")
    return getattr(data, name, None)
