"""`Workflow`: nodes, edges and limits, collected by decorators and compiled into a core Graph.

Never here: a run, a store, an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, overload

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import ParamSpec, TypeVar

from holdfast.authoring.agents.offer import Handoff
from holdfast.authoring.child import mentioned
from holdfast.authoring.mapping import MapDefinition, item_definition
from holdfast.authoring.node import CODE, OFFERED, Guard, NodeDefinition, task
from holdfast.authoring.signal import Signal
from holdfast.authoring.tool import Tool
from holdfast.authoring.values.adapter import PLAIN, Adapter, adapter_of
from holdfast.authoring.values.arguments import describe, misfits
from holdfast.authoring.values.input_schema import schema_of
from holdfast.core.facts.graph import (
    CHECK_DECISIONS,
    FIELD_STRATEGIES,
    GATE_DECISIONS,
    Definition,
    Edge,
    FieldStrategy,
    Graph,
    Limits,
    Node,
)
from holdfast.core.facts.state import Map
from holdfast.core.nouns.tool_policy import ToolRule
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.ids import NodeName, is_item, map_of, node_of
from holdfast.core.values.money import nanousd
from holdfast.core.values.policies import OnLimit
from holdfast.errors import InvalidInput, InvalidWorkflow, UsageError

G = TypeVar("G", bound=Guard)
_WAITING: Final = frozenset({"wait_signal"})
Input = ParamSpec("Input", default=...)
"""The parameters of a workflow besides `ctx`; a graph takes anything."""
Output_co = TypeVar("Output_co", covariant=True, default=Any)
"""The result of its runs."""


class Workflow(Generic[Input, Output_co]):
    """A named, versioned graph of nodes. You can add to it until its first run.

    Args:
        name: Name of the workflow.
        version: Version of the workflow, 1 or higher.
        cost_limit_usd: Cost limit of each run in dollars, with all its children.
        input: Pydantic model that the input of a start must fit; by default any JSON data.
        state: Pydantic model of the run's typed state (`state.data`).
        state_strategies: Rules for patches of one field that meet, by field: `{"evidence": "append"}`.
        max_steps: Maximum number of steps of a run.
        max_tokens: Maximum number of tokens of a run, input and output together, with all its children.
        max_active_s: Maximum working time of a run in seconds, without waits.
        max_lifespan_s: Age in seconds at which a run is escalated; it goes on.
        max_model_calls: Maximum number of model calls of a run.
        max_tool_calls: Maximum number of tool calls of a run.
        max_wall_s: Maximum time since the start of a run in seconds, with waits.
        on_limit: Action at a limit: `ask` a person, `fail` the run, or `record` (dry run: go on and record where it would have
            stopped).
        on_exhausted: Action after a step has failed for good: `fail` the run, or keep the step as a `dead_letter` until a
            person decides.
        snapshot_every: Number of events between two snapshots of a run's state.
        tools: Tools that nodes may call by name.
        tool_rules: Rules by which calls of tools are made, asked about or denied.
        runs_on: Labels that a process must have to work on the runs (`holdfast worker --label gpu`).
        children: Workflows that the code calls and no module holds, so that another process finds them.
    """

    returns: Adapter = PLAIN
    """Adapter of the result of its runs."""

    def __init__(
        self,
        name: str,
        *,
        version: int = 1,
        cost_limit_usd: float | str | Decimal | None = None,
        input: type[BaseModel] | None = None,  # noqa: A002 - the word of the public surface
        state: type[BaseModel] | None = None,
        state_strategies: Mapping[str, FieldStrategy] = MappingProxyType({}),
        max_steps: int = 1000,
        max_tokens: int | None = None,
        max_active_s: float | None = None,
        max_lifespan_s: float | None = None,
        max_model_calls: int | None = None,
        max_tool_calls: int | None = None,
        max_wall_s: float | None = None,
        on_limit: OnLimit = "ask",
        on_exhausted: Literal["fail", "dead_letter"] = "fail",
        snapshot_every: int = 25,
        tools: Sequence[Tool] = (),
        tool_rules: Sequence[ToolRule] = (),
        runs_on: Sequence[str] = (),
        children: Sequence[Workflow] = (),
    ) -> None:
        self.name = name
        self.version = version
        self.input_model = input
        self.state_model = state
        self.tool_rules = _rules(name, tool_rules)
        self.state_strategies = _strategies(name, state, state_strategies)
        try:
            cost_nanousd = None if cost_limit_usd is None else nanousd(cost_limit_usd)
        except ValueError as problem:
            raise UsageError(f"Workflow {name!r}: cost_limit_usd: {problem}") from None
        self.limits = Limits(
            cost_nanousd, max_steps, max_tokens, max_active_s, max_lifespan_s, max_model_calls, max_tool_calls, max_wall_s
        )
        self.on_limit = on_limit
        self.on_exhausted = on_exhausted
        self.snapshot_every = snapshot_every
        self.tools = {known.name: known for known in tools}
        self.runs_on = tuple(sorted(set(runs_on)))
        self.extra_children = _children(name, children)
        self.nodes: dict[str, NodeDefinition] = {}
        self._demands: dict[str, Demand] = {}
        self._agents: dict[str, str] = {}
        self.guards: dict[str, Guard] = {}
        self._edges: list[dict[str, Any]] = []
        self._problems: list[str] = []
        self._graph: Graph | None = None
        self.outputs: dict[str, Callable[[Any], Any]] = {}
        """By node, what makes an instance of its `output` of what a model has answered."""
        self.earlier: tuple[Workflow, ...] = ()
        """The workflows that earlier versions made of the same file: runs that began with one go on with it, where this one is
        loaded."""

    def __repr__(self) -> str:
        return f"<workflow {self.name!r} version {self.version}>"

    def node(self, name: str, *, demand: Demand = NOTHING, agent: str | None = None) -> Callable[[Any], NodeDefinition]:
        """Give the node below a name and a place in this workflow. A bare function is a `task`.

        Args:
            name: Name of the node.
            demand: Resources besides a slot: labels, CPU, memory, GPUs, parts of pools.
            agent: Agent in the run's team budget to charge for the node and its children; by default the one the run was
                started with.
        """

        def place(definition: Any) -> NodeDefinition:
            self._change()
            made: NodeDefinition = definition if isinstance(definition, NodeDefinition) else task(definition)
            if made.is_for_items and not made.is_flow:
                raise UsageError(
                    f"node {name!r}: its function takes an item, which only those of a map have; put @map_node(...) above it."
                )
            if name in self.nodes:
                self._problems.append(f"node {name!r} is defined twice; give one of the two another name")
            self.nodes[name] = made
            self._demands[name] = demand
            if agent is not None:
                self._agents[name] = agent
            return made

        return place

    @overload
    def guard(self, name: str) -> Callable[[G], G]: ...

    @overload
    def guard(self, name: G) -> G: ...

    def guard(self, name: str | Guard) -> Any:
        """Register a pure function of the state as a guard. It returns True if a transition is allowed, or raises
        TransitionDenied with the reason.

        Args:
            name: Name of the guard; by default the function's.
        """
        if callable(name):
            return self._register_guard(name.__name__, name)
        return lambda function: self._register_guard(name, function)

    def _register_guard(self, name: str, function: Guard) -> Guard:
        self._change()
        if name in (*GATE_DECISIONS, *CHECK_DECISIONS):
            raise UsageError(f"A guard cannot be called {name!r}: that is a decision. Give it another name.")
        known = self.guards.setdefault(name, function)
        if known is not function:
            raise UsageError(f"There are two guards called {name!r}; give one of them another name.")
        return function

    def edge(
        self,
        source: str,
        target: str,
        *,
        when: str | Guard | None = None,
        guard: str | Guard | None = None,
        on: Literal["success", "error"] = "success",
        optional: bool = False,
    ) -> None:
        """Add an edge.

        Args:
            source: Node at which it begins.
            target: Node to which it leads.
            when: Decision of the source for which it is taken, or a guard, by name or as the function.
            guard: Guard that must allow it, by name or as the function.
            on: `success`, or `error` for an edge that is taken after the source has failed for good.
            optional: True if a join does not wait for it.
        """
        self._add(source, target, when, guard, on=on, optional=optional)

    def loop(
        self, source: str, target: str, *, max_visits: int, when: str | Guard | None = None, guard: str | Guard | None = None
    ) -> None:
        """Add an edge that leads back. Taking it supersedes the steps after `target`; later nodes see only the new ones.

        Args:
            source: Node at which it begins.
            target: Node to which it leads back.
            max_visits: Maximum number of starts of `target` in a run, the first included.
            when: Decision of the source for which it is taken, or a guard, by name or as the function.
            guard: Guard that must allow it, by name or as the function.
        """
        self._add(source, target, when, guard, max_visits=max_visits)

    def _add(self, source: str, target: str, when: Any, guard: Any, **more: Any) -> None:
        self._change()
        for found in (when, guard):
            if callable(found):
                self._register_guard(found.__name__, found)
        self._edges.append(
            {
                "source": source,
                "target": target,
                **more,
                "when": when.__name__ if callable(when) else when,
                "guard": guard.__name__ if callable(guard) else guard,
            }
        )

    def _change(self) -> None:
        if self._graph is not None:
            raise UsageError(f"{self!r} is already in use, so it cannot change; add everything before the first run.")

    @property
    def graph(self) -> Graph:
        """Compiled graph; reading it ends all changes of the workflow. Raises InvalidWorkflow with every problem."""
        if self._graph is None:
            self._graph = self._compile()
        return self._graph

    @property
    def hash(self) -> str:
        """Hash of its graph, by which runs know it."""
        return self.graph.hash

    @property
    def input_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the input, as far as a schema can express it; None without an `input` model. A process without this
        code checks inputs against it."""
        return None if self.input_model is None else schema_of(self.input_model)

    def _compile(self) -> Graph:
        problems = list(self._problems)
        for name, made in self.nodes.items():
            problems.extend(
                f"node {name!r}: there is no tool {missing!r}; define it with @tool in the same module, or give it to"
                " Workflow(tools=[...])"
                for missing in made.resolve(self.tools)
            )
            problems.extend(
                f"node {name!r}: {known.name!r} is undone by {known.compensation_name!r}, which is irreversible and runs only"
                " after a person's approval, for which undoing does not wait; name another compensation, or declare"
                f" {known.name!r} irreversible itself, so that it is asked about before"
                for known in made.tools.values()
                if (undo := {**made.compensations, **made.tools}.get(known.compensation_name or "")) and undo.irreversible
            )
            if callable(made.guard):
                self._register_guard(made.guard.__name__, made.guard)
            elif made.guard is not None and made.guard not in self.guards:
                problems.append(f"node {name!r}: there is no guard {made.guard!r}; register it with @wf.guard")
        edges = [self._edge(problems, **given) for given in self._edges]
        nodes = tuple(self._node(name, made) for name, made in self.nodes.items())
        definition = Definition(
            name=self.name,
            version=self.version,
            nodes=nodes,
            edges=tuple(edges),
            limits=self.limits,
            on_limit=self.on_limit,
            on_exhausted=self.on_exhausted,
            snapshot_every=self.snapshot_every,
            runs_on=self.runs_on,
            state=self.state_strategies,
            tool_rules=self.tool_rules,
        )
        try:
            graph = Graph(definition)
        except InvalidWorkflow as invalid:
            raise InvalidWorkflow(self.name, list(dict.fromkeys([*problems, *invalid.problems]))) from None
        if problems:
            raise InvalidWorkflow(self.name, problems)
        outputs = {name: _output(made) for name, made in self.nodes.items()}
        self.outputs = {name: each.load_if_fits for name, each in outputs.items() if each is not None}
        return graph

    def _node(self, name: str, definition: NodeDefinition) -> Node:
        return Node(
            name=NodeName(name),
            kind=definition.kind,
            join=definition.join,
            guard=definition.guard.__name__ if callable(definition.guard) else definition.guard,
            retry=definition.retry,
            timeout_s=definition.timeout_s,
            continue_on_error=definition.continue_on_error,
            options=definition.options() | ({"agent": self._agents[name]} if name in self._agents else {}),
            demand=NOTHING if isinstance(definition, MapDefinition) else _demand(self._demands[name], definition),
            each=self._each(name, definition.each) if isinstance(definition, MapDefinition) else None,
        )

    def _each(self, name: str, each: NodeDefinition) -> Node:
        """Return the work for an item of the map `name`."""
        return Node(
            NodeName(name),
            each.kind,
            retry=each.retry,
            timeout_s=each.timeout_s,
            options=each.options(),
            demand=_demand(self._demands[name], each),
        )

    def definition_of(self, name: NodeName, maps: Mapping[str, Map]) -> NodeDefinition:
        """Return the node definition of a step, or of an item of a map.

        Args:
            name: Name of the node.
            maps: Maps of the run.

        Raises:
            UsageError: The code no longer has it.
        """
        if not is_item(name):
            return self.nodes[name]
        opened = maps[map_of(name)].opened
        around = self.definition_of(node_of(opened.step), maps)
        if isinstance(around, MapDefinition):
            return around.each
        return item_definition(opened.name, around, is_call=opened.is_call)

    def _edge(self, problems: list[str], *, source: str, target: str, when: Any, guard: Any, **more: Any) -> Edge:
        if when in self.guards:
            if guard is not None:
                problems.append(f"edge {source!r} → {target!r}: when={when!r} is a guard, and guard= names another")
            when, guard = None, when
        if guard is not None and guard not in self.guards:
            problems.append(f"edge {source!r} → {target!r}: there is no guard {guard!r}; register it with @wf.guard")
        return Edge(NodeName(source), NodeName(target), when=when, guard=guard, **more)

    @property
    def definitions(self) -> dict[str, NodeDefinition]:
        """Definition of each node's step by node name; of a map node, of its item."""
        return {name: made.each if isinstance(made, MapDefinition) else made for name, made in self.nodes.items()}

    @property
    def children(self) -> list[Workflow]:
        """Workflows that it calls as objects: those of `child` nodes, those that functions mention which call `ctx.child`, and
        those passed as `children`."""
        made = [*self.definitions.values()]
        found: list[Any] = [*self.extra_children]
        found += [each.settings.get(CODE) for each in made]
        found += [offered for each in made for offered in each.settings.get(OFFERED, ())]
        found += [named for each in made for named in mentioned(each.handler)]
        found = [each.workflow if isinstance(each, Handoff) else each for each in found]
        return list(dict.fromkeys(each for each in found if isinstance(each, Workflow)))

    @property
    def signals(self) -> dict[str, Signal[Any]]:
        """Signals that its functions wait for, by name. A name with several signals is left out."""
        found: dict[str, Signal[Any] | None] = {}
        for made in self.definitions.values():
            for each in mentioned(made.handler, _WAITING):
                if isinstance(each, Signal):
                    found[each.name] = each if found.get(each.name, each) is each else None
        return {name: each for name, each in found.items() if each is not None}

    def warnings(self) -> list[str]:
        """Return warnings: tools that can neither be undone nor are approved first, and tools that a skill needs and its node
        lacks."""
        graph = self.graph
        gated: set[str] = set()
        for name in graph.order:
            before = {edge.source for edge in graph.incoming[name]}
            if any(source in gated or graph.nodes[source].kind == "human_gate" for source in before):
                gated.add(name)
        missing = [
            f"node {name!r}: the skill {skill.name!r} counts on the tool {wanted!r}, which the node does not have; the model"
            " is not given it"
            for name, made in self.definitions.items()
            for skill in made.settings.get("skills", ())
            for wanted in skill.allowed_tools
            if wanted.partition("(")[0] not in made.tools
        ]
        return missing + [
            f"node {name!r}: tool {known.name!r} (effect={known.policy!r}) can neither be compensated nor does it need"
            " approval; what it does cannot be taken back"
            for name, made in self.nodes.items()
            for known in made.tools.values()
            if known.policy in ("once", "verify") and known.compensation is None and not known.approval and name not in gated
        ]

    def validated_input(self, raw: Any) -> Any:
        """Return an input as the plain JSON data with which a run starts.

        Args:
            raw: Input: JSON data or a Pydantic model.

        Raises:
            InvalidInput: The input does not fit.
        """
        if isinstance(raw, BaseModel):
            raw = raw.model_dump(mode="json")
        if self.input_model is None:
            return {} if raw is None else raw
        try:
            return self.input_model.model_validate(raw if raw is not None else {}).model_dump(mode="json")
        except ValidationError as problem:
            raise InvalidInput(
                f"The input does not fit {self.input_model.__name__} of workflow {self.name!r}: {describe(problem)}."
                " No run was started.",
                field="input",
                misfits=misfits(problem),
            ) from None
        except PydanticSerializationError as problem:
            raise InvalidInput(
                f"The input of workflow {self.name!r} cannot be stored: {problem}. No run was started."
            ) from None


def _children(name: str, value: Any) -> tuple[Workflow, ...]:
    """Raises UsageError for what is no list of workflows."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, Workflow) for each in value):
        raise UsageError(f"Workflow {name!r}: give children=[...] a list of workflows, not {value!r:.200}.")
    return tuple(value)


def _output(definition: NodeDefinition) -> Adapter | None:
    """Return the adapter of what a model answers in a node; None where it answers in words."""
    if isinstance(definition, MapDefinition):
        output = definition.each.settings.get("output") if definition.each.kind == "llm_node" else None
        return None if output is None else adapter_of(list.__class_getitem__(output | None))
    output = definition.settings.get("output") if definition.kind == "llm_node" else None
    return None if output is None else adapter_of(output)


def _rules(name: str, rules: Sequence[ToolRule]) -> tuple[ToolRule, ...]:
    """The rules about calls of tools. Raises UsageError for one that says nothing."""
    for number, rule in enumerate(rules, 1):
        if problem := next(iter(rule.problems()), None):
            raise UsageError(f"Workflow {name!r}: rule {number}, about {rule.tool!r}: {problem}.")
    return tuple(rules)


def _strategies(name: str, model: type[BaseModel] | None, arguments: Mapping[str, FieldStrategy]) -> dict[str, FieldStrategy]:
    """The strategy of each field of the state, by name; none where none is given. Raises UsageError."""
    fields = () if model is None else sorted(model.model_fields)
    for field, strategy in arguments.items():
        if field not in fields:
            raise UsageError(
                f"Workflow {name!r}: state_strategies has one for {field!r}, and the state has no such field; it has"
                f" {', '.join(fields) or 'none'}."
            )
        if strategy not in FIELD_STRATEGIES:
            raise UsageError(
                f"Workflow {name!r}: the strategy of {field!r} is one of {', '.join(FIELD_STRATEGIES)}, not {strategy!r}."
            )
    return {field: arguments.get(field, "last_write") for field in fields} if arguments else {}


def _demand(demand: Demand, definition: NodeDefinition) -> Demand:
    """The same wishes in the same words, however they were given: they count for the workflow's hash."""
    return msgspec.structs.replace(
        demand,
        labels=tuple(sorted(set(demand.labels))),
        tags=tuple(sorted(set(demand.tags))),
        pools=dict(sorted(demand.pools.items())),
        task=definition.settings.get("task"),
    )
