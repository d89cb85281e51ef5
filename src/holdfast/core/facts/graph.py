"""A workflow's shape: nodes, edges, joins and limits; checked once, compiled once, identified by its hash.

Never here: a handler, a run, anything that changes.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.nouns.tool_policy import ToolRule, quorum_problems
from holdfast.core.values.demand import LABEL, NOTHING, Demand
from holdfast.core.values.ids import NodeName, is_item, map_of, root_of
from holdfast.core.values.policies import DEFAULT_RETRY, OnLimit, RetryPolicy
from holdfast.errors import InvalidWorkflow

Kind = Literal["task", "llm_node", "tool_node", "remote_task", "child", "human_gate", "branch", "check", "map"]
"""- `task`: plain Python, async or not; with `ctx` it may use operations
- `llm_node`: one model call, or a loop of calls over tools
- `tool_node`: one call of a tool
- `remote_task`: a task that a connected worker performs, in any language
- `child`: a run of another workflow
- `human_gate`: a person decides
- `branch`: chooses the edges: by a function, or by a model that may choose only among them
- `check`: validates: passes, fails, or sends back along a loop
- `map`: a list whose items are done one by one, each as a step of its own
"""
MAPPABLE: Final = frozenset({"task", "llm_node", "tool_node", "remote_task", "child"})
"""The kinds of steps that the items of a map may be. The others decide which edges are taken, and an item has none."""
JoinMode = Literal["all", "all_required", "any", "quorum", "best_effort"]
"""When a node with several incoming edges starts. An optional edge is not waited for.

- `all`: every required edge is decided and at least one is taken; skipped when none is. The default
- `all_required`: every required edge is taken; skipped when one is not
- `any`: one edge is taken; skipped when all are decided and none is
- `quorum`: `count` edges are taken; skipped when too few still can be
- `best_effort`: all edges are decided, or its time is up; never skipped. The others fail when their time is up
"""

COMPENSATE: Final = NodeName("!compensate")
"""The step in which a failing or cancelled run undoes its effects. No user's node can have this name."""

FLOW: Final = NodeName("flow")
"""The only node of a flow, whatever its function is called: it counts for the workflow's hash."""
CLEANUP_S: Final = 60.0
"""The time that a flow has to clean up when its run is cancelled, unless it says so itself."""

EXPIRED: Final = "expired"
"""The verdict of a gate that was not answered in time: only edges that name it are taken, and no person can give it."""
GATE_DECISIONS: Final = ("approve", "edit", "reject", "answer", "retry")
"""- `approve`: go on with what is shown; data may fill in open fields of the form, and change nothing
- `edit`: go on with changed data
- `answer`: go on with the data given
- `reject`: do not go on; takes only edges that name it, else the run fails
- `retry`: go back along an edge or loop that names it; at the engine's own gates: try again

A `human_gate` may offer others of its own; each takes only edges that name it.
"""
MAX_OF_DECISION: Final = 40
"""Characters of a decision that a gate offers of its own."""
GOING_ON: Final = frozenset({"approve", "edit", "answer", "pass"})
"""The decisions that also take the edges which name none."""
CHECK_DECISIONS: Final = ("pass", "fail", "retry")
"""- `pass`: go on
- `fail`: takes only edges that name it, else the step fails
- `retry`: go back along a loop that names it
"""

FieldStrategy: TypeAlias = Literal["last_write", "first_write", "merge", "append", "sum", "reject"]
"""The ways to merge two patches of one field: the later counts; the earlier does; objects are merged, and what is
there counts; lists of all patches are joined; numbers are added; the step fails."""
FIELD_STRATEGIES: Final[tuple[FieldStrategy, ...]] = ("last_write", "first_write", "merge", "append", "sum", "reject")

MAX_ITEMS: Final = 100_000
"""In one map. The state keeps a number for each, and a megabyte is written down in a moment."""
MAX_PARALLEL: Final = 1000
"""Items of a map under way at once: each is a step in the state, and looked at with each decision."""
MAX_NODES: Final = 10_000
MAX_VISITS: Final = 1_000_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,119}\Z")


class Join(msgspec.Struct, frozen=True, omit_defaults=True):
    """The condition under which a node with several incoming edges starts."""

    mode: JoinMode = "all"
    """Mode, one of the joins in the list of codes."""
    count: int = 0
    """Number of edges for the mode `quorum`."""
    timeout_s: float | None = None
    """Longest wait in seconds; by default no limit."""


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unit of work in the graph. `options` are the kind's own settings; they count for the workflow's hash.

    One whose `demand` is more than a slot is placed before it starts.
    """

    name: NodeName
    kind: Kind
    join: Join = Join()
    guard: str | None = None
    retry: RetryPolicy = DEFAULT_RETRY
    timeout_s: float | None = None
    continue_on_error: bool = False
    options: dict[str, Any] = {}
    demand: Demand = NOTHING
    each: Node | None = None
    """The work for each item of a map, under the map's name."""

    @property
    def decides(self) -> bool:
        """True if its completion names the edges that are taken."""
        return self.kind in ("branch", "human_gate", "check")


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way from one node to another. `when` is a decision of the source, `guard` a named function of the state.

    With `max_visits` it is a loop: it leads back, and its target starts at most that often in a run.
    """

    source: NodeName
    target: NodeName
    when: str | None = None
    guard: str | None = None
    on: Literal["success", "error"] = "success"
    optional: bool = False
    max_visits: int | None = None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a run, at which it stops and asks. Active time counts while an attempt runs, wall time and lifespan
    always."""

    cost_nanousd: int | None = None
    max_steps: int = 1000
    max_tokens: int | None = None
    max_active_s: float | None = None
    max_lifespan_s: float | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_wall_s: float | None = None


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a workflow's identity covers."""

    name: str
    version: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    limits: Limits = Limits()
    on_limit: OnLimit = "ask"
    on_exhausted: Literal["fail", "dead_letter"] = "fail"
    snapshot_every: int = 25
    runs_on: tuple[str, ...] = ()
    """Labels, in order: a process that lacks one leaves the runs to others."""
    state: dict[str, FieldStrategy] = {}
    """The fields of the typed state with the strategy of each, by name, where any has one of its own."""
    tool_rules: tuple[ToolRule, ...] = ()


class Graph:
    """A definition that has passed every check, with what the rules ask of it already looked up."""

    __slots__ = (
        "_losers",
        "all_optional",
        "definition",
        "demanding",
        "demands",
        "encoded",
        "entries",
        "errors_from",
        "guarded",
        "has_scripts",
        "hash",
        "incoming",
        "loop_body",
        "loops_from",
        "nodes",
        "order",
        "outgoing",
        "place",
        "successors",
    )

    @property
    def cleanup_s(self) -> float | None:
        """The time that its flow has to clean up when a run is cancelled; None where it is no flow."""
        node = self.nodes.get(FLOW)
        if node is None or node.kind != "task" or len(self.nodes) > 1:
            return None
        return float(node.options.get("cleanup_s", CLEANUP_S))

    def __init__(self, definition: Definition, *, is_accepted: bool = False) -> None:
        """Raises InvalidWorkflow with every problem found. Of one that `is_accepted` none is sought: runs follow it, and a
        check that came later must not strand them."""
        problems = [] if is_accepted else list(_problems(definition))
        if problems:
            raise InvalidWorkflow(definition.name, problems)
        # As it will be read back: a bound of 30 is one of 30.0, and both are the same workflow.
        definition = msgspec.json.decode(msgspec.json.encode(definition), type=Definition)
        self.definition = definition
        self.encoded = msgspec.json.encode(definition, order="sorted")
        self.hash = hashlib.sha256(self.encoded).hexdigest()
        self.nodes = {node.name: node for node in definition.nodes}
        self.demanding = {node.name: node.demand for node in definition.nodes if node.demand != NOTHING}
        """The nodes that are to be placed, and what they ask for."""
        each = [node.each.demand for node in definition.nodes if node.each is not None]
        # Of a job whose combinations are steps it is known what each asks for; True, where that is known only when it begins.
        spread = [said for node in definition.nodes if (said := node.options.get("spreads"))]
        each += [msgspec.convert(said, Demand) for said in spread if said is not True]
        self.demands = (*self.demanding.values(), *(demand for demand in each if demand != NOTHING))
        """All that its steps ask for, those of items included."""
        self.has_scripts = bool(spread) or any(demand.runs_scripts for demand in self.demands)
        forward = [edge for edge in definition.edges if edge.max_visits is None]
        outgoing: dict[NodeName, list[Edge]] = {name: [] for name in self.nodes}
        incoming: dict[NodeName, list[Edge]] = {name: [] for name in self.nodes}
        for edge in forward:
            outgoing[edge.source].append(edge)
            incoming[edge.target].append(edge)
        self.outgoing = {name: tuple(edges) for name, edges in outgoing.items()}
        self.incoming = {name: tuple(edges) for name, edges in incoming.items()}
        self.all_optional = frozenset(name for name, edges in self.incoming.items() if all(edge.optional for edge in edges))
        self.guarded = frozenset(edge.source for edge in definition.edges if edge.guard is not None)
        """The nodes after which a guard may have to speak."""
        self.errors_from = {name: any(e.on == "error" for e in edges) for name, edges in self.outgoing.items()}
        loops_from: dict[NodeName, list[Edge]] = {}
        for edge in definition.edges:
            if edge.max_visits is not None:
                loops_from.setdefault(edge.source, []).append(edge)
        self.loops_from = {name: tuple(loops) for name, loops in loops_from.items()}
        self.successors = {name: tuple(dict.fromkeys(e.target for e in edges)) for name, edges in self.outgoing.items()}
        self.order = tuple(_topological(self.nodes, self.successors))
        self.place = {name: place for place, name in enumerate(self.order)}
        self.entries = tuple(name for name in self.order if not self.incoming[name])
        self.loop_body = {
            edge.target: frozenset(reachable([edge.target], self.successors))
            for loops in self.loops_from.values()
            for edge in loops
        }
        self._losers: dict[NodeName, frozenset[NodeName]] = {}

    def node(self, name: NodeName) -> Node | None:
        """Return the work of a step of that name: the node, or what a map node does with each item; None where the graph does
        not say, as of what a flow maps."""
        node = self.nodes.get(name)
        if node is None and is_item(name) and "[" not in map_of(name):
            found = self.nodes.get(root_of(name))
            return found.each if found is not None else None
        return node

    def demand_of(self, node: Node) -> Demand | None:
        """Return the demand of a step of the node beside a slot; None if it has none."""
        return node.demand if node.demand != NOTHING else None

    def losers(self, join: NodeName) -> frozenset[NodeName]:
        """The nodes whose every way forward ends in `join`: of no use once it has started without them."""
        known = self._losers.get(join)
        if known is None:
            found = {join}
            for name in reversed(self.order):
                after = self.successors[name]
                if after and all(target in found for target in after):
                    found.add(name)
            known = self._losers[join] = frozenset(found - {join})
        return known


def _problems(definition: Definition) -> Iterable[str]:
    """Everything that is wrong with a definition; each line names the node and says what to do."""
    if not definition.nodes:
        yield "it has no nodes; add one with @wf.node(...)"
        return
    if len(definition.nodes) > MAX_NODES:
        yield f"it has {len(definition.nodes)} nodes; at most {MAX_NODES} are possible, split it into several workflows"
        return
    names: set[NodeName] = set()
    for node in definition.nodes:
        if not _NAME.match(node.name):
            yield f"node {node.name!r}: a name is a letter followed by letters, digits, '_', '-' or '.'; rename it"
        if node.name in names:
            yield f"node {node.name!r} is defined twice; give one of the two another name"
        names.add(node.name)
        yield from _node_problems(node)
    sound = []
    seen: set[tuple[object, ...]] = set()
    for edge in definition.edges:
        label = f"edge {edge.source!r} → {edge.target!r}"
        missing = [end for end in (edge.source, edge.target) if end not in names]
        for end in missing:
            yield f"{label}: there is no node {end!r}; add it with @wf.node({end!r}) or mend the edge"
        identity = (edge.source, edge.target, edge.when, edge.on, edge.max_visits is None)
        if identity in seen:
            yield f"{label} is declared twice; remove one"
        seen.add(identity)
        if not missing:
            sound.append(edge)
    by_name = {node.name: node for node in definition.nodes}
    for node in definition.nodes:
        yield from _gate_problems(node, sound)
        yield from _not_by_problems(node, by_name)
        yield from _quorum_problems(node)
    for edge in sound:
        yield from _edge_problems(edge, by_name[edge.source])
    yield from _shape_problems(by_name, sound)
    yield from _limit_problems(definition)
    yield from _label_problems(definition)


def _label_problems(definition: Definition) -> Iterable[str]:
    for label in definition.runs_on:
        if not LABEL.fullmatch(label):
            yield f"runs_on has {label!r:.130}; a label is 1 to 100 characters without blanks and commas, like gpu or zone=eu"


def _limit_problems(definition: Definition) -> Iterable[str]:
    limits = definition.limits
    if limits.cost_nanousd is not None and limits.cost_nanousd < 0:
        yield f"cost_nanousd is {limits.cost_nanousd}; it must not be below zero"
    for what, value in (
        ("max_steps", limits.max_steps),
        ("max_tokens", limits.max_tokens),
        ("max_active_s", limits.max_active_s),
        ("max_lifespan_s", limits.max_lifespan_s),
        ("max_model_calls", limits.max_model_calls),
        ("max_tool_calls", limits.max_tool_calls),
        ("max_wall_s", limits.max_wall_s),
        ("snapshot_every", definition.snapshot_every),
    ):
        if value is not None and not _sound(value):
            yield f"{what} is {value}; it must be above zero, and finite"


def _sound(value: float) -> bool:
    """Return True if a bound is one: NaN would never be reached, and infinity has no JSON."""
    return 0 < value < math.inf


def _node_problems(node: Node) -> Iterable[str]:
    if node.join.mode == "quorum" and node.join.count < 1:
        yield f"node {node.name!r}: a quorum needs the number of branches it waits for, at least 1"
    if node.join.timeout_s is not None and not _sound(node.join.timeout_s):
        yield f"node {node.name!r}: its join's time-out must be above zero, and finite"
    if node.timeout_s is not None and not _sound(node.timeout_s):
        yield f"node {node.name!r}: timeout_s must be above zero, and finite"
    if node.continue_on_error and node.kind in ("human_gate", "branch"):
        # What follows a gate is what a person decided; a failure, a rejection among them, must not pass for approval.
        yield (
            f"node {node.name!r}: a {node.kind} names the ways that are taken, so it cannot continue without a decision;"
            " drop continue_on_error and say where a failure goes with an edge on='error'"
        )
    if (node.each is not None) != (node.kind == "map"):
        yield f"node {node.name!r}: a map, and nothing else, says what is done for each item"
    if node.each is not None and node.each.kind not in MAPPABLE:
        yield (
            f"node {node.name!r}: an item cannot be a {node.each.kind}, which names the edges that are taken, and an item has"
            f" none; use {', '.join(sorted(MAPPABLE))}, or ask inside a task with ctx.ask"
        )
    if node.each is not None:
        yield from _node_problems(node.each)
    for problem in node.demand.problems():
        yield f"node {node.name!r}: its demand is wrong: {problem}"
    for problem in node.retry.problems():
        yield f"node {node.name!r}: its retry policy {problem}"


def _quorum_problems(node: Node) -> Iterable[str]:
    quorum = node.options.get("quorum", 1)
    for problem in quorum_problems(quorum, node.options.get("reviewers") or ()):
        yield f"node {node.name!r}: {problem}"
    decisions = node.options.get("decisions", GATE_DECISIONS)
    if quorum != 1 and ("approve" not in decisions or not {*decisions} <= {*GATE_DECISIONS}):
        yield f"node {node.name!r}: with quorum={quorum} its decisions are approve, and edit, reject or retry"


def _not_by_problems(node: Node, by_name: Mapping[NodeName, Node]) -> Iterable[str]:
    for name in node.options.get("not_by", ()):
        if name == node.name or (known := by_name.get(name)) is None or known.kind != "human_gate":
            yield f"node {node.name!r}: not_by={name!r} is no other human_gate of this workflow; name one that comes before"


def _gate_problems(node: Node, edges: Sequence[Edge]) -> Iterable[str]:
    if node.kind != "human_gate":
        return
    for decision in node.options.get("decisions", ()):
        if decision not in GATE_DECISIONS and not any((edge.source, edge.when) == (node.name, decision) for edge in edges):
            yield (
                f"node {node.name!r}: a person may decide {decision!r}, and no edge follows that;"
                f" add wf.edge({node.name!r}, …, when={decision!r})"
            )


def _edge_problems(edge: Edge, source: Node) -> Iterable[str]:
    label = f"edge {edge.source!r} → {edge.target!r}"
    if edge.when is not None and not source.decides:
        yield (
            f"{label}: when={edge.when!r} names a decision, but {source.name!r} is a {source.kind} and decides nothing;"
            f" register a guard of that name with @wf.guard, or make {source.name!r} a branch"
        )
    offered = (*GATE_DECISIONS, *source.options.get("decisions", ()), EXPIRED)
    possible = {"human_gate": offered, "check": CHECK_DECISIONS}.get(source.kind)
    if edge.when is not None and possible is not None and edge.when not in possible:
        yield f"{label}: a {source.kind} decides {', '.join(possible)}; when={edge.when!r} is never taken"
    if edge.on == "error" and edge.when is not None:
        yield f"{label}: an error edge follows a failure, which decides nothing; remove when={edge.when!r}"
    if edge.max_visits is None:
        return
    if not 1 < edge.max_visits <= MAX_VISITS:
        yield f"loop {edge.source!r} → {edge.target!r}: max_visits is {edge.max_visits}; use 2 to {MAX_VISITS}"
    if edge.on == "error":
        yield f"loop {edge.source!r} → {edge.target!r}: a loop follows success; use retry= for failures"
    if source.kind == "human_gate" and edge.when not in ("reject", "retry"):
        yield (
            f"loop {edge.source!r} → {edge.target!r}: a person must be able to leave it;"
            " name the decision that goes back with when='retry' or when='reject'"
        )


def _shape_problems(nodes: dict[NodeName, Node], edges: Sequence[Edge]) -> Iterable[str]:
    forward = [edge for edge in edges if edge.max_visits is None]
    successors: dict[NodeName, list[NodeName]] = {name: [] for name in nodes}
    for edge in forward:
        successors[edge.source].append(edge.target)
    ordered = set(_topological(nodes, successors))
    if len(ordered) < len(nodes):
        stuck = [name for name in nodes if name not in ordered]
        around = [name for name in stuck if name in reachable(successors[name], successors)]
        yield (
            f"nodes {', '.join(map(repr, around))} form a cycle; declare the edge that leads back"
            " with wf.loop(a, b, max_visits=...)"
        )
        unreached = [name for name in stuck if name not in around]
        if unreached:
            yield (
                f"nodes {', '.join(map(repr, unreached))} are reachable only through that cycle;"
                " they become reachable when it is a declared loop"
            )
        return
    touched = {end for edge in edges for end in (edge.source, edge.target)}
    for name in nodes:
        if edges and name not in touched and len(nodes) > 1:
            yield f"node {name!r} is unreachable: no edge leads to it or away from it; connect it with wf.edge or remove it"
    for edge in edges:
        if edge.max_visits is not None and edge.source not in reachable([edge.target], successors):
            yield (
                f"loop {edge.source!r} → {edge.target!r} does not lead back: {edge.source!r} does not come after"
                f" {edge.target!r}; use wf.edge for a way forward"
            )
    incoming: dict[NodeName, int] = dict.fromkeys(nodes, 0)
    for edge in forward:
        incoming[edge.target] += 1
    for node in nodes.values():
        if node.join.mode == "quorum" and node.join.count > incoming[node.name]:
            yield (
                f"node {node.name!r}: a quorum of {node.join.count} can never be met by {incoming[node.name]} incoming"
                " edges; lower it or add edges"
            )


def _topological(nodes: Iterable[NodeName], successors: dict[NodeName, Any]) -> list[NodeName]:
    """The nodes before their successors, in the order they were declared; those on or behind a cycle are left out."""
    waiting = dict.fromkeys(nodes, 0)
    for name in waiting:
        for target in successors[name]:
            waiting[target] += 1
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:  # grows while it is walked
        for target in successors[name]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ready


def reachable(start: Iterable[NodeName], successors: dict[NodeName, Any]) -> set[NodeName]:
    """`start` and everything that follows from it."""
    found: set[NodeName] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(successors[name])
    return found
