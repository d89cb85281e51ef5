"""Versions of shared values. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from holdfast.core.nouns.memory import Kind
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.memory import Memory
    from holdfast.core.nouns.shared_values import SharedValue


class MemoryRow(TypedDict):
    """A memory of an agent."""

    key: Annotated[str, doc("Its id.")]
    kind: Annotated[Kind, doc("Kind of memory.")]
    text: Annotated[str, doc("Text that the agent remembers.")]
    importance: Annotated[float, doc("From 0 to 1, as it was given.")]
    relevance: Annotated[float, doc("From 0 to 1: computed from its importance, its age and its use.")]
    source: Annotated[str, doc("Source of the memory, like a person, a tool or a model.")]
    trusted: Annotated[bool, doc("False if it comes from a tool, a model or an unknown author.")]
    metadata: Annotated[dict[str, Any], doc("Data that was stored with it.")]
    at: Annotated[Time, doc("When it was written.")]
    uses: Annotated[int, doc("Number of times that it was recalled.")]
    used_at: Annotated[Time | None, doc("When it was last recalled.")]


class SharedValueRow(TypedDict):
    """A version of a shared value."""

    tenant: field.Tenant
    space: Annotated[str, doc("Space of the shared value, in which its key is unique.")]
    key: Annotated[str, doc("Key of the shared value in its space.")]
    version: Annotated[int, doc("The first version is 1.")]
    value: Annotated[Any, doc("The value, any JSON.")]
    by: Annotated[str, doc("The person, program or step that wrote it.")]
    run_id: Annotated[str | None, doc("The run in which it was written.")]
    at: Annotated[Time, doc("When it was written.")]


def of_memory(memory: Memory) -> MemoryRow:
    """Return the row of a memory, with its current relevance from 0 to 1, and the number of its uses."""
    return {
        "key": memory.key,
        "kind": memory.kind,
        "text": memory.text,
        "importance": memory.importance,
        "relevance": memory.relevance,
        "source": memory.source,
        "trusted": memory.trusted,
        "metadata": memory.metadata,
        "at": iso(memory.at_ms),
        "uses": memory.uses,
        "used_at": iso(memory.used_at_ms or None),
    }


def of_shared_value(tenant: str, space: str, key: str, version: SharedValue) -> SharedValueRow:
    """A version, by whom it was written, and in which run, if it was in one."""
    return {
        "tenant": tenant,
        "space": space,
        "key": key,
        "version": version.version,
        "value": version.value,
        "by": version.by,
        "run_id": version.run,
        "at": iso(version.at_ms),
    }
