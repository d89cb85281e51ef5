"""The public face: what a user imports is exactly this, and importing it stays cheap."""

from __future__ import annotations

import subprocess
import sys

import holdfast

PUBLIC = [
    "Accepted",
    "Answer",
    "ApprovalState",
    "Audio",
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
    "GateDecision",
    "Handoff",
    "HoldfastError",
    "Image",
    "InvalidWorkflow",
    "Join",
    "LocalEmbedder",
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


def test_the_public_names_are_these() -> None:
    assert sorted(holdfast.__all__) == sorted(PUBLIC)
    assert all(getattr(holdfast, name) is not None for name in PUBLIC)


def test_the_public_names_of_the_client_are_these() -> None:
    from holdfast import client

    assert sorted(client.__all__) == ["AsyncClient", "Client", "command", "query"]


def test_what_is_not_public_is_not_there() -> None:
    assert not hasattr(holdfast, "Mailbox")


def test_importing_the_face_loads_no_adapter() -> None:
    """A file that only defines a workflow must not pay for SDKs, a database or a command line."""
    program = "import sys, holdfast; print(*[m for m in ('anthropic','openai','pydantic_ai','apsw','typer','genai_prices','httpx2','jsonschema') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == ""
