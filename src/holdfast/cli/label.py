"""Labels of processes, as people say them: what a workflow asks for that is not there, and how to say that it is.

Never here: who runs what (the engine leaves alone what it lacks labels for).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow


def lacking(workflow: Workflow, labels: Collection[str]) -> list[str]:
    return [label for label in workflow.runs_on if label not in labels]


def options(labels: Iterable[str]) -> list[str]:
    """The words of a command that give a process these labels."""
    return [word for label in sorted(set(labels)) for word in ("--label", label)]
