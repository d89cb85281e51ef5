"""Holdfast runs agent workflows that never forget where they were, never do a completed thing twice, and never spend
above their limit.

The public face: what a user imports, nothing else. What few need is loaded when it is first asked for, so that a file
which only defines a workflow stays quick to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.authoring.context import Answer, Context
from holdfast.authoring.node import branch, check, human_gate, llm_node, remote_task, task, tool_node
from holdfast.authoring.tool import Tool, tool
from holdfast.authoring.view import Fields, NodeView, StateView
from holdfast.authoring.workflow import Workflow
from holdfast.core.demand import Demand
from holdfast.core.graph import Join
from holdfast.core.policies import ErrorRecord, RetryPolicy
from holdfast.errors import (
    HoldfastError,
    InvalidWorkflow,
    NonDeterministicStep,
    OperationFailed,
    OutcomeUnknown,
    RunFailed,
    ToolFailed,
    TransitionDenied,
)

if TYPE_CHECKING:
    from holdfast.compose import Engine
    from holdfast.control.handle import Run
    from holdfast.tools.http import http_lookup, http_tool, secret

__version__ = "0.1.0"

__all__ = [
    "Answer", "Context", "Demand", "Engine", "ErrorRecord", "Fields", "HoldfastError", "InvalidWorkflow", "Join", "NodeView",
    "NonDeterministicStep", "OperationFailed", "OutcomeUnknown", "RetryPolicy", "Run", "RunFailed", "StateView", "Tool",
    "ToolFailed", "TransitionDenied", "Workflow",
    "branch", "check", "http_lookup", "http_tool", "human_gate", "llm_node", "remote_task", "secret", "task", "tool",
    "tool_node",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from holdfast.compose import Engine  # noqa: PLC0415 - the whole point

        return Engine
    if name == "Run":
        from holdfast.control.handle import Run  # noqa: PLC0415 - the whole point

        return Run
    if name in ("http_lookup", "http_tool", "secret"):
        from holdfast.tools import http  # noqa: PLC0415 - few workflows have such tools, and none of the commands does

        return getattr(http, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
