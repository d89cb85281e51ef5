"""Runs with their steps and maps, one by one, in lists and in trees. Never here: printing, who may see it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict, cast

from holdfast.core.facts import graph as graphs
from holdfast.core.facts.events import StepCompleted
from holdfast.core.facts.state import StepStatus
from holdfast.core.rules import limits
from holdfast.core.rules.readiness import EdgeState, edge_state
from holdfast.core.values.ids import node_of
from holdfast.core.values.money import usd
from holdfast.core.views import operations, status
from holdfast.core.views.flow_graph import follows
from holdfast.core.views.status import Status, WaitKind
from holdfast.service.control import process
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.capacity import DemandRow
from holdfast.service.view.effect import MAX_EFFECTS, EffectRow, of_effect
from holdfast.service.view.plain import Dollars, ErrorRow, Time, error_of, iso, maybe_usd
from holdfast.service.view.score import ScoreRow, of_score

if TYPE_CHECKING:
    from holdfast.core.facts.events import Recorded
    from holdfast.core.facts.state import Map, State, Step
    from holdfast.core.nouns.labels import Pair
    from holdfast.core.values.ids import SessionId
    from holdfast.core.views import projection
    from holdfast.service.control.control import Control
    from holdfast.service.control.tree import Member, Tree


LimitName: TypeAlias = Literal["cost", "steps", "tokens", "model_calls", "tool_calls", "active", "wall"]


class WaitRow(TypedDict):
    """A thing that a run waits for."""

    kind: Annotated[WaitKind, doc("Thing that ends the wait, like the decision of a `gate`; `nothing` if the run is stuck.")]
    reason: Annotated[str, doc("A stable code, such as the reason of a gate or the name of a signal.")]
    id: Annotated[str, doc("The gate, step or operation that waits.")]
    since_ms: Annotated[int, doc("Time since which it waits, in milliseconds since 1970.")]
    step: NotRequired[Annotated[str | None, doc("The step that waits.")]]
    due_at_ms: NotRequired[Annotated[int | None, doc("When it ends by itself, in milliseconds since 1970.")]]
    about: NotRequired[Annotated[str | None, doc("The tool, pool, scope or child run that it is about.")]]
    demand: NotRequired[Annotated[DemandRow | None, doc("Resources that a worker must have.")]]


Waits: TypeAlias = Annotated[list[WaitRow], doc("Everything that the run waits for, whatever its status is.")]


class RunStatusRow(TypedDict):
    """A run's status, output and cost, as a command to a run returns it."""

    run_id: field.RunId
    workflow: field.Workflow
    version: field.Version
    status: field.Status
    output: field.Output
    cost_usd: field.CostUsd
    held_usd: field.HeldUsd
    limit_usd: field.LimitUsd
    error: field.Error
    waiting_for: Waits


class LimitRow(TypedDict):
    """A limit of a run, and its use."""

    limit: Annotated[LimitName, doc("Limit: `active` is working time, `wall` is time since the start, waits included.")]
    used: Annotated[int, doc("Use of the limit: billionths of a dollar, milliseconds, or a number.")]
    most: Annotated[int, doc("The limit, in the same unit.")]
    percent: Annotated[int, doc("Percentage of it that is used, rounded down.")]


class ParentRow(TypedDict):
    """The run that has started a run."""

    run_id: Annotated[str, doc("Id of the parent run.")]
    step: Annotated[str, doc("The step that has started it.")]
    root_id: Annotated[str, doc("The run at the top of the tree.")]


class OriginRow(TypedDict):
    """The run that a run was forked from."""

    run_id: Annotated[str, doc("Id of the original run.")]
    step: Annotated[str, doc("The step, or `STEP/OPERATION`, where the fork begins.")]


class StallRow(TypedDict):
    """The reason why a process cannot go on with a run for now."""

    reason: Annotated[str, doc("Error that the process met, in words.")]
    since: Annotated[Time, doc("Time since which the process cannot continue.")]


class StepRow(TypedDict):
    """The latest visit of a node."""

    step: Annotated[str, doc("Its id, `NODE#VISIT`.")]
    status: Annotated[StepStatus, doc("Status of the step.")]
    attempts: field.Attempts
    resumptions: Annotated[int, doc("Number of times that it went on after a wait, which are not attempts.")]
    began_at: Annotated[Time | None, doc("When its first attempt began.")]
    changed_at: Annotated[Time, doc("When it took this status.")]
    retry_at: Annotated[Time | None, doc("When its next attempt is due.")]
    worker: Annotated[str | None, doc("The process that executes it; hidden from callers of one tenant.")]
    decisions: Annotated[list[str] | None, doc("The edges that it chose.")]
    error: Annotated[ErrorRow | None, doc("Its last error.")]
    reason: Annotated[str | None, doc("Reason why it was skipped or cancelled.")]


ItemStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
MapStatus: TypeAlias = Literal["running", "completed", "failed"]
TreeStatus: TypeAlias = Literal[Status, "requested"]


class ItemRow(TypedDict):
    """An item of a map that has ended."""

    item: Annotated[str, doc("Its name, `MAP[INDEX]`.")]
    step: Annotated[str, doc("Id of the item's step.")]
    status: Annotated[ItemStatus, doc("Status with which the item ended.")]
    attempts: field.Attempts
    ended_at: Annotated[Time, doc("Time at which the item ended.")]
    output: Annotated[Any, doc("Output; null unless it is completed.")]
    error: field.Error
    reason: Annotated[str | None, doc("Reason why it was cancelled.")]
    seq: Annotated[int, doc("The number of the event that ended it.")]


class MapRow(TypedDict):
    """A list that a run works through item by item."""

    map: Annotated[str, doc("Its name: the node, or `STEP/OPERATION`.")]
    step: Annotated[str, doc("Id of the step that the list belongs to.")]
    status: Annotated[MapStatus, doc("Status of the whole list.")]
    items: Annotated[int, doc("Number of items.")]
    completed: Annotated[int, doc("Number of items that are completed.")]
    failed: Annotated[int, doc("Number of items that have failed.")]
    under_way: Annotated[int, doc("Number of items that have begun and not ended.")]
    failures: Annotated[list[ItemRow], doc("The first items that failed.")]


class RunWhole(RunStatusRow):
    """A run with its steps, effects, limits and scores."""

    limits: Annotated[list[LimitRow], doc("Limits that the run has, each with its use.")]
    reason: Annotated[str | None, doc("Reason why it was cancelled or has failed, as a code.")]
    would_stop: Annotated[
        dict[str, str], doc("The limits at which a dry run would have stopped, each with the reason in words.")
    ]
    bound_percents: Annotated[
        dict[str, int], doc("The models that billed more than was reserved, each with the percentage that is reserved since.")
    ]
    tenant: field.Tenant
    team: field.Team
    key: field.Key
    tags: field.Tags
    labels: field.Labels
    parent: Annotated[ParentRow | None, doc("Parent run; null if no run has started it.")]
    forked_from: Annotated[OriginRow | None, doc("Original run; null if it is no fork.")]
    started_by: Annotated[str | None, doc("The person or program that started it.")]
    started_by_os_user: Annotated[str | None, doc("The operating system's user who started it.")]
    started_by_client: Annotated[str | None, doc("The token or key with which it was started.")]
    started_at: field.StartedAt
    updated_at: field.UpdatedAt
    ended_at: field.EndedAt
    settled_usd: Annotated[Dollars, doc("Dollars that its calls have cost.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    workflow_missing_since: field.MissingSince
    stalls: Annotated[list[StallRow], doc("Reasons why processes cannot continue it for now.")]
    tokens: Annotated[int, doc("Tokens that its calls have used.")]
    events: Annotated[int, doc("Number of its events.")]
    steps_started: Annotated[int, doc("Number of steps that were started, without items of maps.")]
    steps: Annotated[list[StepRow], doc("Latest visit of each node, in the order in which they began.")]
    maps: Annotated[list[MapRow], doc("Lists that the run works through item by item.")]
    effects: Annotated[list[EffectRow], doc("Its tool calls, oldest first; the first thousand.")]
    scores: Annotated[list[ScoreRow], doc("Scores of the run: the latest of each name and author.")]


async def of_run(control: Control, state: State) -> RunStatusRow:
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
        "waiting_for": [cast("WaitRow", status.describe(wait)) for wait in status.waiting_for(state)],
    }


async def of_run_whole(control: Control, state: State) -> RunWhole:
    """A run with its steps, its effects, its books and the scores that count."""
    workers = await process.names(control.store, {step.worker for step in state.steps.values() if step.worker is not None})
    row = await control.store.views.run(state.run)
    missing = {} if row is None else await process.missing_since_ms(control.store, [row])
    effects = await control.effects(state.run, limit=MAX_EFFECTS)
    return {
        **await of_run(control, state),
        "limits": [
            {"limit": cast("LimitName", cap.limit), "used": cap.used, "most": cap.most, "percent": cap.percent}
            for cap in limits.caps(state, state.ended_at_ms or control.now_ms())
        ],
        "reason": state.reason,
        "would_stop": state.would_stop,
        "bound_percents": {**state.token_bound_percents, **state.bound_percents},
        "tenant": state.tenant,
        "team": state.team,
        "key": state.key,
        "tags": [*state.tags],
        "labels": state.labels,
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
        "workflow_missing_since": iso(missing.get(state.run)),
        "stalls": [{"reason": e.reason, "since": iso(e.since_ms)} for e in await process.stalls(control.store, state.run)],
        "tokens": state.tokens_used,
        "events": state.seq,
        "steps_started": state.steps_started,
        "steps": [of_step(step, workers) for step in state.steps.values()],
        "maps": [await of_map(control, state, map_) for map_ in state.maps.values()],
        "effects": [await of_effect(control, *each, tenant=state.tenant) for each in effects],
        "scores": [of_score(each) for each in await control.scores(state.run)],
    }


class RecordRow(TypedDict):
    """The record of a run, to replay it elsewhere."""

    run_id: field.RunId
    record: Annotated[Any, doc("The record, as `holdfast runs export` writes it.")]


class NodeCostRow(TypedDict):
    """The cost of a node's calls."""

    node: field.Node
    visits: Annotated[int, doc("Number of visits: how often the run came to the node.")]
    cost_usd: Annotated[Dollars, doc("Dollars that the calls of the node have cost in this run.")]


def of_node_costs(state: State) -> list[NodeCostRow]:
    """Return the cost of each node's calls, in the order of their first cost; `visits` are the node's own."""
    return [
        {"node": node, "visits": state.visits.get(node, 0), "cost_usd": usd(cost)}
        for node, cost in state.cost_nanousd_by_node.items()
    ]


class DrawnNodeRow(TypedDict):
    """A node of a run's graph."""

    node: field.Node
    kind: Annotated[graphs.Kind, doc("Kind of node.")]
    status: Annotated[StepStatus | None, doc("The status of its latest visit; null before the first.")]
    visits: Annotated[int, doc("Number of visits: how often the run came to the node.")]
    cost_usd: Annotated[Dollars, doc("Dollars that the calls of the node have cost in this run.")]


class DrawnEdgeRow(TypedDict):
    """An edge of a run's graph."""

    source: Annotated[str, doc("Name of the node that the edge leaves.")]
    target: Annotated[str, doc("Name of the node that the edge leads to.")]
    when: Annotated[str | None, doc("The decision of the source that takes it.")]
    guard: Annotated[str | None, doc("The function that must allow it.")]
    on: Annotated[Literal["success", "error"], doc("Event that takes the edge: the source completes, or fails.")]
    state: Annotated[EdgeState, doc("State of the edge in the current visit of its source.")]


class DrawnOperationRow(TypedDict):
    """An operation of a flow, as a node of its graph."""

    id: Annotated[str, doc("Its step and place, `STEP/PATH`.")]
    kind: Annotated[operations.OperationKind, doc("Kind of operation.")]
    name: Annotated[str, doc("Name of the function, model, tool, signal or workflow; the reason of a question.")]
    status: Annotated[operations.RowStatus, doc("Status of the operation.")]
    began_at: Annotated[Time, doc("Time at which it began.")]
    ended_at: Annotated[Time | None, doc("Time at which it ended; null if it has not ended.")]
    cost_usd: Annotated[Dollars, doc("Dollars that it has cost.")]
    about: Annotated[str | None, doc("Id of the gate, of the child run or of the call.")]
    after: Annotated[list[str], doc("Operations that it followed at once, by their ids.")]


class DrawingRow(TypedDict):
    """The graph of a run."""

    run_id: field.RunId
    workflow: field.Workflow
    version: field.Version
    graph_hash: field.GraphHash
    nodes: Annotated[list[DrawnNodeRow], doc("Nodes of the graph, each with its latest visit.")]
    edges: Annotated[list[DrawnEdgeRow], doc("Edges of the graph, each taken or not.")]
    operations: Annotated[list[DrawnOperationRow], doc("Of a flow: its operations as far as it ran; else empty.")]
    left_out: Annotated[int, doc("Number of earlier operations of the flow that are left out.")]


MAX_DRAWN: Final = 300
"""Operations of a flow that are drawn, the latest."""


def of_drawing(graph: graphs.Graph, state: State, rows: Sequence[operations.OperationRow] = ()) -> DrawingRow:
    """A run's graph: how the latest visit of each node stands (null before the first) and which edges were taken. `rows` are
    the operations of a flow."""
    drawn = rows[-MAX_DRAWN:]
    after: dict[int, list[str]] = {}
    for source, target in follows(drawn):
        after.setdefault(target, []).append(f"{drawn[source].step}/{drawn[source].path}")
    return {
        "operations": [_drawn(row, after.get(place, [])) for place, row in enumerate(drawn)],
        "left_out": len(rows) - len(drawn),
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


def _drawn(row: operations.OperationRow, after: list[str]) -> DrawnOperationRow:
    return {
        "id": f"{row.step}/{row.path}",
        "kind": row.kind,
        "name": row.name,
        "status": row.status,
        "began_at": iso(row.began_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "cost_usd": usd(row.cost_nanousd),
        "about": row.about,
        "after": after,
    }


class RunRow(TypedDict):
    """A run in a list."""

    run_id: field.RunId
    workflow: field.Workflow
    version: field.Version
    status: field.Status
    tenant: field.Tenant
    key: field.Key
    tags: field.Tags
    labels: field.Labels
    started_at: field.StartedAt
    updated_at: field.UpdatedAt
    ended_at: field.EndedAt
    cost_usd: field.CostUsd
    held_usd: field.HeldUsd
    limit_usd: field.LimitUsd
    waiting_for: Waits
    workflow_missing_since: field.MissingSince


def of_row(row: projection.RunRow, missing_ms: int | None = None, labels: Sequence[Pair] = ()) -> RunRow:
    """A run as lists show it; `missing_ms` is since when no living process can go on with it."""
    waits = json.loads(row.waiting_for)
    if not waits and status.waits_for_nothing(row.status, ()):  # early versions have nothing of it
        waits = [status.describe(status.for_nothing(row.run, row.updated_at_ms))]
    return {
        "run_id": row.run,
        "workflow": row.workflow,
        "version": row.version,
        "status": row.status,
        "tenant": row.tenant,
        "key": row.key,
        "tags": [tag for key, tag in labels if not key],
        "labels": {key: value for key, value in labels if key},
        "started_at": iso(row.started_at_ms),
        "updated_at": iso(row.updated_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "cost_usd": usd(row.settled_nanousd),
        "held_usd": usd(row.held_nanousd + row.in_doubt_nanousd),
        "limit_usd": maybe_usd(row.limit_nanousd),
        "waiting_for": waits,
        "workflow_missing_since": iso(missing_ms),
    }


class LabelRow(TypedDict):
    """A number of runs of a workflow that have a label and a status."""

    key: Annotated[str, doc("Key of the label.")]
    value: Annotated[str, doc("Value of the label.")]
    workflow: field.Workflow
    status: field.Status
    runs: Annotated[int, doc("Number of runs of the workflow with this label and status.")]


class TreeRunRow(TypedDict):
    """A run of a tree. One that was requested and has not started has no more than its id, its place and its tokens."""

    parent_id: Annotated[str | None, doc("The run that has started it; null at the top of the whole tree.")]
    depth: Annotated[int, doc("Number of runs above it in this tree.")]
    tokens: Annotated[int, doc("Tokens that its calls have used.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for calls in flight.")]
    max_tokens: Annotated[int | None, doc("Its limit on tokens; null for none.")]
    run_id: field.RunId
    status: Annotated[TreeStatus, doc("Status of the run; `requested` before it has started.")]
    workflow: NotRequired[field.Workflow]
    version: NotRequired[field.Version]
    tenant: NotRequired[field.Tenant]
    key: NotRequired[field.Key]
    tags: NotRequired[field.Tags]
    labels: NotRequired[field.Labels]
    started_at: NotRequired[field.StartedAt]
    updated_at: NotRequired[field.UpdatedAt]
    ended_at: NotRequired[field.EndedAt]
    cost_usd: NotRequired[field.CostUsd]
    held_usd: NotRequired[field.HeldUsd]
    limit_usd: NotRequired[field.LimitUsd]
    waiting_for: NotRequired[Waits]
    workflow_missing_since: NotRequired[field.MissingSince]


class TreeRow(TypedDict):
    """A run and all runs below it."""

    run_id: Annotated[str, doc("Id of the run at the top of this tree.")]
    root_id: Annotated[str, doc("The run at the top of the whole tree.")]
    cost_usd: Annotated[Dollars, doc("Dollars that all runs together have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for all of them.")]
    limit_usd: Annotated[Dollars | None, doc("The cost limit of the first run.")]
    tokens: Annotated[int, doc("Tokens that all runs together have used.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for all of them.")]
    max_tokens: Annotated[int | None, doc("The limit on tokens of the first run.")]
    is_whole: Annotated[bool, doc("False if there are more runs than are listed: too many, or hidden ones.")]
    runs: Annotated[list[TreeRunRow], doc("Each run before its children.")]


def of_tree(tree: Tree) -> TreeRow:
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
        "runs": [_of_member(each) for each in tree.members],
    }


def _of_member(member: Member) -> TreeRunRow:
    place: TreeRunRow = {
        "parent_id": member.parent,
        "depth": member.depth,
        "run_id": member.run,
        "status": "requested",
        "tokens": member.tokens.used,
        "held_tokens": member.tokens.outstanding,
        "max_tokens": member.tokens.limit,
    }
    return place if member.row is None else {**place, **of_row(member.row)}


def of_step(step: Step, workers: Mapping[SessionId, str]) -> StepRow:
    """The latest visit of a node. It began with its first attempt; it changed when it became what it is."""
    return {
        "step": step.id,
        "status": step.status,
        "attempts": step.attempt - step.resumptions,
        "resumptions": step.resumptions,
        "began_at": iso(step.began_ms or None),
        "changed_at": iso(step.since_ms),
        "retry_at": iso(step.retry_at_ms),
        "worker": None if step.worker is None else workers.get(step.worker, step.worker),
        "decisions": None if step.decisions is None else list(step.decisions),
        "error": error_of(step.error),
        "reason": step.reason,
    }


async def of_map(control: Control, state: State, map_: Map) -> MapRow:
    """A list that is done item by item. `failures` are the first of the items that failed and might; `runs items` has all."""
    run, opened = control.run(state.run), map_.opened
    failures = [each for seq in map_.failures for each in await run.events(seq - 1, 1)]
    return {
        "map": opened.map,
        "step": opened.step,
        "status": _HOW[map_.ended],
        "items": opened.count,
        "completed": map_.completed - len(map_.provisional),
        "failed": map_.failed + len(map_.provisional) + sum(state.steps[name].status == "failed" for name in map_.stuck),
        "under_way": len(map_.items),
        "failures": [await of_item(control, each, state.tenant) for each in failures],
    }


async def of_item(control: Control, recorded: Recorded, tenant: str) -> ItemRow:
    """Return the row of a map's ended item. An item that completed with a recorded failure counts as failed."""
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


_ENDS: Final[dict[str, ItemStatus]] = {"StepCompleted": "completed", "StepFailed": "failed", "StepCancelled": "cancelled"}
_HOW: Final[dict[str, MapStatus]] = {"": "running", "met": "completed", "failed": "failed"}
