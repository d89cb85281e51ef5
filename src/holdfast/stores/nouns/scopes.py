"""The books of the scopes above runs, as people read them and set their limits, and who waits for room in them.

Never here: moving the books, which appends do (each store by hand); what a posting means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from holdfast.core.nouns.team_budgets import TeamAgent, allotted
from holdfast.core.values.scopes import AgentRow, ScopeRow, ScopeWaiter
from holdfast.stores.nouns.tables import Noun, Steps, do, lock, many


class BooksRead(Noun, ABC):
    """Keeps ports.Scopes, with a store's own way to its balances."""

    @abstractmethod
    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]: ...

    async def set_limit(self, family: str, amount: int | None) -> None:
        if amount is None:
            await self._tables.change("delete_limit", family)
        else:
            await self._tables.change("set_limit", family, amount)

    async def allot(self, budget: str, total: int | None, team: Mapping[str, TeamAgent]) -> None:
        def steps() -> Steps[None]:
            yield lock("make_scopes", [budget], [budget])
            yield lock("lock_scopes", [budget])
            used = {row.scope: row.used for row in map(_agent, (yield do("agents", f"{budget}/")))}
            for scope in [*used, budget]:
                yield do("delete_limit", scope)
            if total is not None:
                yield do("set_limit", budget, total)
                found = allotted(total, team, used).items()
                yield many("allot", [(scope, amount, team.get(scope, TeamAgent(0)).priority) for scope, amount in found])

        await self._tables.transact(steps)

    async def agents(self, budget: str) -> Sequence[AgentRow]:
        return [_agent(row) for row in await self._tables.ask("agents", f"{budget}/")]

    async def limits(self, family: str) -> Mapping[str, int]:
        return dict(map(tuple, await self._tables.ask("limits", family)))

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[ScopeWaiter]:
        return [ScopeWaiter(*row) for row in await self._tables.ask("waiting", list(scopes), limit)]

    async def headroom(self, limit: int) -> Sequence[ScopeWaiter]:
        return [ScopeWaiter(*row) for row in await self._tables.ask("room", limit)]


def _agent(row: Sequence[object]) -> AgentRow:
    return AgentRow(*row)  # type: ignore[arg-type]
