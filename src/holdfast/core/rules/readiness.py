"""Readiness: the nodes that may start or never will, the guards that must answer first, and the events that wake a suspended
step.

A suspended step has something that wakes it. One that breaks this rule waits for ever unless it is started again: a tick does.
It reads the graph and the state and changes neither. Never here: starting anything (core.decide does).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from holdfast.core.facts.graph import GOING_ON, Edge, Graph, Node
from holdfast.core.facts.state import (
    AWAITED,
    CHILD,
    MAP,
    SHARED_WAIT,
    SLEEP,
    UNDONE,
    DerivedValue,
    Operation,
    State,
    Step,
    verdict_key,
)
from holdfast.core.rules.questions import CODE_CHANGED, LIMITS
from holdfast.core.values.ids import NodeName, Path, StepId, is_item, map_of, node_of, step_id, visit_of
from holdfast.core.values.policies import ErrorRecord

EdgeState = Literal["undecided", "taken", "not_taken"]
Standing = Literal["waiting", "ready", "skipped", "guard"]

TOLERANT: Final = frozenset({"any", "quorum", "best_effort"})
"""The joins for which a failed branch is just a branch that was not taken."""

_LIMITS_ON_TIME: Final = (LIMITS["active"], LIMITS["wall"])
"""The gates while which nothing new begins in a step that runs already; raising the limit wakes it."""
_ON_CHILDREN: Final = (CHILD, AWAITED, UNDONE)


class Judgement(NamedTuple):
    """The state of a node that has not started. `reason` says why it is skipped."""

    standing: Standing
    reason: str = ""


_WAITING: Final = Judgement("waiting")
_READY: Final = Judgement("ready")
_GUARD: Final = Judgement("guard")


def next_step(state: State, node: NodeName) -> StepId:
    """The id of the node's next visit. An item is visited with the step that maps it."""
    if is_item(node):
        return step_id(node, visit_of(state.maps[map_of(node)].opened.step))
    return step_id(node, state.visits.get(node, 0) + 1)


def judge(graph: Graph, state: State, name: NodeName) -> Judgement:
    """Return the state of the node `name`, which has no current step."""
    node = graph.nodes[name]
    if name in state.summoned or not graph.incoming[name]:
        met = _READY
    else:
        met = _join(graph, state, node)
    if node.guard is not None and met.standing == "ready":
        allowed = state.verdicts.get(verdict_key(next_step(state, name), None, node.guard))
        if allowed is None:
            return _GUARD
        if not allowed:
            return Judgement("skipped", f"its guard {node.guard!r} denied it")
    return met


def _join(graph: Graph, state: State, node: Node) -> Judgement:
    tally = tally_of(graph, state, node.name)
    taken, undecided = tally.taken, tally.undecided
    mode = node.join.mode
    if mode == "any":
        if taken:
            return _READY
        return _unmet(undecided == 0, "none of its incoming edges was taken")
    if mode == "quorum":
        if taken >= node.join.count:
            return _READY
        most = taken + undecided
        return _unmet(most < node.join.count, f"only {most} of the {node.join.count} branches it needs can arrive")
    if mode == "best_effort":
        timed_out = node.name in state.joins and state.joins[node.name] is None
        return _READY if undecided == 0 or timed_out else _WAITING
    if mode == "all_required":
        if tally.required_lost:
            return Judgement("skipped", "a required incoming edge was not taken")
        return _WAITING if tally.required_open else _READY
    if tally.required_open:
        return _WAITING
    if taken:
        return _READY
    return _unmet(undecided == 0, "none of its incoming edges was taken")


class Tally:
    """A count of a node's incoming edges: taken, undecided, and of those that it requires, undecided and not taken. If every
    edge is optional, each is required."""

    __slots__ = ("_known", "_requires_all", "required_lost", "required_open", "taken", "undecided")

    def __init__(self, *, requires_all: bool) -> None:
        self.taken = self.undecided = self.required_open = self.required_lost = 0
        self._requires_all = requires_all
        self._known: dict[int, EdgeState] = {}
        """How each edge counts."""

    def count(self, edge: Edge, state: EdgeState) -> None:
        """From now on the edge counts as that."""
        before = self._known.get(id(edge))
        if before == state:
            return
        if before is not None:
            self._add(edge, before, -1)
        self._known[id(edge)] = state
        self._add(edge, state, 1)

    def state_of(self, edge: Edge) -> EdgeState:
        return self._known[id(edge)]

    def _add(self, edge: Edge, state: EdgeState, one: int) -> None:
        required = one if self._requires_all or not edge.optional else 0
        if state == "taken":
            self.taken += one
        elif state == "undecided":
            self.undecided += one
            self.required_open += required
        else:
            self.required_lost += required


class _Tallies(DerivedValue):
    """The tallies of the nodes that wait, so that a node which joins thousands is not counted through for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.graph: Graph | None = None
        self.of: dict[NodeName, Tally] = {}


def tally_of(graph: Graph, state: State, name: NodeName) -> Tally:
    """Return the counts of the edges that lead to `name`, which has no current step."""
    tallies = state.derived(_Tallies)
    if tallies.graph is not graph:
        tallies.graph = graph
        tallies.of.clear()
    while tallies.moved:
        moved, _ = tallies.moved.popitem()
        if moved in state.steps:
            tallies.of.pop(moved, None)  # it waits no more
        for edge in graph.outgoing.get(moved, ()) if tallies.of else ():
            if (known := tallies.of.get(edge.target)) is not None:
                known.count(edge, edge_state(graph, state, edge))
    tally = tallies.of.get(name)
    if tally is None:
        tally = tallies.of[name] = Tally(requires_all=name in graph.all_optional)
        for edge in graph.incoming[name]:
            tally.count(edge, edge_state(graph, state, edge))
    return tally


def _unmet(never: bool, reason: str) -> Judgement:
    return Judgement("skipped", reason) if never else _WAITING


def edge_state(graph: Graph, state: State, edge: Edge) -> EdgeState:
    """Return whether `edge` is taken, for the current visit of its source."""
    step = state.steps.get(edge.source)
    if step is None:
        return "undecided"
    if step.status in ("skipped", "cancelled"):
        return "not_taken"
    if step.status == "failed":
        if step.parked:
            return "undecided"
        if not step.absorbed:
            return "not_taken"
        if edge.on == "error":
            return _guarded(state, step, edge)
        goes_on = graph.nodes[edge.source].continue_on_error and not graph.errors_from[edge.source]
        return _guarded(state, step, edge) if goes_on and edge.when is None else "not_taken"
    if step.status != "completed":
        return "undecided"
    if edge.on == "error" or not chosen(graph, edge, step.decisions):
        return "not_taken"
    # As long as a loop may take the run back, nothing goes on from here.
    for loop in graph.loops_from.get(edge.source, ()):
        if loop_state(graph, state, loop) != "not_taken":
            return "undecided"
    return _guarded(state, step, edge)


def loop_state(graph: Graph, state: State, loop: Edge) -> EdgeState:
    """Return whether the loop edge is taken now that its source has completed."""
    step = state.steps.get(loop.source)
    if step is None or step.status != "completed":
        return "undecided" if step is None or step.status not in ("skipped", "cancelled", "failed") else "not_taken"
    if not may_loop(state, loop) or not chosen(graph, loop, step.decisions):
        return "not_taken"
    return _guarded(state, step, loop)


def may_loop(state: State, loop: Edge) -> bool:
    return state.visits.get(loop.target, 0) < (loop.max_visits or 0)


def chosen(graph: Graph, edge: Edge, decisions: tuple[str, ...] | None) -> bool:
    """True if a completion with `decisions` takes `edge`, guards aside.

    A branch names each edge that it takes, by the edge's `when` or its target, and so may a task. At a gate or a check the
    edges without a name follow any decision that goes on; a check's loop without a name is for `retry`.
    """
    if decisions is None:
        return edge.when is None
    if edge.when is not None:
        return edge.when in decisions
    kind = graph.nodes[edge.source].kind
    if kind in ("branch", "task"):
        return edge.target in decisions
    if edge.max_visits is not None:
        return "retry" in decisions
    return any(decision in GOING_ON for decision in decisions)


def _guarded(state: State, step: Step, edge: Edge) -> EdgeState:
    if edge.guard is None:
        return "taken"
    allowed = state.verdicts.get(verdict_key(step.id, edge.target, edge.guard))
    if allowed is None:
        return "undecided"
    return "taken" if allowed else "not_taken"


def absorbed(graph: Graph, state: State, name: NodeName) -> bool:
    """True if the graph handles the failure of `name`, so that the run goes on."""
    return bool(graph.errors_from.get(name) or graph.nodes[name].continue_on_error) or tolerated(graph, state, name)


def tolerated(graph: Graph, state: State, name: NodeName) -> bool:
    """True if every way on from `name` ends in a join that can do without it: then it is only a branch that failed.

    A branch may be a chain of nodes: those that can only follow from `name` are lost with it.
    """
    if not graph.successors[name]:
        return False
    lost = {name}
    ahead = [(graph.place[each], each) for each in graph.successors[name]]
    heapq.heapify(ahead)
    while ahead:
        _, node = heapq.heappop(ahead)
        if node in lost or _does_without(graph, state, node, lost):
            continue
        certain = graph.nodes[node].join.mode != "all" or all(edge.source in lost for edge in graph.incoming[node])
        if node in state.steps or not certain or not graph.successors[node]:
            return False
        lost.add(node)
        for each in graph.successors[node]:
            heapq.heappush(ahead, (graph.place[each], each))
    return True


def _does_without(graph: Graph, state: State, node: NodeName, lost: set[NodeName]) -> bool:
    """True if the join at `node` has been met, or can be, without the branches that end in `lost`."""
    join = graph.nodes[node].join
    if node in state.steps and (join.mode in TOLERANT or state.steps[node].status != "skipped"):
        return True
    if join.mode == "best_effort":
        return True
    without = [edge for each in lost for edge in graph.outgoing[each] if edge.target == node]
    if join.mode in TOLERANT:
        tally = tally_of(graph, state, node)
        open_ = tally.taken + tally.undecided - sum(tally.state_of(edge) != "not_taken" for edge in without)
        return open_ >= (join.count if join.mode == "quorum" else 1)
    return node not in graph.all_optional and all(edge.optional for edge in without)


def unhandled_failure(graph: Graph, state: State, name: NodeName) -> ErrorRecord | None:
    """The error for which `name`, a tolerant join that was skipped, was not met; None if none of its branches failed."""
    sources = {edge.source for edge in graph.incoming[name]} | graph.losers(name)
    for source in graph.order:
        step = state.steps.get(source)
        if source not in sources or step is None or step.status != "failed" or step.error is None or step.parked:
            continue
        if not graph.errors_from[source] and not graph.nodes[source].continue_on_error:
            return step.error
    return None


def denied_failure(graph: Graph, state: State, name: NodeName) -> ErrorRecord | None:
    """The error of `name` where guards have denied every edge that was to take it up."""
    step = state.steps.get(name)
    if step is None or step.status != "failed" or step.parked or not graph.errors_from.get(name):
        return None
    if graph.nodes[name].continue_on_error:
        return None
    ways = [edge_state(graph, state, edge) for edge in graph.outgoing[name] if edge.on == "error"]
    return step.error if all(way == "not_taken" for way in ways) else None


def guards_after(graph: Graph, state: State, name: NodeName) -> Iterator[tuple[Edge, Step]]:
    """The edges that leave `name` and whose guard must speak before they are decided."""
    step = state.steps.get(name)
    if step is None:
        return
    for edge in (*graph.outgoing[name], *graph.loops_from.get(name, ())):
        if edge.guard is None or verdict_key(step.id, edge.target, edge.guard) in state.verdicts:
            continue
        how = loop_state if edge.max_visits is not None else edge_state
        if step.status in ("completed", "failed") and how(graph, state, edge) == "undecided":
            yield edge, step


def is_stuck(state: State, step: Step) -> bool:
    """True if the step is suspended, may not start, and nothing in the run will ever wake it."""
    if step.status != "suspended":
        return False
    name = node_of(step.id)
    return not (name in state.startable or name in state.unplaced or will_wake(state, step))


def will_wake(state: State, step: Step) -> bool:
    """True if something is open that lets the step go on when it comes: an operation's outcome, or a person's answer."""
    journal = step.journal
    for path in step.pending:
        if brings(state, step, path, journal[path]):
            return True
    for gate in state.gates.values():
        reason = gate.opened.reason
        if reason in _LIMITS_ON_TIME:
            return True
        if reason == CODE_CHANGED and gate.opened.subject == step.id and step.status != "active":
            return True  # of an attempt that leaves without stopping the question is taken back
    return False


def brings(state: State, step: Step, path: Path, op: Operation) -> bool:
    """True if an operation without an outcome gets one, or is begun again, by itself or from outside."""
    match op.status:
        case "open":
            return _is_open(state, step, path, op)
        case "deferred":
            place = f"{step.id}:{path}"
            return place in state.deferred or place in state.short
        case "in_doubt":
            return op.call in state.calls
        case "retrying":
            return op.due_at_ms is not None
        case _:  # reopened or to be verified: only the step itself goes on with it
            return False


def _is_open(state: State, step: Step, path: Path, op: Operation) -> bool:
    kind = op.kind
    if kind == SLEEP:
        return op.due_at_ms is not None
    if kind == "gate":
        return op.gate in state.gates
    if kind in ("model", "tool"):
        return op.call in state.calls
    if kind == MAP:
        return any(state.maps[name].opened.path == path and not state.maps[name].ended for name in step.maps)
    if kind in _ON_CHILDREN:
        child = state.children.get(op.child) if op.child is not None else None
        return child is not None and not child.ended
    if kind == SHARED_WAIT:
        return f"{step.id}:{path}" in state.shared_waits
    return kind == "signal"


def has_suspended(state: State) -> bool:
    """True if the run has unfinished steps that are not active. It is asked at each commit, and most have none."""
    return len(state.unfinished) > len(state.active)


def stuck(state: State) -> list[Step]:
    """The steps of a run that nothing will wake: a fault of whatever suspended them."""
    if state.ended:
        return []
    steps = state.steps
    return [step for name in state.timed() if is_stuck(state, step := steps[name])]
