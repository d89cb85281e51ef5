"""Runs with their steps and maps, one by one, in lists and in trees. Never here: printing, who may see it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.facts.events import StepCompleted
from holdfast.core.rules import caps
from holdfast.core.rules.readiness import edge_state
from holdfast.core.values.ids import node_of
from holdfast.core.values.money import usd
from holdfast.core.views import status
from holdfast.service.view.effect import MOST_EFFECTS, of_effect
from holdfast.service.view.plain import error_of, iso, maybe_usd
from holdfast.service.view.score import of_score

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.control.tree import Tree
    from holdfast.core.facts.events import Recorded
    from holdfast.core.facts.graph import Graph
    from holdfast.core.facts.state import Map, State, Step
    from holdfast.core.values.ids import SessionId
    from holdfast.core.views.projection import RunRow


async def of_run(control: Control, state: State) -> dict[str, Any]:
    """A run. `held_usd` is all that is set aside: for calls in flight, and for those whose cost is unknown."""
    budget = state.budget
    return {
        "run_id": state.run,
        "workflow": state.workflow,
        "version": state.version,
        "status": status.status(state),
        "output": await control.output(state) if state.ended == "completed" else None,
        "cost_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd + budget.in_doubt_nanousd),
        "limit_usd": maybe_usd(budget.limit_nanousd),
        "error": error_of(state.error),
        "waiting_for": [status.describe(wait) for wait in status.waiting_for(state)],
    }


async def of_run_whole(control: Control, state: State) -> dict[str, Any]:
    """A run with its steps, its effects, its books and the scores that count."""
    workers = await control.names_of({step.worker for step in state.steps.values() if step.worker is not None})
    row = await control.store.views.run(state.run)
    effects = await control.effects(state.run, limit=MOST_EFFECTS)
    return {
        **await of_run(control, state),
        "limits": [
            {"limit": cap.limit, "used": cap.used, "most": cap.most, "percent": cap.percent}
            for cap in caps.caps(state, state.ended_at_ms or control.now_ms())
        ],
        "reason": state.reason,
        "would_stop": state.would_stop,
        "bound_percents": {**state.token_bound_percents, **state.bound_percents},
        "tenant": state.tenant,
        "team": state.team,
        "key": state.key,
        "tags": [*state.tags],
        "parent": None
        if state.parent is None
        else {"run_id": state.parent.run, "step": state.parent.step, "root_id": state.parent.root},
        "forked_from": None if state.origin is None else {"run_id": state.origin.run, "step": state.origin.place},
        "started_by": state.by,
        "started_by_os_user": state.os_user or None,
        "started_by_client": state.client or None,
        "started_at": iso(state.started_at_ms),
        "updated_at": iso(state.at_ms),
        "ended_at": iso(state.ended_at_ms) if state.ended else None,
        "settled_usd": usd(state.budget.settled_nanousd),
        "in_doubt_usd": usd(state.budget.in_doubt_nanousd),
        "workflow_missing_since": None if row is None else iso(await control.missing_since_ms(row)),
        "hindered": [{"why": each.why, "since": iso(each.since_ms)} for each in await control.hindered(state.run)],
        "tokens": state.tokens_used,
        "steps_started": state.steps_started,
        "steps": [of_step(step, workers) for step in state.steps.values()],
        "maps": [await of_map(control, state, map_) for map_ in state.maps.values()],
        "effects": [await of_effect(control, *each, tenant=state.tenant) for each in effects],
        "scores": [of_score(each) for each in await control.scores(state.run)],
    }


def of_node_costs(state: State) -> list[dict[str, Any]]:
    """What the calls of each node have cost, in the order in which they first did; `visits` are its own."""
    return [
        {"node": node, "visits": state.visits.get(node, 0), "cost_usd": usd(cost)}
        for node, cost in state.cost_nanousd_by_node.items()
    ]


def of_drawing(graph: Graph, state: State) -> dict[str, Any]:
    """A run's graph: how the latest visit of each node stands (null before the first) and which edges were taken."""
    return {
        "run_id": state.run,
        "workflow": state.workflow,
        "version": state.version,
        "graph_hash": state.graph_hash,
        "nodes": [
            {
                "node": node.name,
                "kind": node.kind,
                "status": None if (step := state.steps.get(node.name)) is None else step.status,
                "visits": state.visits.get(node.name, 0),
                "cost_usd": usd(state.cost_nanousd_by_node.get(node.name, 0)),
            }
            for node in graph.definition.nodes
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "when": edge.when,
                "guard": edge.guard,
                "on": edge.on,
                "state": edge_state(graph, state, edge),
            }
            for edge in graph.definition.edges
        ],
    }


def of_row(row: RunRow, missing_ms: int | None = None, tags: Sequence[str] = ()) -> dict[str, Any]:
    """A run as lists show it; `missing_ms` is since when no living process can go on with it."""
    waits = json.loads(row.waiting_for)
    if not waits and status.waits_for_nothing(row.status, ()):  # early versions said nothing of it
        waits = [status.describe(status.for_nothing(row.run, row.updated_at_ms))]
    return {
        "run_id": row.run,
        "workflow": row.workflow,
        "version": row.version,
        "status": row.status,
        "tenant": row.tenant,
        "key": row.key,
        "tags": [*tags],
        "started_at": iso(row.started_at_ms),
        "updated_at": iso(row.updated_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "cost_usd": usd(row.settled_nanousd),
        "held_usd": usd(row.held_nanousd + row.in_doubt_nanousd),
        "limit_usd": maybe_usd(row.limit_nanousd),
        "waiting_for": waits,
        "workflow_missing_since": iso(missing_ms),
    }


def of_tree(tree: Tree) -> dict[str, Any]:
    """A run and all below it. What is spent and held is that of all together, the limits those of the one at the top."""
    top = tree.members[0].row
    return {
        "run_id": tree.members[0].run,
        "root_id": tree.root,
        "cost_usd": usd(tree.settled_nanousd),
        "held_usd": usd(tree.outstanding_nanousd),
        "limit_usd": None if top is None else maybe_usd(top.limit_nanousd),
        "tokens": tree.tokens.used,
        "held_tokens": tree.tokens.outstanding,
        "max_tokens": tree.members[0].tokens.limit,
        "is_whole": tree.is_whole,
        "runs": [
            {
                "parent_id": each.parent,
                "depth": each.depth,
                **({"run_id": each.run, "status": "requested"} if each.row is None else of_row(each.row)),
                "tokens": each.tokens.used,
                "held_tokens": each.tokens.outstanding,
                "max_tokens": each.tokens.limit,
            }
            for each in tree.members
        ],
    }


def of_step(step: Step, workers: Mapping[SessionId, str]) -> dict[str, Any]:
    """The latest visit of a node. It began with its first attempt; it changed when it became what it is."""
    return {
        "step": step.id,
        "status": step.status,
        "attempts": step.attempt,
        "began_at": iso(step.began_ms or None),
        "changed_at": iso(step.since_ms),
        "retry_at": iso(step.retry_at_ms),
        "worker": None if step.worker is None else workers.get(step.worker, step.worker),
        "decisions": None if step.decisions is None else list(step.decisions),
        "error": error_of(step.error),
        "reason": step.reason,
    }


async def of_map(control: Control, state: State, map_: Map) -> dict[str, Any]:
    """A list that is done item by item. `failures` are the first of the items that failed and might; `runs items` has all."""
    run, opened = control.run(state.run), map_.opened
    failures = [each for seq in map_.failures for each in await run.events(seq - 1, 1)]
    return {
        "map": opened.map,
        "step": opened.step,
        "status": {"": "running", "met": "completed", "failed": "failed"}[map_.ended],
        "items": opened.count,
        "completed": map_.completed - len(map_.provisional),
        "failed": map_.failed + len(map_.provisional) + sum(state.steps[name].status == "failed" for name in map_.stuck),
        "under_way": len(map_.items),
        "failures": [await of_item(control, each, state.tenant) for each in failures],
    }


async def of_item(control: Control, recorded: Recorded, tenant: str) -> dict[str, Any]:
    """How an item of a map has ended. One that completed and tells of a failure has failed."""
    event: Any = recorded.event
    return {
        "item": node_of(event.step),
        "step": event.step,
        "status": "failed" if getattr(event, "provisional", False) else _ENDS[type(event).__name__],
        "attempts": event.attempt,
        "ended_at": iso(recorded.at_ms),
        "output": await control.payloads.value(event.output, tenant) if isinstance(event, StepCompleted) else None,
        "error": error_of(getattr(event, "error", None)),
        "reason": getattr(event, "reason", None),
        "seq": recorded.seq,
    }


_ENDS: Final = {"StepCompleted": "completed", "StepFailed": "failed", "StepCancelled": "cancelled"}
