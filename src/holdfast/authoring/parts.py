"""Ready-made parts of a typed state, and the result of a node that says more than its patch.

Names, fields and defaults are those of "Agent Workflow Orchestration" (§6, §8, §21, §24). Never here: what follows from them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field

RiskLevel: TypeAlias = Literal["low", "medium", "high", "critical"]


class EvidenceRef(BaseModel):
    """Something that was found, and where: the state keeps the reference, not the document."""

    evidence_id: str
    """Id of the evidence."""
    source_id: str
    """Id of the document or source."""
    chunk_id: str | None = None
    """Id of the passage in the source."""
    summary: str
    """Summary of the evidence."""
    authority: str | None = None
    """Authority of the source, in your own words."""
    confidence: float | None = None
    """Confidence in the evidence, on your own scale."""


class ApprovalState(BaseModel):
    """The status of an approval that something waits for."""

    approval_id: str | None = None
    """Id of the approval."""
    required: bool = False
    """True if an approval is required."""
    status: Literal["not_required", "pending", "approved", "rejected"] = "not_required"
    """Status of the approval."""
    approver_id: str | None = None
    """Person who decided."""
    reason: str | None = None
    """Reason of the decision."""


class WorkflowBudget(BaseModel):
    """The limits of a run, as data of its state. A run is held to its limits by the workflow (`Workflow(max_tokens=…)`)."""

    max_wall_time_seconds: int
    """Limit on the time since the start, in seconds."""
    max_model_calls: int
    """Limit on model calls."""
    max_tool_calls: int
    """Limit on tool calls."""
    max_tokens: int
    """Limit on tokens, input and output together."""
    max_cost_usd: float
    """Limit on cost, in dollars."""


class WorkflowError(BaseModel):
    """An error of a node, as data of the state; the run's own record of it is `state.errors`."""

    node_name: str
    """Name of the node."""
    error_type: str
    """Class of the error."""
    message: str
    """Message of the error."""
    retryable: bool
    """True if another attempt may help."""
    occurred_at: str
    """Time of the error."""
    tool_name: str | None = None
    """Name of the tool that failed, if one did."""


class NodeResult(BaseModel):
    """The result of a task that decides more than its patch of the state: how the attempt ends, and where the run goes on."""

    state_patch: dict[str, Any] = Field(default_factory=dict)
    """Output of the step: fields of the typed state to update."""
    next_node: str | None = None
    """Successor to go on to; by default all that the edges allow."""
    status: Literal["ok", "retryable_error", "fatal_error", "waiting", "completed"] = "ok"
    """End of the attempt: `ok` goes on, `completed` ends this path, `retryable_error` fails the attempt, `fatal_error` fails
    the step, `waiting` asks a person."""
    error: str | None = None
    """Message of the error, or the question to the person."""
    trace: dict[str, Any] = Field(default_factory=dict)
    """Notes for the history, beside the output."""
