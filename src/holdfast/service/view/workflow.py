"""Workflows that a store knows. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.ports import WorkflowRecord
from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.engine.runs.stored_workflow import StoredWorkflow


def of_workflow(workflow: WorkflowRecord | StoredWorkflow, processes: int) -> dict[str, Any]:
    """A workflow as lists show it; `processes` are those that live and can run it."""
    return {
        "workflow": workflow.name,
        "version": workflow.version,
        "graph_hash": workflow.graph_hash if isinstance(workflow, WorkflowRecord) else workflow.hash,
        "tenant": workflow.tenant,
        "loaded_at": iso(workflow.loaded_at_ms),
        "processes": processes,
    }


def of_workflow_whole(workflow: StoredWorkflow, processes: int) -> dict[str, Any]:
    """A workflow with its definition and what its input must fit."""
    return {
        **of_workflow(workflow, processes),
        "input_schema": workflow.input_schema,
        "definition": msgspec.to_builtins(workflow.graph.definition),
    }
