"""Schedules (core.nouns.schedules): what starts runs by the calendar, with how far each has come.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.core.nouns.schedules import Schedule


class KeptSchedule(NamedTuple):
    """A schedule as the store has it. Its revision goes up with every change."""

    schedule: Schedule
    revision: int


class Schedules(Protocol):
    """Those of the store, each known by its tenant and its name."""

    async def add(self, schedule: Schedule) -> bool:
        """False, and nothing is changed, where there is one of this name already."""
        ...

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        """Put it in the place of the one of that revision; False where that has changed meanwhile, or is gone."""
        ...

    async def remove(self, tenant: str, name: str) -> bool:
        """False if there was none."""
        ...

    async def find(self, tenant: str, name: str) -> KeptSchedule | None: ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[KeptSchedule]:
        """By tenant and name; `after` are those of the last one before."""
        ...

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        """Those at which somebody must look by then, the longest due first."""
        ...

    async def next_due_ms(self) -> int | None:
        """When somebody must look at one next; None where nobody must."""
        ...
