"""The public face: what a user imports is exactly this, and importing it stays cheap."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast

PUBLIC = [
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


FACES = ("holdfast", "holdfast.client", "holdfast.sync", "holdfast.testing")


def described(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module, and the members of its classes that Holdfast defines."""
    face = importlib.import_module(module)
    for name in face.__all__:
        thing = getattr(face, name)
        yield f"{module}.{name}", thing
        if inspect.isclass(thing):
            owners = [each for each in thing.__mro__ if each.__module__.startswith("holdfast")]
            for member in sorted({each for owner in owners for each in vars(owner) if not each.startswith("_")}):
                found = inspect.getattr_static(thing, member)
                if inspect.isroutine(found) or isinstance(found, property):
                    yield f"{module}.{name}.{member}", getattr(thing, member)


@pytest.mark.parametrize("module", FACES)
def test_help_shows_a_docstring_and_a_true_signature_of_each_public_name(module: str) -> None:
    silent = [name for name, thing in described(module) if "@overload" in (inspect.getdoc(thing) or "@overload")]
    assert silent == []
    vague = [
        name for name, thing in described(module) if inspect.isroutine(thing) and "**kwds" in str(inspect.signature(thing))
    ]
    assert vague == []


def test_help_lists_the_options_of_an_operation() -> None:
    options = inspect.signature(holdfast.Context.agent).parameters
    assert {"system", "max_tokens", "tools", "max_turns", "output"} <= options.keys()
    assert "max_parallel: 'int' = ..." in str(inspect.signature(holdfast.Context.map))
    assert not any(each.kind is each.VAR_KEYWORD for each in inspect.signature(holdfast.Context.child).parameters.values())


def test_help_says_what_a_call_that_blocks_returns() -> None:
    from holdfast import sync

    assert inspect.signature(sync.open).return_annotation == "Engine"
    assert str(inspect.signature(sync.Engine.watch_stream).return_annotation).startswith("Iterator[")
    signatures = {name: str(inspect.signature(each)) for name, each in described("holdfast.sync") if inspect.isfunction(each)}
    assert len(signatures) > 100
    assert [name for name, signature in signatures.items() if "-> Async" in signature or "-> 'Async" in signature] == []


@pytest.mark.parametrize("module", FACES)
def test_dir_lists_the_public_names_before_they_are_used(module: str) -> None:
    program = f"import {module} as face; print(*(set(face.__all__) - set(dir(face))), *(set(dir(face)) & {{'Any', 'Final'}}))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"


def test_former_names_of_ports_still_work_and_warn() -> None:
    ports = importlib.import_module("holdfast.ports")
    for former, name in ports._RENAMED.items():
        with pytest.warns(DeprecationWarning, match=f"holdfast.ports.{former} has become {name}"):
            assert getattr(ports, former) is getattr(ports, name)
    with pytest.raises(AttributeError):
        ports.NoSuchPort  # noqa: B018
