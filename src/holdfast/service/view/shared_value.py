"""Versions of shared values. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.nouns.memory import Memory
    from holdfast.core.nouns.shared_values import SharedValue


def of_memory(memory: Memory) -> dict[str, Any]:
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


def of_shared_value(tenant: str, space: str, key: str, version: SharedValue) -> dict[str, Any]:
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
