"""The roll-up of what model calls cost.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.facts.costs import Cost, CostKey, Uncounted
from holdfast.core.values.ids import RunId


class Costs(Protocol):
    """The roll-up of what model calls cost (core.facts.costs), and up to which event each run is in it."""

    async def uncounted(self, started_before_ms: int, after: RunId | None, limit: int) -> Sequence[Uncounted]:
        """Runs with events that are not in the roll-up yet, in the order of their names, after the run `after`."""
        ...

    async def count(self, uncounted: Uncounted, costs: Sequence[Cost]) -> bool:
        """Add `costs`, of the run's events after `counted` up to `seq`, and remember that, in one transaction. False, with
        nothing added, if the run is not counted up to `counted`: somebody else was first."""
        ...

    async def rollup(
        self,
        first_day: str,
        last_day: str,
        *,
        tenant: str | None = None,
        after: CostKey | None = None,
        limit: int | None = None,
    ) -> Sequence[Cost]:
        """The roll-up of the days from `first_day` to `last_day` (`2026-11-21`), in order, after the row `after`."""
        ...
