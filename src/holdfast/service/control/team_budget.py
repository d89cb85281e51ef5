"""Team budgets: what agents may spend together, how it is allotted, and how they stand.

Never here: who lends how much (core.nouns.team_budgets), keeping the limits (the stores, with each hold).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final
from urllib.parse import unquote

from holdfast.core.nouns.team_budgets import AgentBooks, Books, Dashboard, TeamAgent, checked
from holdfast.core.rules.limits import whole_tokens
from holdfast.core.values.money import nanousd
from holdfast.core.values.scopes import AgentRow, in_tokens, of_agent, team_budget
from holdfast.errors import InvalidInput, NotFound
from holdfast.service.control.base import ControlBase, word

_DEFAULT_TENANT: Final = "default"


class TeamBudgets(ControlBase):
    """They hold at once and for every process."""

    async def set_team_budget(
        self,
        name: str,
        agents: Mapping[str, TeamAgent | float],
        *,
        total_usd: float | str | Decimal | None = None,
        total_tokens: int | None = None,
        tenant: str = _DEFAULT_TENANT,
    ) -> None:
        """Set a budget that agents share, once, not for each day. Each agent gets an allotment of the total. Agents without an
        initial allocation share the rest equally.

        If the budget exists, its total is allotted again. No agent gets less than it has used or reserved; a removed agent
        keeps just that.

        Raises:
            InvalidInput: A name, an agent or an amount cannot be used.
        """
        scope = team_budget(word("tenant", tenant), _named(name))
        team = {word("agent's name", agent, "agents"): said for agent, said in checked(agents).items()}
        if "" in team:
            raise InvalidInput("An agent's name is empty. Nothing was changed.")
        if total_usd is None and total_tokens is None:
            raise InvalidInput("Say what the total is: total_usd, total_tokens or both. Nothing was changed.")
        try:
            money = None if total_usd is None else nanousd(total_usd)
            tokens = None if total_tokens is None else whole_tokens(total_tokens)
        except ValueError as problem:
            raise InvalidInput(f"The total cannot be used: {problem}. Nothing was changed.") from None
        for budget, total in ((scope, money), (in_tokens(scope), tokens)):
            await self.store.scopes.allot(budget, total, {of_agent(budget, agent): team[agent] for agent in team})

    async def remove_team_budget(self, name: str, *, tenant: str = _DEFAULT_TENANT) -> None:
        """Remove the limits of a team budget. What its agents have used stays recorded.

        Raises:
            NotFound: The team budget does not exist.
        """
        await self.team_dashboard(name, tenant=tenant)
        scope = team_budget(tenant, name)
        for budget in (scope, in_tokens(scope)):
            await self.store.scopes.allot(budget, None, {})

    async def team_budgets(self, *, tenant: str = _DEFAULT_TENANT) -> Sequence[str]:
        """Return the names of a tenant's team budgets."""
        prefix = f"{team_budget(word('tenant', tenant), '')}"
        found = [*await self.store.scopes.limits(prefix), *await self.store.scopes.limits(in_tokens(prefix))]
        return sorted({unquote(scope.removeprefix(in_tokens("")).split("/")[2]) for scope in found})

    async def team_dashboard(self, name: str, *, tenant: str = _DEFAULT_TENANT) -> Dashboard:
        """Return the accounts of a team budget and of each of its agents.

        Args:
            name: Name of the team budget.

        Raises:
            NotFound: The team budget does not exist.
        """
        scope = team_budget(word("tenant", tenant), _named(name))
        money, tokens = await self._books(scope), await self._books(in_tokens(scope))
        if money is None and tokens is None:
            raise NotFound(f"Tenant {tenant!r} has no team budget {name!r}. Set the team budget first (`set_team_budget`).")
        return Dashboard(name, tenant, money, tokens)

    async def _books(self, budget: str) -> Books | None:
        scopes = self.store.scopes
        (whole,) = await scopes.balances([budget])
        if whole.limit is None or whole.left is None:
            return None
        agents = {unquote(row.scope.rpartition("/")[2]): _of(row) for row in await scopes.agents(budget)}
        allocated = sum(each.allocated for each in agents.values())
        return Books(whole.limit, allocated, whole.settled, whole.held, whole.in_doubt, whole.left, agents)


def _named(name: str) -> str:
    if not name:
        raise InvalidInput("A team budget has a name. Nothing was changed.", field="name")
    return word("team budget's name", name)


def _of(row: AgentRow) -> AgentBooks:
    limit = row.limit or 0
    return AgentBooks(
        limit,
        row.settled,
        row.held,
        row.in_doubt,
        limit - row.used,
        row.used / limit if limit else 0.0,
        row.priority,
        row.moved_at_ms,
    )
