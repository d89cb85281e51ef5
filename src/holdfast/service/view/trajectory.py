"""The path of a run and its trace. Never here: judging it, printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict, cast

import msgspec

from holdfast.core.values.money import usd
from holdfast.core.views.span_parts import SpanKind
from holdfast.core.views.trajectory import TraceType
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.views.projection import RunRow
    from holdfast.core.views.span_parts import Span
    from holdfast.core.views.status import Status
    from holdfast.core.views.trajectory import TraceEvent, Trajectory


class TraceRow(TypedDict):
    """A thing that happened at a node of a run, without what its data says."""

    trace_id: Annotated[str, doc("Trace of the request that started the run, or the run at the top of the tree.")]
    run_id: field.RunId
    seq: field.Seq
    step_number: Annotated[int, doc("Number of attempts of steps that had begun.")]
    node_name: field.Node
    event_type: Annotated[TraceType, doc("Type of event: a `checkpoint` is a stored outcome, an `interrupt` is a wait.")]
    state_summary: Annotated[dict[str, Any], doc("The shape of the run's state: types, sizes and field names.")]
    input_summary: Annotated[dict[str, Any], doc("The shape of the input.")]
    output_summary: Annotated[dict[str, Any], doc("The shape of the output.")]
    latency_ms: Annotated[int | None, doc("Duration in milliseconds; of a retry, the time until it is due.")]
    token_usage: Annotated[dict[str, int], doc("Tokens by kind: `input`, `output`.")]
    at: Annotated[Time, doc("Time at which it happened.")]
    cost_estimate: Annotated[Dollars | None, doc("Dollars that the call has cost; null if it was none.")]


class LinkRow(TypedDict):
    """A span that another continues."""

    trace_id: Annotated[str, doc("Its trace.")]
    span_id: Annotated[str, doc("Its id.")]


class SpanRow(TypedDict):
    """Something in a run that took time, without its data. Ids are those of the exported span."""

    trace_id: Annotated[str, doc("Id of the trace, 32 hexadecimal digits.")]
    span_id: Annotated[str, doc("Id of the span, 16 hexadecimal digits; the same whenever it is derived.")]
    parent_id: Annotated[str | None, doc("Id of the span around it; null for the first of a trace.")]
    run_id: field.RunId
    tenant: Annotated[str, doc("Tenant of the run.")]
    version: Annotated[int, doc("Version of the run's workflow.")]
    kind: Annotated[SpanKind, doc("Kind of the span: `run` and `step` are parts between waits.")]
    name: Annotated[str, doc("Name of the workflow, node, model, tool, function or wait.")]
    seq: Annotated[int, doc("Number of the event that ended it; of an open one, the next number.")]
    began_at: Annotated[Time, doc("Time at which it began.")]
    ended_at: Annotated[Time | None, doc("Time at which it ended; null if it is open.")]
    took_ms: Annotated[int | None, doc("Duration in milliseconds; null if it is open.")]
    outcome: Annotated[str, doc("Outcome: `completed`, `failed`, `lost`, `waiting`, a decision, or `open`.")]
    error_class: Annotated[str | None, doc("Class of the error with which it ended; null for none.")]
    cost_usd: Annotated[Dollars | None, doc("Dollars that the calls in it have cost; null for none.")]
    facts: Annotated[dict[str, Any], doc("Numbers and names: step, attempt, model, tokens, kind of wait and so on.")]
    links: Annotated[list[LinkRow], doc("Spans that it continues.")]


class VisitRow(TypedDict):
    """A node that a run came to."""

    node: field.Node
    seq: field.Seq
    became: Annotated[
        Literal["completed", "failed", "cancelled"] | None, doc("Status with which the visit ended; null if it has not.")
    ]
    decisions: Annotated[list[str], doc("The edges that it chose.")]


class TransitionRow(TypedDict):
    """An edge that a run took."""

    source: Annotated[str, doc("Name of the node that the edge leaves.")]
    target: Annotated[str, doc("Name of the node that the edge leads to.")]
    seq: field.Seq


class AskedRow(TypedDict):
    """A question to a person."""

    gate: field.GateId
    node: Annotated[str, doc("The node that asked; empty for the engine's questions about the run.")]
    reason: Annotated[str, doc("Reason of the gate, as a code: `approval`, `question`, `tool_approval`.")]
    seq: field.Seq
    decision: Annotated[str | None, doc("Decision of the gate; null before there is one.")]
    decided_seq: Annotated[int | None, doc("The number of the event of the decision.")]


class ToolUseRow(TypedDict):
    """A tool call that a step asked for."""

    node: field.Node
    tool: field.Tool
    args_hash: Annotated[str, doc("Hash of the arguments, by which equal calls are found.")]
    seq: field.Seq
    how: Annotated[
        Literal["called", "reused", "denied"], doc("`reused` if its outcome was known; `denied` if it was not made.")
    ]


class TrajectoryRow(TypedDict):
    """The path of a run."""

    run: field.RunId
    workflow: field.Workflow
    status: field.Status
    visits: Annotated[list[VisitRow], doc("Visits of nodes, in the order in which the run came to them.")]
    transitions: Annotated[list[TransitionRow], doc("Edges that the run took, in this order.")]
    approvals: Annotated[list[AskedRow], doc("Questions to people, in the order in which they were asked.")]
    tools: Annotated[list[ToolUseRow], doc("Tool calls that steps asked for, in this order.")]
    retries: Annotated[int, doc("Number of retries of anything that had failed.")]
    holds: Annotated[int, doc("Number of times that money was reserved for a call.")]
    model_calls: Annotated[int, doc("Number of model calls.")]
    tool_calls: Annotated[int, doc("Number of tool calls.")]
    tokens: Annotated[int, doc("Tokens that the calls have used, input and output together.")]
    duration_ms: Annotated[int, doc("Time from the start to the end, or to the latest event, in milliseconds.")]
    nodes: Annotated[list[str], doc("The nodes in the order of their visits, without items of maps.")]
    cost_usd: field.CostUsd


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


_MONEY: Final = {"cost_nanousd": "cost_usd", "run_cost_nanousd": "run_cost_usd", "in_doubt_nanousd": "in_doubt_usd"}


def of_span(span: Span, run: RunRow) -> SpanRow:
    """Return a span without the process in which it was: the machines are their operator's affair."""
    facts = {name: value for name, value in span.facts.items() if name not in _MONEY and name != "session"}
    facts |= {shown: usd(span.facts[name]) for name, shown in _MONEY.items() if name in span.facts}
    cost = facts.pop("cost_usd", None)
    is_open = span.ended_at_ms is None
    return {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id or None,
        "run_id": run.run,
        "tenant": run.tenant,
        "version": run.version,
        "kind": span.kind,
        "name": span.name,
        "seq": span.seq,
        "began_at": iso(span.began_at_ms),
        "ended_at": iso(span.ended_at_ms),
        "took_ms": None if is_open else span.took_ms,
        "outcome": span.outcome,
        "error_class": span.error or None,
        "cost_usd": cost,
        "facts": facts,
        "links": [{"trace_id": trace_id, "span_id": id_} for trace_id, id_ in span.links],
    }


def of_trajectory(path: Trajectory) -> TrajectoryRow:
    """The whole path; its cost in dollars."""
    return {
        "run": path.run,
        "workflow": path.workflow,
        "status": cast("Status", path.status),
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
