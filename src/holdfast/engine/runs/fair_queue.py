"""Runs that wait for a slot of this process: tenants take turns by their weight, and of each the first to come goes first.

So a tenant with 800 of 1,000 waiting runs gets its share of the slots and no more while the others want theirs. The turns
are those of start-time fair queueing (Goyal, Vin, Cheng 1996): who comes anew begins where the queue is, and nobody saves
up turns.

Never here: steps that demand something (scheduling), what a slot is.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Mapping

from holdfast.core.values.ids import RunId

_NO_WEIGHTS: Mapping[str, float] = {}


class FairQueue:
    """Each run is in it at most once."""

    def __init__(self, weights: Mapping[str, float] = _NO_WEIGHTS) -> None:
        """A tenant of weight 2 gets two turns where others get one; 1 unless said."""
        self._weights = weights
        self._tenants: dict[str, deque[RunId]] = {}
        self._runs: set[RunId] = set()
        self._turns: list[tuple[float, int, str]] = []
        """When each tenant's turn is, in virtual time."""
        self._tags: dict[str, float] = {}
        """Those whose next turn is not before then, though they have left."""
        self._now = 0.0
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run: RunId) -> bool:
        return run in self._runs

    def join(self, run: RunId, tenant: str) -> None:
        """Stand at the end of the tenant's line; nothing for a run that stands there already."""
        if run in self._runs:
            return
        self._runs.add(run)
        runs = self._tenants.get(tenant)
        if runs is None:
            runs = self._tenants[tenant] = deque()
            self._enter(tenant, max(self._now, self._tags.pop(tenant, 0.0)))
        runs.append(run)

    def next(self) -> RunId:
        """Return the run whose turn it is; it waits no more. Raises IndexError if none waits."""
        tag, _, tenant = heapq.heappop(self._turns)
        runs = self._tenants[tenant]
        run = runs.popleft()
        self._runs.discard(run)
        self._now, after = tag, tag + 1 / self._weights.get(tenant, 1.0)
        if runs:
            self._enter(tenant, after)
        else:
            del self._tenants[tenant]
            self._tags = {each: at for each, at in self._tags.items() if at > tag} | {tenant: after}
        return run

    def _enter(self, tenant: str, tag: float) -> None:
        heapq.heappush(self._turns, (tag, next(self._arrivals), tenant))
