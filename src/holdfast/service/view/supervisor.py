"""Supervisors and their workers. Never here: printing, who may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec

from holdfast.core.nouns import supervision
from holdfast.core.nouns.supervision import WorkerState
from holdfast.service.doc import doc
from holdfast.service.view import field

if TYPE_CHECKING:
    from holdfast.core.nouns.supervision import Supervisor


class SupervisorRow(TypedDict):
    """A supervisor in a list."""

    name: Annotated[str, doc("Name of the supervisor.")]
    tenant: field.Tenant
    system_load: Annotated[float, doc("The share of its workers' capacity that is in use, from 0 to 1.")]
    queue_size: Annotated[int, doc("Number of tasks that wait.")]
    max_queue: Annotated[int, doc("Maximum number of tasks that may wait.")]
    workers: Annotated[list[str], doc("The names of its workers.")]
    workflows: Annotated[list[str], doc("The workflows that do its tasks.")]


class SupervisedWorkerRow(TypedDict):
    """A worker of a supervisor."""

    state: Annotated[WorkerState, doc("`failed` while it gets no tasks after errors; `half_open` while it is tried.")]
    load: Annotated[float, doc("The share of its capacity that is in use, from 0 to 1.")]
    active: Annotated[int, doc("Number of tasks that it works on.")]
    max_concurrent: Annotated[int, doc("Maximum number of tasks that it works on at once.")]
    queued: Annotated[int, doc("Number of tasks that wait for it, or for another worker of their type.")]
    completed: Annotated[int, doc("Number of tasks that it has completed.")]
    errors: Annotated[int, doc("Number of its tasks that have failed.")]
    avg_ms: Annotated[float, doc("Average duration of its tasks in milliseconds.")]


class SupervisorWhole(TypedDict):
    """A supervisor with its workers."""

    name: Annotated[str, doc("Name of the supervisor.")]
    tenant: field.Tenant
    system_load: Annotated[float, doc("The share of its workers' capacity that is in use, from 0 to 1.")]
    queue_size: Annotated[int, doc("Number of tasks that wait.")]
    max_queue: Annotated[int, doc("Maximum number of tasks that may wait.")]
    workers: Annotated[dict[str, SupervisedWorkerRow], doc("Its workers by their names.")]
    workflows: Annotated[list[str], doc("The workflows that do its tasks.")]


def of_supervisor(supervisor: Supervisor) -> SupervisorRow:
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


def of_dashboard(supervisor: Supervisor, now_ms: int) -> SupervisorWhole:
    """The same with how each of its workers stands."""
    found = supervision.dashboard(supervisor, now_ms)
    row = of_supervisor(supervisor)
    return {
        "name": row["name"],
        "tenant": row["tenant"],
        "system_load": found.system_load,
        "queue_size": found.queue_size,
        "max_queue": found.max_queue,
        "workers": msgspec.to_builtins(found.workers),
        "workflows": row["workflows"],
    }
