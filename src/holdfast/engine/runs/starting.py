"""The start of a run: once under its key, with the workflow that a name means, in the scopes in which its calls count.

Never here: what a run is started with (control, background), who lends how much in a team budget (core.nouns.team_budgets).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.commands import StartRun
from holdfast.core.facts.graph import Graph
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import in_tokens, team_budget
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, KeyReused
from holdfast.ports import Store


class StartedRun(NamedTuple):
    """A run, and the digest of the input that it was started with."""

    run: RunId
    input_digest: str


class NewRun(NamedTuple):
    """A run to start. Its id and key are filled in when it is."""

    graph: Graph
    start: StartRun


async def started_as(runtime: Runtime, tenant: str, key: str | None) -> StartedRun | None:
    """Return the run that was started under a key; None where none was."""
    known = None if key is None else await runtime.store.log.run_of_key(tenant, key)
    return None if known is None else StartedRun(*known)


async def start_once(runtime: Runtime, tenant: str, key: str | None, make: Callable[[], Awaitable[NewRun]]) -> StartedRun:
    """Return the run that was started under a key, whatever its input. Where there is none, start the one that `make` makes."""
    if (known := await started_as(runtime, tenant, key)) is not None:
        return known
    graph, start = await make()
    rule = runtime.version_gate.rules.get(graph.definition.name)
    if rule is not None and not start.inherits:  # a fork goes on with what was begun
        start = msgspec.structs.replace(start, held=await runtime.version_gate.held(rule, tenant, graph))
    mailbox = runtime.runs.new(graph)
    try:
        await mailbox.send(msgspec.structs.replace(start, run=mailbox.run, tenant=tenant, key=key))
    except KeyReused:  # another was first
        known = await started_as(runtime, tenant, key)
        if known is None:
            raise
        return known
    return StartedRun(mailbox.run, start.input_digest)


async def workflow_of(runtime: Runtime, tenant: str, name: str) -> Workflow | StoredWorkflow:
    """Return the workflow that a name means to a tenant; its code, where that is here. Raises NotFound."""
    record = await runtime.store.graphs.workflow(name, None, tenant=tenant)
    graph = await runtime.catalog.graph_of(record.graph_hash)
    return runtime.catalog.workflows.get(record.graph_hash) or StoredWorkflow.of(record, graph)


# --- Scopes -----------------------------------------------------------------------------------------------------------


async def scopes_of_run(store: Store, tenant: str, name: str | None, agent: str | None, graph: Graph) -> tuple[str, ...]:
    """Return the scopes of a run that spends as `agent`, except in nodes that have an agent of their own. Raises
    InvalidInput."""
    if (name is None) != (agent is None):
        raise InvalidInput("A run counts in a team budget as an agent: give team_budget and agent, or none of both.")
    return await shared_scopes(store, tenant, name, () if agent is None else (agent, *agents_of(graph)))


def agents_of(graph: Graph) -> set[str]:
    """Return the agents that its nodes name."""
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
        raise InvalidInput(
            f"Tenant {tenant!r} has no team budget {name!r}. No run was started. Set the team budget first (`set_team_budget`)."
        )
    for agent in sorted({*agents}):
        if agent not in known:
            raise InvalidInput(
                f"{agent!r} is no agent of the team budget {name!r}; those are {', '.join(sorted(known))}. No run was started."
            )
    return scope, in_tokens(scope)
