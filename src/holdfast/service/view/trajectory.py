"""The path of a run and its trace. Never here: judging it, printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from holdfast.core.values.money import usd
from holdfast.core.views.trajectory import TraceType
from holdfast.service.view.plain import Dollars, Time, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.views.trajectory import TraceEvent, Trajectory


class TraceRow(TypedDict):
    """A thing that happened at a node of a run, without what its data says."""

    trace_id: str
    run_id: str
    seq: Annotated[int, Meta(description="The number of its event.")]
    step_number: Annotated[int, Meta(description="How many attempts of steps had begun.")]
    node_name: str
    event_type: TraceType
    state_summary: Annotated[dict[str, Any], Meta(description="The shape of the run's state: types, sizes and field names.")]
    input_summary: Annotated[dict[str, Any], Meta(description="The shape of the input.")]
    output_summary: Annotated[dict[str, Any], Meta(description="The shape of the output.")]
    latency_ms: Annotated[int | None, Meta(description="How long it took, in milliseconds; of a retry, until it is due.")]
    token_usage: Annotated[dict[str, int], Meta(description="Tokens by kind: `input`, `output`.")]
    at: Time
    cost_estimate: Dollars | None


class VisitRow(TypedDict):
    """A node that a run came to."""

    node: str
    seq: Annotated[int, Meta(description="The number of its event.")]
    became: Literal["completed", "failed", "cancelled"] | None
    decisions: Annotated[list[str], Meta(description="The edges that it chose.")]


class TransitionRow(TypedDict):
    """An edge that a run took."""

    source: str
    target: str
    seq: Annotated[int, Meta(description="The number of its event.")]


class AskedRow(TypedDict):
    """A question to a person."""

    gate: str
    node: Annotated[str, Meta(description="The node that asked; empty for the engine's questions about the run.")]
    reason: str
    seq: Annotated[int, Meta(description="The number of its event.")]
    decision: str | None
    decided_seq: Annotated[int | None, Meta(description="The number of the event of the decision.")]


class ToolUseRow(TypedDict):
    """A tool call that a step asked for."""

    node: str
    tool: str
    args_hash: str
    seq: Annotated[int, Meta(description="The number of its event.")]
    how: Annotated[
        Literal["called", "reused", "denied"],
        Meta(description="`reused` if its outcome was known; `denied` if it was not made."),
    ]


class TrajectoryRow(TypedDict):
    """The path of a run."""

    run: str
    workflow: str
    status: str
    visits: list[VisitRow]
    transitions: list[TransitionRow]
    approvals: list[AskedRow]
    tools: list[ToolUseRow]
    retries: Annotated[int, Meta(description="How often something that had failed was tried again.")]
    holds: Annotated[int, Meta(description="How often money was reserved for a call.")]
    model_calls: int
    tool_calls: int
    tokens: int
    duration_ms: int
    nodes: Annotated[list[str], Meta(description="The nodes in the order of their visits, without items of maps.")]
    cost_usd: Dollars


def of_trace(event: TraceEvent) -> TraceRow:
    """A trace event under the names of "Agent Workflow Orchestration"; its cost in dollars."""
    return {
        "trace_id": event.trace_id,
        "run_id": event.run_id,
        "seq": event.seq,
        "step_number": event.step_number,
        "node_name": event.node_name,
        "event_type": event.event_type,
        "state_summary": event.state_summary,
        "input_summary": event.input_summary,
        "output_summary": event.output_summary,
        "latency_ms": event.latency_ms,
        "token_usage": event.token_usage,
        "at": iso(event.at_ms),
        "cost_estimate": maybe_usd(event.cost_nanousd),
    }


def of_trajectory(path: Trajectory) -> TrajectoryRow:
    """The whole path; its cost in dollars."""
    return {
        "run": path.run,
        "workflow": path.workflow,
        "status": path.status,
        "visits": msgspec.to_builtins(path.visits),
        "transitions": msgspec.to_builtins(path.transitions),
        "approvals": msgspec.to_builtins(path.approvals),
        "tools": msgspec.to_builtins(path.tools),
        "retries": path.retries,
        "holds": path.holds,
        "model_calls": path.model_calls,
        "tool_calls": path.tool_calls,
        "tokens": path.tokens,
        "duration_ms": path.duration_ms,
        "nodes": list(path.nodes),
        "cost_usd": usd(path.cost_nanousd),
    }
