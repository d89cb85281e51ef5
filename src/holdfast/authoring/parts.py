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
    source_id: str
    chunk_id: str | None = None
    summary: str
    authority: str | None = None
    confidence: float | None = None


class ApprovalState(BaseModel):
    """The status of an approval that something waits for."""

    approval_id: str | None = None
    required: bool = False
    status: Literal["not_required", "pending", "approved", "rejected"] = "not_required"
    approver_id: str | None = None
    reason: str | None = None


class WorkflowBudget(BaseModel):
    """The limits of a run, as data of its state. A run is held to its limits by the workflow (`Workflow(max_tokens=…)`)."""

    max_wall_time_seconds: int
    max_model_calls: int
    max_tool_calls: int
    max_tokens: int
    max_cost_usd: float


class WorkflowError(BaseModel):
    """An error of a node, as data of the state; the run's own record of it is `state.errors`."""

    node_name: str
    error_type: str
    message: str
    retryable: bool
    occurred_at: str
    tool_name: str | None = None


class NodeResult(BaseModel):
    """The result of a task that says more than its patch of the state.

    `ok`: the step completes with the patch as its output, and goes on to `next_node`, one of its successors, if that is given.
    `completed`: it completes and leads nowhere: nothing begins because of it. `retryable_error`: the attempt fails with `error`
    and is tried again as after any trouble that passes. `fatal_error`: the step fails for good. `waiting`: a person is asked
    `error`; what is answered joins the patch. `trace` stands beside the output in the history.
    """

    state_patch: dict[str, Any] = Field(default_factory=dict)
    next_node: str | None = None
    status: Literal["ok", "retryable_error", "fatal_error", "waiting", "completed"] = "ok"
    error: str | None = None
    trace: dict[str, Any] = Field(default_factory=dict)
