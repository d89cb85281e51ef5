"""Allowances above single runs: what tenants and teams may spend, how many runs may be active at once.

Never here: the limits of one run (command), keeping them (the stores, with each hold and each start).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from holdfast.core.values.scopes import (
    FLEET_RUNS,
    PERIODS,
    Period,
    ScopeRow,
    in_tokens,
    money_family,
    owner_scopes,
    tenant_runs,
)
from holdfast.engine.background.doubt import Doubt, doubts
from holdfast.engine.background.rollup import count_some
from holdfast.errors import InvalidInput
from holdfast.service.control.base import NOT_GIVEN, ControlBase, limits_of, word

_MOST_RUNS: Final = 10**9


class Allowances(ControlBase):
    """They hold at once and for every process."""

    async def set_budget(
        self,
        tenant: str,
        period: Period,
        limit_usd: float | str | Decimal | None = NOT_GIVEN,
        *,
        max_tokens: int | None = NOT_GIVEN,
        team: str | None = None,
    ) -> None:
        """Limit what all runs of a tenant, or of one of its teams, may spend in each `day` or `month` (UTC), in dollars, in
        tokens of input and output together, or both; None: no limit, and what is not given stays as it is. It holds at once
        and for every process; what is spent already is not taken back. Raises InvalidInput."""
        family = money_family(word("tenant", tenant), None if team is None else word("team", team), period)
        await self._set_limits(limits_of(family, limit_usd, max_tokens))

    async def budgets(self, tenant: str, *, team: str | None = None, tokens: bool = False) -> Mapping[Period, ScopeRow]:
        """The books of a tenant, or of one of its teams: of this day and of this month, in nano-dollars or in `tokens`."""
        store = self.store
        scopes = owner_scopes(word("tenant", tenant), None if team is None else word("team", team), store.clock.now_ms())
        asked = [*map(in_tokens, scopes)] if tokens else scopes
        return dict(zip(PERIODS, await store.scopes.balances(asked), strict=True))

    async def doubts(
        self,
        *,
        run_id: str | None = None,
        tenant: str | None = None,
        until_ms: int | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Doubt]:
        """The model calls of which nobody knows what they cost, of one run, a tenant or all, the newest run's first; those
        that are in doubt since `until_ms` or longer, of runs older than `before`. `reconcile` says of one what it cost.
        Where there are more than `limit`, those of the run that reaches it are the last."""
        run = None if run_id is None else (await self.find(run_id)).run
        found: list[Doubt] = []
        async for each in doubts(
            self.runtime, run=run, tenant=tenant, until_ms=until_ms, before=before, views=self.store.views
        ):
            if limit is not None and len(found) >= limit and each.run != found[-1].run:
                break
            found.append(each)
        return found

    async def set_admission(self, runs: int | None, *, tenant: str | None = None) -> None:
        """Cap how many runs of a tenant, or of all together, may be active at once; None: no cap. A run is active from
        its admission to its end, also while it waits for people. What is active already stays so."""
        if runs is not None and not 0 <= runs <= _MOST_RUNS:
            raise InvalidInput(
                f"{runs} runs cannot be active; give a number from 0 to {_MOST_RUNS}, or none. Nothing was changed."
            )
        scope = FLEET_RUNS if tenant is None else tenant_runs(word("tenant", tenant))
        await self.store.scopes.set_limit(scope, runs)

    async def admission(self, tenant: str | None = None) -> ScopeRow:
        """Return how many runs of a tenant, or of all together, are active (`held`), and how many may be."""
        scope = FLEET_RUNS if tenant is None else tenant_runs(word("tenant", tenant))
        (row,) = await self.store.scopes.balances([scope])
        return row

    async def roll_up_costs(self, within_s: float = float("inf")) -> bool:
        """Bring the roll-up of costs up to date, with all that is known now; False where `within_s` was not enough for
        that, and the next will go on from there. Sweeps do so once a day."""
        store, clock = self.runtime.store, self.runtime.clock
        until_s = clock.monotonic_s() + within_s
        after = await count_some(store.costs, store.log, store.clock.now_ms() + 1, None)
        while after is not None and clock.monotonic_s() < until_s:
            after = await count_some(store.costs, store.log, store.clock.now_ms() + 1, after)
        return after is None
