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
    OwnerOfBudget,
    Period,
    ScopeRow,
    current_scope,
    in_scopes,
    in_tokens,
    money_family,
    owner_of,
    owner_scopes,
    tenant_runs,
)
from holdfast.engine.background.doubt import Doubt, doubts
from holdfast.engine.background.rollup import count_some
from holdfast.errors import InvalidInput
from holdfast.service.control.base import NOT_GIVEN, ControlBase, limits_of, word

_MAX_RUNS: Final = 10**9
_STEPS: Final = 5
"""Steps of a count that take place also where the time is over: a small store is up to date."""


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
        """Limit what all runs of a tenant or team may spend in each day or month (UTC). It holds at once, for every process;
        spent money stays spent.

        Args:
            limit_usd: Limit in dollars; None for no limit. By default it stays as it is.
            max_tokens: Limit in tokens, input and output together; None for no limit. By default it stays as it is.

        Raises:
            InvalidInput: A limit or a name cannot be used.
        """
        if period not in PERIODS:
            words = f"period is {period!r:.80}; it is one of {', '.join(PERIODS)}. Nothing was changed."
            raise InvalidInput(words, field="period")
        family = money_family(word("tenant", tenant), None if team is None else word("team", team), period)
        await self._set_limits(limits_of(family, limit_usd, max_tokens))

    async def budgets(self, tenant: str, *, team: str | None = None, tokens: bool = False) -> Mapping[Period, ScopeRow]:
        """Return the budgets of a tenant or team for this day and this month.

        Args:
            team: Team of the tenant; by default the budget of the whole tenant.
            tokens: True for the budgets in tokens; by default in nano-dollars.
        """
        store = self.store
        scopes = owner_scopes(word("tenant", tenant), None if team is None else word("team", team), store.clock.now_ms())
        asked = [*map(in_tokens, scopes)] if tokens else scopes
        return dict(zip(PERIODS, await store.scopes.balances(asked), strict=True))

    async def budget_limits(
        self, tenant: str | None = None, *, after: str | None = None, limit: int
    ) -> Sequence[tuple[str, OwnerOfBudget, ScopeRow]]:
        """Return the limits on what tenants and teams may spend in each day or month, by the names of their families. Each has
        its owner and the books of the current day or month.

        Args:
            tenant: Only this tenant and its teams.
            after: Family of the last row of the page before.
        """
        of = "" if tenant is None else f"{in_scopes(word('tenant', tenant))}/"
        families: set[str] = set()
        for kind in ("tenant", "team"):
            for prefix in (f"{kind}/{of}", in_tokens(f"{kind}/{of}")):
                families.update(await self.store.scopes.limits(prefix))
        owners = {family: owner for family in sorted(families) if (owner := owner_of(family)) is not None}
        chosen = [family for family in owners if after is None or family > after][:limit]
        now_ms = self.store.clock.now_ms()
        rows = await self.store.scopes.balances([current_scope(family, now_ms) for family in chosen])
        return [(family, owners[family], row) for family, row in zip(chosen, rows, strict=True)]

    async def doubts(
        self,
        *,
        run_id: str | None = None,
        tenant: str | None = None,
        until_ms: int | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Doubt]:
        """Return the model calls of unknown cost, those of the newest run first. `reconcile` records a cost.

        Args:
            run_id: Only calls of this run; by default of all.
            until_ms: Only calls in doubt since this time or longer, in Unix milliseconds.
            before: Only runs older than this one, by its id.
            limit: Maximum number of rows; the run that reaches it is listed to its end.
        """
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
        """Limit how many runs of a tenant, or of all tenants together, may be active at once. A run is active from its
        admission to its end, waits included. Active runs stay active."""
        if runs is not None and not 0 <= runs <= _MAX_RUNS:
            raise InvalidInput(
                f"{runs} runs cannot be active; give a number from 0 to {_MAX_RUNS}, or none. Nothing was changed."
            )
        scope = FLEET_RUNS if tenant is None else tenant_runs(word("tenant", tenant))
        await self.store.scopes.set_limit(scope, runs)

    async def admission(self, tenant: str | None = None) -> ScopeRow:
        """Return how many runs of a tenant, or of all tenants together, are active (`held`), and the limit."""
        scope = FLEET_RUNS if tenant is None else tenant_runs(word("tenant", tenant))
        (row,) = await self.store.scopes.balances([scope])
        return row

    async def roll_up_costs(self, within_s: float = float("inf")) -> bool:
        """Update the cost totals. Return False if the time was too short; the next call goes on from there. Sweeps do this
        every few minutes.

        Args:
            within_s: Time limit in seconds.
        """
        clock, steps = self.runtime.clock, 0
        until_s = clock.monotonic_s() + within_s
        while not await count_some(self.runtime.store):  # also for one who reads for a tenant
            steps += 1
            if steps >= _STEPS and clock.monotonic_s() >= until_s:
                return False
        return True
