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
        """Give agents a budget together, not for each day but once: `total_usd` in dollars, `total_tokens` in tokens of input
        and output, or both. Each agent has its allotment of it: a number is its priority, a `TeamAgent` may say its initial
        allocation too. Agents for whom none is said share equally what the others leave.

        Said again it replaces what was said: the total is allotted anew, to nobody less than he has used or holds; who is no
        agent any more keeps just that. What is not given is not limited. Raises InvalidInput.
        """
        scope = team_budget(word("tenant", tenant), _named(name))
        team = {word("agent's name", agent): said for agent, said in checked(agents).items()}
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
        """Have a team budget limit nothing any more. Raises NotFound."""
        await self.team_dashboard(name, tenant=tenant)
        scope = team_budget(tenant, name)
        for budget in (scope, in_tokens(scope)):
            await self.store.scopes.allot(budget, None, {})

    async def team_budgets(self, *, tenant: str = _DEFAULT_TENANT) -> Sequence[str]:
        """The names of the team budgets of a tenant."""
        prefix = f"{team_budget(word('tenant', tenant), '')}"
        found = [*await self.store.scopes.limits(prefix), *await self.store.scopes.limits(in_tokens(prefix))]
        return sorted({unquote(scope.removeprefix(in_tokens("")).split("/")[2]) for scope in found})

    async def team_dashboard(self, name: str, *, tenant: str = _DEFAULT_TENANT) -> Dashboard:
        """Return the books of a team budget and each of its agents. Raises NotFound."""
        scope = team_budget(word("tenant", tenant), _named(name))
        money, tokens = await self._books(scope), await self._books(in_tokens(scope))
        if money is None and tokens is None:
            raise NotFound(f"Tenant {tenant!r} has no team budget {name!r}; `set_team_budget` makes one.")
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
        raise InvalidInput("A team budget has a name. Nothing was changed.")
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
