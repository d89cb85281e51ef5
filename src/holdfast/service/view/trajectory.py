"""The path of a run and its trace. Never here: judging it, printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.values.money import usd
from holdfast.service.view.plain import iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.views.trajectory import TraceEvent, Trajectory


def of_trace(event: TraceEvent) -> dict[str, Any]:
    """A trace event under the names of "Agent Workflow Orchestration"; its cost in dollars."""
    found = {name: getattr(event, name) for name in event.__struct_fields__}
    del found["at_ms"], found["cost_nanousd"]
    return {**found, "at": iso(event.at_ms), "cost_estimate": maybe_usd(event.cost_nanousd)}


def of_trajectory(path: Trajectory) -> dict[str, Any]:
    """The whole path; its cost in dollars."""
    found: dict[str, Any] = msgspec.to_builtins(path)
    del found["cost_nanousd"]
    return {**found, "nodes": list(path.nodes), "cost_usd": usd(path.cost_nanousd)}
