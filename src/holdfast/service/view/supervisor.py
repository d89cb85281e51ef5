"""Supervisors and their workers. Never here: printing, who may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.nouns import supervision

if TYPE_CHECKING:
    from holdfast.core.nouns.supervision import Supervisor


def of_supervisor(supervisor: Supervisor) -> dict[str, Any]:
    """A supervisor in a list: its load, how many tasks wait, who its workers are and which workflows do its tasks."""
    return {
        "name": supervisor.name,
        "tenant": supervisor.tenant,
        "system_load": round(supervisor.load, 3),
        "queue_size": len(supervisor.queue),
        "max_queue": supervisor.max_queue,
        "workers": [worker.name for worker in supervisor.workers],
        "workflows": sorted({worker.workflow for worker in supervisor.workers}),
    }


def of_dashboard(supervisor: Supervisor, now_ms: int) -> dict[str, Any]:
    """The same with how each of its workers stands."""
    found: dict[str, Any] = msgspec.to_builtins(supervision.dashboard(supervisor, now_ms))
    return {**of_supervisor(supervisor), **found}
