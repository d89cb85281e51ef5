"""What a negotiation is called outside: its status is its position in the graph, read from its run and kept nowhere else.

Never here: changing anything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from examples.negotiation.workflow import STRATEGIES
from holdfast.core.facts.state import State
from holdfast.core.values.ids import node_of
from holdfast.core.views.status import status, waiting_for

POSITIONS = {
    "ingest": "INGESTING",
    "classify": "CLASSIFYING",
    "route": "ROUTING",
    **dict.fromkeys(STRATEGIES, "NEGOTIATING"),
    "evaluate": "EVALUATING",
    "approval": "PENDING_APPROVAL",
    "award": "AWARDING",
    "close": "CLOSING",
}
TRIGGERS = {"approval_timeout": 3, "negotiation_total_timeout": 16}
"""The `entry_trigger` codes of REQUIRES_ATTENTION, with the numbers of the document."""
_REASONS = {"gate_stale_limit_exceeded": "approval_stale_7day_limit_exceeded"}


class Standing(NamedTuple):
    """Where a negotiation is. `entry_trigger` says why somebody is summoned, `reason` why it ended without an award."""

    status: str
    strategy: str | None = None
    entry_trigger: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return " ".join(each for each in (self.status, self.entry_trigger or self.reason) if each)


def standing(state: State) -> Standing:
    strategy = _strategy(state)
    if state.ended:
        return _ended(state, strategy)
    if state.awaits is not None:
        return Standing("QUEUED")
    if status(state) == "requires_attention":
        reasons = {wait.reason for wait in waiting_for(state) if wait.kind == "gate"}
        trigger = "negotiation_total_timeout" if "lifespan" in reasons else "approval_timeout"
        return Standing("REQUIRES_ATTENTION", strategy, trigger)
    positions = [POSITIONS[name] for name in state.unfinished if name in POSITIONS]
    return Standing(positions[0] if positions else "ACTIVE", strategy)


def _ended(state: State, strategy: str | None) -> Standing:
    award = state.steps.get("award")  # type: ignore[call-overload]
    if state.ended == "completed" and award is not None and award.status == "completed":
        return Standing("AWARDED", strategy)
    if state.ended == "failed":
        return Standing("FAILED", strategy, None, state.error.message if state.error else None)
    reason = state.reason or "rejected"
    return Standing("CANCELLED", strategy, None, _REASONS.get(reason, reason))


def _strategy(state: State) -> str | None:
    begun: list[Any] = [node_of(step.id) for step in state.steps.values() if step.status != "skipped"]
    return next((name for name in begun if name in STRATEGIES), None)
