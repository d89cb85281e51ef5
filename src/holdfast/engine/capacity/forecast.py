"""Forecasts of when a waiting step starts: from how long the steps that hold what it waits for took before, in runs of the
waiting step's tenant. What other tenants ran tells it nothing.

Never here: why it waits (diagnosis), placing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.values.ids import RunId, StepId
from holdfast.engine.capacity.diagnosis import Forecast, WaitReason
from holdfast.engine.runs.mailbox import RunHistory
from holdfast.errors import HoldfastError
from holdfast.ports import Store

if TYPE_CHECKING:
    from holdfast.core.facts.state import State

LEARNED_FROM: Final = 5
"""Ended runs of a workflow and tenant from which it is learned how long its steps take."""


class Forecaster:
    """Forecasts for one request: each run is read once."""

    def __init__(self, store: Store, now_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._states: dict[RunId, State | None] = {}
        self._took_ms: dict[tuple[str, str, str], Sequence[int]] = {}

    async def of(self, wait: WaitReason) -> Forecast | None:
        """Return when a step starts. None where that cannot be known, or it never will unless something is added."""
        reason = wait.reason
        if wait.starts is not None:
            return wait.starts
        if not reason.possible or reason.waits_for in ("turn", "nothing"):
            return None
        if wait.refills_at_ms is not None:
            return Forecast(wait.refills_at_ms + await self._behind_ms(wait), 0)
        if reason.place < 1 or not reason.holders:
            return None
        ends_ms, steps = [], 0
        for run, step, *_ in reason.holders:
            found = await self._end_of(RunId(run), StepId(step), wait.step.tenant)
            if found is None:
                return None
            ends_ms.append(found.at_ms)
            steps = max(steps, found.steps)
        return Forecast(await self._turn_ms(wait, sorted(ends_ms)), steps)

    async def _turn_ms(self, wait: WaitReason, ends_ms: Sequence[int]) -> int:
        """Return when the step's turn comes: each end lets one step go on, and those that went on end in turn too."""
        rounds, place = divmod(wait.reason.place - 1, len(ends_ms))
        step = wait.step
        took_ms = await self._usual_ms(step.tenant, step.workflow, step.step.partition("#")[0]) if rounds else ()
        return ends_ms[place] + rounds * (round(fmean(took_ms)) if took_ms else 0)

    async def _behind_ms(self, wait: WaitReason) -> int:
        """Return how long a rate takes to refill for those ahead of a step, if each takes as much as it."""
        pools = {pool.name: pool for pool in await self._store.lending.pools()}
        pool: DeclaredPool | None = pools.get(wait.reason.pool or "")
        if pool is None or wait.reason.place <= 1:
            return 0
        amount = wait.step.demand.pools.get(pool.name) or 1
        return round((wait.reason.place - 1) * amount * (pool.per_s or 1) * 1000 / pool.limit)

    async def _end_of(self, run: RunId, step: StepId, tenant: str) -> Forecast | None:
        """Return when a step under way ends, if it takes as long as that node's earlier steps did in the tenant's runs."""
        state = await self._state_of(run)
        found = None if state is None else state.step(step)
        if state is None or found is None or not found.began_ms:
            return None
        took_ms = await self._usual_ms(tenant, state.workflow, step.partition("#")[0])
        if not took_ms:
            return None
        return Forecast(max(self._now_ms, found.began_ms + round(fmean(took_ms))), len(took_ms))

    async def _usual_ms(self, tenant: str, workflow: str, node: str) -> Sequence[int]:
        """Return how long a node's step took in each of the last ended runs of its workflow and a tenant."""
        kind = tenant, workflow, node
        if kind not in self._took_ms:
            rows = await self._store.views.runs(tenant=tenant, workflow=workflow, status="completed", limit=LEARNED_FROM)
            states = [await self._state_of(row.run) for row in rows]
            steps = [step for state in states if state is not None for name, step in state.steps.items() if name == node]
            self._took_ms[kind] = [step.since_ms - step.began_ms for step in steps if step.began_ms]
        return self._took_ms[kind]

    async def _state_of(self, run: RunId) -> State | None:
        if run not in self._states:
            try:
                self._states[run] = await RunHistory(run, self._store.log).load()
            except HoldfastError:  # archived or removed since, or unreadable: nothing is learned from it
                self._states[run] = None
        return self._states[run]
