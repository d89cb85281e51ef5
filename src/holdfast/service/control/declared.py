"""The types that code declares for what a person gives in its place: for a step's output, an operation's outcome, a tool's
response.

A type is None if it is unknown here: the code is elsewhere, or declares none. Never here: the check and the sealing of a value
(authoring.adapter), which answers count (core).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from holdfast.authoring.mapping import MapDefinition, find_mapped
from holdfast.authoring.node import CODE, NodeDefinition
from holdfast.authoring.step import Step
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.adapter import PLAIN, Adapter, adapter_of
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.state import FUNCTION, Map, Operation
from holdfast.core.values.ids import NodeName
from holdfast.engine.runs.catalog import Catalog
from holdfast.errors import SchemaMismatch, UsageError

_OF_A_MODEL: Final = frozenset({"model", "message", "summary"})
"""The operations whose outcome a model writes: its words, which are sealed nowhere."""


class _Each(Adapter):
    """The adapter of what a map comes to: a list of what its items do, null in the place of one that failed and might."""

    is_plain = False

    def __init__(self, item: Adapter) -> None:
        self._item = item

    def sealed(self, plain: Any) -> Any:
        """See Adapter."""
        if not isinstance(plain, list):
            raise SchemaMismatch(f"A map comes to a list of what its items come to, not {type(plain).__name__}.")
        return [None if each is None else self._item.sealed(each) for each in plain]


def type_of_node(
    catalog: Catalog, graph_hash: str, name: NodeName, maps: Mapping[str, Map] = MappingProxyType({})
) -> Adapter | None:
    """Return what a step of that name comes to: a node's, or that of an item of one of `maps`."""
    found = _definition(catalog, graph_hash, name, maps)
    return None if found is None else _type_of(found)


def type_of_response(catalog: Catalog, graph_hash: str, tool: str) -> Adapter | None:
    """Return what a tool returns."""
    found = catalog.tool_of(graph_hash, tool)
    return None if found is None else found.returns


def type_of_operation(catalog: Catalog, graph_hash: str, node: NodeName, op: Operation | None) -> Adapter | None:
    """Return what an operation of a node comes to."""
    if op is None or op.kind in _OF_A_MODEL:
        return None if op is None else PLAIN
    if op.kind == "tool":
        return type_of_response(catalog, graph_hash, op.name)
    around = _definition(catalog, graph_hash, node, {}) if op.kind == FUNCTION else None
    if around is None:
        return None
    found = around.item_functions.get(op.name) or find_mapped(op.name, around.handler)
    return found.returns if isinstance(found, Step | Tool) else None


def _definition(catalog: Catalog, graph_hash: str, name: NodeName, maps: Mapping[str, Map]) -> NodeDefinition | None:
    workflow = catalog.workflows.get(graph_hash)
    try:
        return None if workflow is None else workflow.definition_of(name, maps)
    except (KeyError, UsageError):  # the code has no such node, or not any more what an item was done by
        return None


def _type_of(definition: NodeDefinition) -> Adapter | None:
    if isinstance(definition, MapDefinition):
        each = _type_of(definition.each)
        return None if each is None else _Each(each)
    if definition.kind == "tool_node":
        return next((tool.returns for tool in definition.tools.values()), None)
    if definition.kind == "llm_node":
        output = definition.settings.get("output")
        return PLAIN if output is None else adapter_of(output)
    if definition.kind == "child":
        code = definition.settings.get(CODE)
        # A graph does not declare what it returns.
        return code.returns if isinstance(code, Workflow) and code.returns is not PLAIN else None
    return definition.returns
