"""Runs that share a team budget: in which scopes their calls count, where the budget is there and knows their agents.

Never here: who lends how much (core.nouns.team_budgets), setting one (control).
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from holdfast.core.facts.graph import Graph
from holdfast.core.values.scopes import in_tokens, team_budget
from holdfast.errors import InvalidInput
from holdfast.ports import Store


async def scopes_of_run(store: Store, tenant: str, name: str | None, agent: str | None, graph: Graph) -> tuple[str, ...]:
    """Those of a run that spends as `agent`, except in nodes that have an agent of their own. Raises InvalidInput."""
    if (name is None) != (agent is None):
        raise InvalidInput("A run counts in a team budget as an agent: give team_budget and agent, or none of both.")
    return await shared_scopes(store, tenant, name, () if agent is None else (agent, *agents_of(graph)))


def agents_of(graph: Graph) -> set[str]:
    """Those that its nodes name."""
    return {agent for node in graph.nodes.values() if (agent := node.options.get("agent")) is not None}


async def shared_scopes(store: Store, tenant: str, name: str | None, agents: Iterable[str]) -> tuple[str, ...]:
    """The scopes of a team budget, for runs in which these agents call something. Raises InvalidInput where there is no such
    budget, or one of them is none of its agents."""
    if name is None:
        return ()
    scope = team_budget(tenant, name)
    known = {
        unquote(row.scope.rpartition("/")[2])
        for budget in (scope, in_tokens(scope))
        for row in await store.scopes.agents(budget)
    }
    if not known:
        raise InvalidInput(f"Tenant {tenant!r} has no team budget {name!r}. No run was started: see `set_team_budget`.")
    for agent in sorted({*agents}):
        if agent not in known:
            raise InvalidInput(
                f"{agent!r} is no agent of the team budget {name!r}; those are {', '.join(sorted(known))}. No run was started."
            )
    return scope, in_tokens(scope)
