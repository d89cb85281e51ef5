"""Holdfast is durable execution for LLM agents. Its runs survive crashes, wait weeks for human approval, and stop before
they exceed a hard budget.

Import everything that you use from here. A workflow in a file, say greet.py:

    from holdfast import Context, flow, step

    @step
    def greeting(name: str) -> str:
        return f"Hello, {name}!"

    @flow
    async def greet(ctx: Context, name: str) -> str:
        return await greeting(name)

Run it with `holdfast run greet.py:greet -i '"Ada"'`, or in Python with `Engine` or `holdfast.sync`.
"""

# Each name is loaded when it is first asked for, so that a file which only defines a workflow stays quick to import, and the
# command line answers at once.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast import sync as sync
    from holdfast.authoring.agents.cache import SemanticCache
    from holdfast.authoring.agents.chat import Chat
    from holdfast.authoring.agents.embedder import LocalEmbedder, ModelEmbedder
    from holdfast.authoring.agents.memory import memory_tools
    from holdfast.authoring.agents.offer import Handoff
    from holdfast.authoring.agents.router import Router
    from holdfast.authoring.child import ChildHandle, ChildOutcome
    from holdfast.authoring.context import Answer, Context
    from holdfast.authoring.flow import Flow, flow
    from holdfast.authoring.guards import require_approval_for_high_risk, require_evidence
    from holdfast.authoring.mapping import map_node
    from holdfast.authoring.node import branch, check, child, human_gate, llm_node, remote_task, task, tool_node
    from holdfast.authoring.parts import ApprovalState, EvidenceRef, NodeResult, WorkflowBudget, WorkflowError
    from holdfast.authoring.signal import Signal
    from holdfast.authoring.step import step
    from holdfast.authoring.tool import Tool, tool
    from holdfast.authoring.values.content import Audio, Document, Image
    from holdfast.authoring.values.sensitive import Sensitive
    from holdfast.authoring.values.view import Fields, NodeView, StateView
    from holdfast.authoring.workflow import Workflow
    from holdfast.compose import Engine
    from holdfast.core.facts.graph import Join
    from holdfast.core.nouns.routing import Complexity, RoutedModel
    from holdfast.core.nouns.supervision import Accepted, Rejected
    from holdfast.core.nouns.team_budgets import TeamAgent
    from holdfast.core.nouns.tool_policy import ToolRule, When
    from holdfast.core.values.actor import Actor
    from holdfast.core.values.demand import Demand
    from holdfast.core.values.policies import ErrorRecord, RetryPolicy
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
    from holdfast.platform.log_filter import LogFilter
    from holdfast.service.control.command import GateDecision
    from holdfast.service.control.gate import Gate
    from holdfast.service.control.handle import Run
    from holdfast.service.control.supervisor import Supervisor, TaskResult, WorkerAgent
    from holdfast.sync.guard import Budget, budget, capped
    from holdfast.tools.http import http_lookup, http_tool, secret

__version__ = "0.2.0.dev0"

__all__ = [
    "Accepted",
    "Actor",
    "Answer",
    "ApprovalState",
    "Audio",
    "Budget",
    "Chat",
    "ChildHandle",
    "ChildOutcome",
    "Complexity",
    "Context",
    "Demand",
    "Document",
    "Engine",
    "ErrorRecord",
    "EvidenceRef",
    "Fields",
    "Flow",
    "Gate",
    "GateDecision",
    "Handoff",
    "HoldfastError",
    "Image",
    "InvalidWorkflow",
    "Join",
    "LocalEmbedder",
    "LogFilter",
    "ModelEmbedder",
    "NodeResult",
    "NodeView",
    "NonDeterministicStep",
    "OperationFailed",
    "OutcomeUnknown",
    "Rejected",
    "RetryPolicy",
    "RoutedModel",
    "Router",
    "Run",
    "RunFailed",
    "SemanticCache",
    "Sensitive",
    "Signal",
    "StateView",
    "Supervisor",
    "TaskResult",
    "TeamAgent",
    "Tool",
    "ToolFailed",
    "ToolRule",
    "TransitionDenied",
    "When",
    "WorkerAgent",
    "Workflow",
    "WorkflowBudget",
    "WorkflowError",
    "branch",
    "budget",
    "capped",
    "check",
    "child",
    "flow",
    "http_lookup",
    "http_tool",
    "human_gate",
    "llm_node",
    "map_node",
    "memory_tools",
    "remote_task",
    "require_approval_for_high_risk",
    "require_evidence",
    "secret",
    "step",
    "task",
    "tool",
    "tool_node",
]

_HOMES: Final = {
    "authoring.agents.cache": ("SemanticCache",),
    "authoring.agents.chat": ("Chat",),
    "authoring.child": ("ChildHandle", "ChildOutcome"),
    "authoring.values.content": ("Audio", "Document", "Image"),
    "authoring.context": ("Answer", "Context"),
    "authoring.agents.embedder": ("LocalEmbedder", "ModelEmbedder"),
    "authoring.flow": ("Flow", "flow"),
    "authoring.guards": ("require_approval_for_high_risk", "require_evidence"),
    "authoring.mapping": ("map_node",),
    "authoring.agents.memory": ("memory_tools",),
    "authoring.node": ("branch", "check", "child", "human_gate", "llm_node", "remote_task", "task", "tool_node"),
    "authoring.agents.offer": ("Handoff",),
    "authoring.parts": ("ApprovalState", "EvidenceRef", "NodeResult", "WorkflowBudget", "WorkflowError"),
    "authoring.agents.router": ("Router",),
    "authoring.values.sensitive": ("Sensitive",),
    "authoring.signal": ("Signal",),
    "authoring.step": ("step",),
    "authoring.tool": ("Tool", "tool"),
    "authoring.values.view": ("Fields", "NodeView", "StateView"),
    "authoring.workflow": ("Workflow",),
    "compose": ("Engine",),
    "service.control.command": ("GateDecision",),
    "service.control.gate": ("Gate",),
    "service.control.handle": ("Run",),
    "service.control.supervisor": ("Supervisor", "TaskResult", "WorkerAgent"),
    "core.values.actor": ("Actor",),
    "core.values.demand": ("Demand",),
    "core.facts.graph": ("Join",),
    "core.values.policies": ("ErrorRecord", "RetryPolicy"),
    "core.nouns.routing": ("Complexity", "RoutedModel"),
    "core.nouns.tool_policy": ("ToolRule", "When"),
    "core.nouns.supervision": ("Accepted", "Rejected"),
    "core.nouns.team_budgets": ("TeamAgent",),
    "errors": (
        "HoldfastError",
        "InvalidWorkflow",
        "NonDeterministicStep",
        "OperationFailed",
        "OutcomeUnknown",
        "RunFailed",
        "ToolFailed",
        "TransitionDenied",
    ),
    "platform.log_filter": ("LogFilter",),
    "sync.guard": ("Budget", "budget", "capped"),
    "tools.http": ("http_lookup", "http_tool", "secret"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return [*__all__, "sync", *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    if name == "sync":  # `import holdfast` is enough for holdfast.sync.open
        return import_module("holdfast.sync")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"holdfast.{_HOME_OF[name]}"), name)
    return found
