"""Runs that wait for a slot of this process: tenants take turns, and of each whoever came first goes first.

So a tenant with 800 of 1,000 waiting runs gets its share of the slots and no more while the others want theirs.

Never here: steps that demand something (scheduling), what a slot is.
"""

from __future__ import annotations

from collections import deque

from holdfast.core.ids import RunId


class Line:
    """Each run is in it at most once."""

    def __init__(self) -> None:
        self._tenants: dict[str, deque[RunId]] = {}
        """The first is the one whose turn it is."""
        self._runs: set[RunId] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run: RunId) -> bool:
        return run in self._runs

    def join(self, run: RunId, tenant: str) -> None:
        """Stand at the end of the tenant's line; nothing for a run that stands there already."""
        if run not in self._runs:
            self._runs.add(run)
            self._tenants.setdefault(tenant, deque()).append(run)

    def next(self) -> RunId:
        """Whose turn it is; it waits no more. Raises StopIteration where nobody waits."""
        tenant = next(iter(self._tenants))
        runs = self._tenants.pop(tenant)
        run = runs.popleft()
        if runs:
            self._tenants[tenant] = runs  # behind the others
        self._runs.discard(run)
        return run
