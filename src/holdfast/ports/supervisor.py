"""Where supervisors are kept, with the tasks that they have taken.

Never here: an implementation, a default, who takes a task (core.nouns.supervision).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.nouns.supervision import Change, Supervisor, Task


class Supervisors(Protocol):
    """Those of the store, each known by its tenant and its name."""

    async def put(self, change: Change) -> bool:
        """Keep a supervisor with what is new of its tasks, in one transaction, in the place of the one of its revision (0:
        there is none); it has the next revision afterwards. False, and nothing is changed, where another stands there.
        Tasks of it that have ended for longer than supervision.KEPT_MS are let go of."""
        ...

    async def find(self, tenant: str, name: str) -> Supervisor | None: ...

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        """A task of that supervisor, by its id."""
        ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Supervisor]:
        """By tenant and name; `after` are those of the last one before."""
        ...

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """The tenants and names of those at which somebody must look by then, and of those with a task at work whose run
        has ended."""
        ...

    async def remove(self, supervisor: Supervisor) -> bool:
        """Remove one with all that is kept of its tasks, in one transaction. False, and nothing is removed, where it has
        changed since it was seen."""
        ...
