"""Versions of shared values. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from holdfast.core.nouns.memory import Kind
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.nouns.memory import Memory
    from holdfast.core.nouns.shared_values import SharedValue


class MemoryRow(TypedDict):
    """A memory of an agent."""

    key: Annotated[str, Meta(description="Its id.")]
    kind: Kind
    text: str
    importance: Annotated[float, Meta(description="From 0 to 1, as it was given.")]
    relevance: Annotated[float, Meta(description="From 0 to 1: computed from its importance, its age and its use.")]
    source: Annotated[str, Meta(description="Where it comes from.")]
    trusted: Annotated[bool, Meta(description="False if it comes from a tool, a model or an unknown author.")]
    metadata: Annotated[dict[str, Any], Meta(description="Data that was stored with it.")]
    at: Annotated[Time, Meta(description="When it was written.")]
    uses: Annotated[int, Meta(description="How often it was recalled.")]
    used_at: Annotated[Time | None, Meta(description="When it was last recalled.")]


class SharedValueRow(TypedDict):
    """A version of a shared value."""

    tenant: str
    space: str
    key: str
    version: Annotated[int, Meta(description="The first version is 1.")]
    value: Annotated[Any, Meta(description="The value, any JSON.")]
    by: Annotated[str, Meta(description="The person, program or step that wrote it.")]
    run_id: Annotated[str | None, Meta(description="The run in which it was written.")]
    at: Annotated[Time, Meta(description="When it was written.")]


def of_memory(memory: Memory) -> MemoryRow:
    """What is remembered, how relevant it is now, from 0 to 1, and how often it was used."""
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
