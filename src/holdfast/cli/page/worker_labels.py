"""Labels and resources of a process, as people write them; and what a workflow asks for that no worker has.

Never here: which process runs what (the engine skips what it lacks labels for).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.core.values.demand import Resources
    from holdfast.engine.runs.stored_workflow import StoredWorkflow


def required_labels(workflow: Workflow | StoredWorkflow) -> list[str]:
    """The labels that it or one of its nodes asks for."""
    demands = workflow.graph.demands
    return sorted({*workflow.graph.definition.runs_on, *(label for demand in demands for label in demand.labels)})


def missing_labels(required: Iterable[str], labels: Collection[str]) -> list[str]:
    return [label for label in required if label not in labels]


def options(labels: Iterable[str]) -> list[str]:
    """The words of a command that give a process these labels."""
    return [word for label in sorted(set(labels)) for word in ("--label", label)]


def needed(workflow: Workflow | StoredWorkflow) -> list[str]:
    """The words of a command that give a process all that the workflow asks for and no process has by itself."""
    return missing(workflow, (), ())


def missing(workflow: Workflow | StoredWorkflow, labels: Collection[str], tags: Collection[str], gpus: int = 0) -> list[str]:
    """The same beside these labels, tags and GPUs."""
    demands = workflow.graph.demands
    found = options(missing_labels(required_labels(workflow), labels))
    for tag in sorted({tag for demand in demands for tag in demand.tags} - set(tags)):
        found += ["--tag", tag]
    most = max((demand.gpus for demand in demands), default=0)
    return found + (["--gpus", str(most)] if most > gpus else [])


def resources_of(tags: Sequence[str], cpu_m: int | None, memory_mb: int | None, gpus: int) -> Resources:
    """Return the resources of the options and, where they give none, of the machine."""
    from holdfast.core.values.demand import Resources
    from holdfast.platform import machine

    found = machine.resources()
    return Resources(
        tags=tuple(tags),
        cpu_m=found.cpu_m if cpu_m is None else cpu_m,
        memory_mb=found.memory_mb if memory_mb is None else memory_mb,
        gpus=gpus,
    )
