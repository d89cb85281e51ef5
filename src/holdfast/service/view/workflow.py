"""Workflows that a store knows. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from holdfast.ports import WorkflowRecord
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.engine.runs.stored_workflow import StoredWorkflow


JsonSchema: TypeAlias = Annotated[dict[str, Any], Meta(title="JsonSchema")]


class WorkflowRow(TypedDict):
    """A version of a workflow."""

    workflow: field.Workflow
    version: field.Version
    graph_hash: Annotated[str, doc("The hash of its definition.")]
    tenant: Annotated[str | None, doc("The tenant that submitted its file; null for code.")]
    loaded_at: Annotated[Time | None, doc("When a process first loaded this definition, if it is known.")]
    processes: Annotated[int, doc("Number of living processes that can run it.")]
    talks: Annotated[bool, doc("True for an agent: its input is a chat, so that you can open a conversation with it.")]


class WorkflowWhole(WorkflowRow):
    """A version of a workflow with its definition."""

    input_schema: Annotated[JsonSchema | None, doc("The JSON Schema of its input; null for anything.")]
    definition: Annotated[dict[str, Any], doc("Its nodes, edges and limits.")]


def of_workflow(workflow: WorkflowRecord | StoredWorkflow, processes: int) -> WorkflowRow:
    """A workflow as lists show it; `processes` are those that live and can run it."""
    return {
        "workflow": workflow.name,
        "version": workflow.version,
        "graph_hash": workflow.graph_hash if isinstance(workflow, WorkflowRecord) else workflow.hash,
        "tenant": workflow.tenant,
        "loaded_at": iso(workflow.loaded_at_ms),
        "processes": processes,
        "talks": _talks(workflow.input_schema),
    }


_MESSAGE: Final = {"conversation": "", "messages": [{"role": "user", "text": "?"}]}


def _talks(schema: bytes | dict[str, Any] | None) -> bool:
    """True if a message to an agent fits the schema of a workflow's input, and the schema asks for one."""
    known = msgspec.json.decode(schema) if isinstance(schema, bytes) else schema
    if not isinstance(known, dict) or "messages" not in known.get("required", ()):
        return False
    from holdfast.core.values import schema as schemas  # noqa: PLC0415 - the validator takes 30 ms to load

    try:
        return not schemas.problems(known, _MESSAGE, looks=_MAX_LOOKS)
    except schemas.TooMuch:
        return False


_MAX_LOOKS: Final = 1_000
"""At a message, of few fields."""


def of_workflow_whole(workflow: StoredWorkflow, processes: int) -> WorkflowWhole:
    """A workflow with its definition and what its input must fit."""
    return {
        **of_workflow(workflow, processes),
        "input_schema": workflow.shown_input_schema,
        "definition": msgspec.to_builtins(workflow.graph.definition),
    }
