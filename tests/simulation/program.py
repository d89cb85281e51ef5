"""Random programs: workflow files, or workflows in Python with every kind of node, join, guard, loop, edge, policy and
limit, drawn from a seed.

A program behaves as users' code does: what it does is decided by its plan and by what its journal gives back; what is
left to chance is drawn from the world. Never here: what goes wrong outside of users' own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel

from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.authoring import node as kinds
from holdfast.authoring.agents.cache import SemanticCache
from holdfast.authoring.agents.chat import Chat, Message
from holdfast.authoring.agents.embedder import Embedder, LocalEmbedder, ModelEmbedder
from holdfast.authoring.agents.router import Router
from holdfast.authoring.mapping import map_node
from holdfast.authoring.step import step
from holdfast.authoring.tool import Tool
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.graph import Join
from holdfast.core.nouns.routing import Complexity, RoutedModel
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.values.scopes import PERIODS, Period
from holdfast.errors import InvalidWorkflow, OperationFailed, TransitionDenied
from tests.simulation import script
from tests.simulation.answer import ANY, ROUTER, TOOLLESS
from tests.simulation.approval import Rule, draw_rules
from tests.simulation.chance import spread_s
from tests.simulation.file import File, draw_file
from tests.simulation.process import CPU_M, EMBEDS, MODELS
from tests.simulation.toolbox import APPROVED, TOOLS
from tests.simulation.workers import GPU, TASK
from tests.simulation.world import DIMENSIONS, Asking, asks, here, meaning

DAY_S: Final = 86_400.0
_MAX_CHILDREN: Final = 6
_BIG: Final = "large " * 12_000
"""More than fits into an event."""
_MAX_DRAWS: Final = 50


class Report(BaseModel):
    """What models are asked for."""

    step: str
    score: int


class Form(BaseModel):
    """What people are asked for."""

    note: str
    amount: int = 3


TENANT: Final = "a tenant"
TEAM_BUDGET: Final = "a team's"
TEAM: Final = ("planner", "writer", "critic")
"""The agents that share it: as whom a program is started, as whom its neighbours are, and another."""
_REMOTE: Final = 0.3
"""How many workflows have tasks of connected workers."""
_DEMANDING: Final = 0.3
_ASKING: Final = 0.25
"""How many workflows have children."""
_MAPPING: Final = 0.3
"""How many workflows have maps."""
_SAYING: Final = 0.2
"""How many workflows have tasks that say something."""
_SHARING: Final = 0.35
_TEAMED: Final = 0.5
"""How many programs with limits above them have a team budget, and how many workflows have agents."""
_MODELLING: Final = 0.35
"""How many workflows ask models in other ways than by their name alone."""
_WORDED: Final = 0.4
"""How many have tasks that want several calls at once which need somebody's word."""
_PATCHING: Final = 0.3
_PATCHES: Final[dict[str, Any]] = {
    "append": lambda step: [step],
    "sum": lambda step: 1,
    "merge": lambda step: {step: 1, "by": step},
    "first_write": lambda step: step,
    "last_write": lambda step: step,
    "reject": lambda step: step,
}
"""What a step patches of the typed state; each field is called as its strategy."""
"""How many workflows have tasks that write what others write too."""
_POOLS: Final[tuple[dict[str, int | None], ...]] = ({}, {}, {"SLOTS": 1}, {"SLOTS": 2}, {"RATE": 1}, {"SLOTS": 1, "RATE": 2})


class Fields(BaseModel):
    """A typed state, with a field for each strategy."""

    append: Any = None
    first_write: Any = None
    last_write: Any = None
    merge: Any = None
    reject: Any = None
    sum: Any = None


class Op(msgspec.Struct, frozen=True):
    """One thing that a handler does. `caught`: it lives with its failure."""

    kind: str
    what: Any = None
    caught: bool = False
    parts: tuple[Op, ...] = ()


class Program(msgspec.Struct):
    """A workflow to be run, its later version if it is to get one, and what it is started with."""

    workflow: Workflow
    later: Workflow | None
    input: Any
    cost_limit_usd: float | None
    key: str | None
    team: str | None = None
    budgets: tuple[tuple[Period, str | None, dict[str, Any]], ...] = ()
    """What a day or a month of the tenant, or of its team, may cost: (period, team, dollars)."""
    team_budget: dict[str, Any] | None = None
    """What it shares with its neighbours as an agent of a team, as `set_team_budget` is told it."""
    caps: tuple[tuple[str | None, int], ...] = ()
    """How many runs of the tenant, or, for None, of all together, may be active."""
    neighbours: int = 0
    """How many runs there are beside it; the second is another tenant's."""
    file: File | None = None
    """The file that it is made of, where it is made of one."""
    is_learned: bool = False
    """Whether those who execute it know it from the store only."""
    children: tuple[Workflow, ...] = ()
    """The workflows that it asks for by their names."""
    agent: Workflow | None = None
    """With whom people talk besides, where they do."""
    has_shells: bool = False
    """Whether connected workers run scripts."""
    rules: tuple[Rule, ...] = ()
    """What its workflow says of calls of tools."""


def draw_of_file(stream: Random, name: str) -> Program:
    """A program whose workflow is a file."""
    file = draw_file(stream, name)
    workflow = workflow_of(load(file.text, name), script.run, file.variables)
    program = Program(workflow, None, file.given, None, f"start-{name}")
    program.file, program.is_learned, program.has_shells = file, stream.random() < 0.6, stream.random() < 0.5
    return _in_company(stream, program)


def draw_with_agent(stream: Random, name: str) -> Program:
    """A program beside which people talk with an agent."""
    program = draw(stream, name)
    draft = _Draft(Random(f"agent of {name}"), f"{name} agent", 1)
    program.agent, program.key = (
        draft.agent(),
        f"start-{name}",
    )  # it may have to wait for a place for as long as the agent has it
    program.children = (*program.children, program.agent, *draft.children)
    return program


def draw(stream: Random, name: str) -> Program:
    """A program that passes every check of the authoring layer."""
    for _ in range(_MAX_DRAWS):
        seed = stream.getrandbits(64)
        try:
            draft = _Draft(Random(seed), name, 1)
            workflow = draft.workflow
            workflow.graph  # noqa: B018 - raises if it cannot be run
        except InvalidWorkflow:
            continue
        later = _Draft(Random(seed), name, 2).workflow if stream.random() < 0.15 else None
        given = {"about": name, "text": _BIG if stream.random() < 0.05 else "small"}
        limit = stream.choice((None, 0.02, 0.06, 0.2, 1.0))
        key = f"start-{name}" if stream.random() < 0.7 else None
        program = _in_company(stream, Program(workflow, later, given, limit, key))
        program.children, program.rules = tuple(draft.children), draft.rules
        return program
    raise AssertionError("no sound program in so many draws")


def _in_company(stream: Random, program: Program) -> Program:
    """The same, perhaps of a team, below limits that it may share with others."""
    if stream.random() < 0.65:
        return program
    program.team = stream.choice((None, "search"))
    owners = (None, program.team) if program.team is not None else (None,)
    ways: list[tuple[Period, str | None]] = [(period, owner) for owner in owners for period in PERIODS]
    chosen = stream.sample(ways, stream.randint(1, len(ways)))
    budgets = [(period, owner, {"limit_usd": stream.choice((0.01, 0.03, 0.1))}) for period, owner in chosen]
    # A stream of its own: what was drawn before tokens were limited is drawn as it was.
    own = Random(f"tokens of {program.workflow.name} {budgets}")
    for period, owner in own.sample(ways, own.randint(0, len(ways))):
        budgets.append((period, owner, {"max_tokens": own.choice((500, 3_000, 20_000))}))
    program.budgets = tuple(budgets)
    team = Random(f"team budget of {program.workflow.name}")
    if team.random() < _TEAMED:
        total: dict[str, Any] = team.choice(
            ({"total_usd": 0.02}, {"total_usd": 0.05, "total_tokens": 4_000}, {"total_tokens": 2_000})
        )
        program.team_budget = {"agents": {agent: team.choice((1.0, 2.0)) for agent in TEAM}, **total}
    program.neighbours = stream.choice((0, 1, 2))
    program.caps = tuple((whose, stream.choice((1, 1, 2))) for whose in (TENANT, None) if stream.random() < 0.5)
    return program


# --- The graph --------------------------------------------------------------------------------------------------------


class _Draft:
    """A workflow in the making."""

    def __init__(self, stream: Random, name: str, version: int) -> None:
        self._stream = stream
        self._mapping = False
        self._names = [f"n{i}" for i in range(stream.choice((1, 2, 3, 3, 4, 4, 5, 6, 7, 8)))]
        self._parents = {name: self._draw_parents(i) for i, name in enumerate(self._names)}
        self._kinds = {name: self._draw_kind(name) for name in self._names}
        # A stream of its own: what was drawn before there were caps is drawn as it was.
        caps = Random(f"caps of {name}")
        self.rules = draw_rules(Random(f"rules of {name}"))
        self.workflow = Workflow(
            name,
            version=version,
            max_steps=stream.choice((3, 6, 1000, 1000, 1000)),
            max_tokens=stream.choice((None, None, 2_500, 8_000, 50_000)),
            max_active_s=stream.choice((None, None, None, 2.0, 30.0)),
            max_lifespan_s=stream.choice((None, None, 600.0, 5 * DAY_S)),
            max_model_calls=caps.choice((None, None, None, 1, 2, 4)),
            max_tool_calls=caps.choice((None, None, None, 1, 2, 4)),
            max_wall_s=caps.choice((None, None, None, None, 3.0, 60.0)),
            on_limit=_on_limit(stream.choice(("ask", "ask", "ask", "fail")), Random(f"dry run of {name}")),
            on_exhausted=stream.choice(("fail", "dead_letter")),
            snapshot_every=stream.choice((1, 2, 4, 10)),
            tool_rules=[rule.told for rule in self.rules],
            **_typed_state(Random(f"state of {name}")),
        )
        if self.workflow.state_strategies:  # tasks patch it, and patches meet where several are at work
            others = [node for node, kind in self._kinds.items() if kind in ("tool_node", "llm_node", "check")]
            self._kinds |= {node: "task" for node in others if Random(f"patches of {name} {node}").random() < 0.7}
        # So that what was drawn before there were remote tasks is drawn as it was.
        self._remote = Random(f"remote tasks of {name}")
        if self._remote.random() < _REMOTE:
            tasks = [node for node, kind in self._kinds.items() if kind == "task"]
            self._kinds |= {node: "remote_task" for node in tasks if self._remote.random() < 0.5}
        # A stream of its own: what was drawn before there were demands is drawn as it was.
        self._demands = Random(f"demands of {name}")
        self._reviewers, self._talks = Random(f"reviewers of {name}"), Random(f"conversations of {name}")
        self._patience = Random(f"patience of {name}")
        self._haste = Random(f"haste of {name}")
        self._functions = Random(f"functions of {name}")
        self._maps, self._says = Random(f"maps of {name}"), Random(f"streams of {name}")
        self._saying = self._says.random() < _SAYING
        self._shares = Random(f"shared values of {name}")
        self._sharing = self._shares.random() < _SHARING
        if self._maps.random() < _MAPPING:
            tasks = [node for node, kind in self._kinds.items() if kind == "task"]
            self._kinds |= {node: "map" for node in tasks if self._maps.random() < 0.5}
            self._mapping = True
        self.children: list[Workflow] = []
        self._family = Random(f"children of {name}")
        self._asks = self._family.random() < _ASKING
        if self._asks:
            tasks = [node for node, kind in self._kinds.items() if kind == "task"]
            self._kinds |= {node: "child" for node in tasks if self._family.random() < 0.4}
        self._demanding = self._demands.random() < _DEMANDING
        self._models, self._words = Random(f"other models of {name}"), Random(f"words of {name}")
        self._modelling, self._worded = self._models.random() < _MODELLING, self._words.random() < _WORDED
        self._cache = _draw_cache(self._models)
        guards: tuple[Any, ...] = (_may, _may_too)
        for guard in guards:
            self.workflow.guard(guard)
        teamed = Random(f"agents of {name}")
        agents = (None, *TEAM) if teamed.random() < _TEAMED else (None,)
        for node in self._names:
            agent = teamed.choice(agents)
            self.workflow.node(node, demand=self._demand(), agent=agent)(self._node(node))
        for node in self._names:
            for parent in self._parents[node]:
                self._edge(parent, node)
        for _ in range(stream.choice((0, 0, 1, 1, 2))):
            self._loop()

    def _draw_parents(self, i: int) -> list[str]:
        if i == 0 or (i < 3 and self._stream.random() < 0.1):
            return []
        count = min(i, self._stream.choice((1, 1, 1, 2, 2, 3)))
        return self._stream.sample(self._names[max(0, i - 4) : i], min(count, i, 4))

    def _draw_kind(self, name: str) -> str:
        leads_on = any(name in parents for parents in self._parents.values())
        choices = ["task"] * 5 + ["llm_node"] * 3 + ["tool_node"] * 3 + ["human_gate"] * 2 + ["check"] * 2
        return self._stream.choice(choices + (["branch"] * 2 if leads_on else []))

    def _node(self, name: str) -> Any:
        stream, kind = self._stream, self._kinds[name]
        common: dict[str, Any] = {"join": self._join(name), "retry": self._retry()}
        if stream.random() < 0.1:
            common["guard"] = stream.choice(("_may", "_may_too"))
        if kind != "human_gate":
            common["timeout_s"] = stream.choice((None, None, None, 0.5, 5.0, 120.0))
        if kind not in ("human_gate", "branch"):
            common["continue_on_error"] = stream.random() < 0.15
        made: Any = getattr(self, f"_{kind}")(common)
        return made

    def _demand(self) -> Demand:
        """What a node asks for; nothing it could never get."""
        stream = self._demands
        if not self._demanding or stream.random() < 0.5:
            return NOTHING
        return Demand(
            labels=(GPU,) if stream.random() < 0.3 else (),
            cpu_m=stream.choice((0, 400, CPU_M)),
            pools=dict(stream.choice(_POOLS)),
            priority=stream.choice((0, 0, 5)),
        )

    def _join(self, name: str) -> Join | None:
        stream, parents = self._stream, self._parents[name]
        if not parents or stream.random() < 0.2:
            return None
        mode: Any = stream.choice(("all", "all_required", "any", "quorum", "best_effort"))
        timeout_s = spread_s(stream, 0.2, 600.0) if stream.random() < 0.35 else None
        return Join(mode, stream.randint(1, len(parents)) if mode == "quorum" else 0, timeout_s)

    def _retry(self) -> RetryPolicy | int | None:
        stream = self._stream
        drawn = stream.random()
        if drawn < 0.5:
            return None
        if drawn < 0.6:
            return stream.randint(1, 4)
        return RetryPolicy(
            max_attempts=stream.randint(1, 4),
            backoff=stream.choice(("fixed", "exponential")),
            initial_s=stream.choice((0.0, 0.1, 5.0)),
            max_s=60.0,
            rate_limit_attempts=stream.randint(1, 5),
        )

    def _edge(self, source: str, target: str) -> None:
        stream, kind = self._stream, self._kinds[source]
        on: Any = "error" if stream.random() < 0.12 else "success"
        when = None
        if on == "success":
            names: dict[str, Sequence[str | None]] = {
                "branch": (None, f"to-{target}", "both"),
                "human_gate": (None, None, None, "approve", "reject", "edit", "answer"),
                "check": (None, None, "pass", "fail"),
            }
            when = stream.choice(names.get(kind, (None,)))
        guard = stream.choice(("_may", "_may_too")) if stream.random() < 0.12 else None
        self.workflow.edge(source, target, when=when, guard=guard, on=on, optional=stream.random() < 0.1)

    def _loop(self) -> None:
        stream = self._stream
        source = stream.choice(self._names)
        target = stream.choice(self._ancestors(source))
        names: dict[str, Sequence[str | None]] = {
            "branch": ("again",),
            "human_gate": ("retry", "reject"),
            "check": (None, "retry"),
        }
        when = stream.choice(names.get(self._kinds[source], (None,)))
        guard = "_may" if stream.random() < 0.2 else None
        self.workflow.loop(source, target, max_visits=stream.choice((2, 2, 3)), when=when, guard=guard)

    def _ancestors(self, name: str) -> list[str]:
        found = [name]
        for each in found:
            found.extend(parent for parent in self._parents[each] if parent not in found)
        return found

    # --- The kinds ----------------------------------------------------------------------------------------------------

    def _task(self, common: dict[str, Any]) -> Any:
        ops = self._ops(self._stream.choice((0, 0, 1, 1, 2, 3)))
        big = self._stream.random() < 0.03 and not self.workflow.state_strategies
        patches = [field for field, strategy in self.workflow.state_strategies.items() if field == strategy]
        if self._functions.random() < 0.4:
            ops = self._with_functions(ops)
        if self._mapping and self._maps.random() < 0.5:
            ops = (*ops, self._map_op())
        if self._asks and self._family.random() < 0.6:
            ops = (*ops, self._child_op())
        if self._sharing:
            ops = (*ops, self._share_op())
        if self._modelling and self._models.random() < 0.6:
            ops = (*ops, *self._model_ops())
        if self._worded and self._words.random() < 0.7:
            ops = (*ops, self._words_op())
        if not ops and self._stream.random() < 0.3 and not patches:
            return kinds.task(_plain, **common)
        if self._saying and self._says.random() < 0.7:
            ops = self._saying_so(ops)

        async def handler(state: Any, ctx: Any) -> Any:
            got = await perform(state, ctx, ops)
            patch = {field: _PATCHES[field](ctx.step_id) for field in patches}
            return {"step": ctx.step_id, "got": got, "big": _BIG if big else "", **patch}

        return kinds.task(handler, tools=TOOLS, **common)

    def _child(self, common: dict[str, Any]) -> Any:
        """A child node."""
        stream, child = self._family, self._child_workflow()
        common.pop("timeout_s", None)

        async def given(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            return {"about": ctx.step_id}

        return kinds.child(
            workflow=stream.choice((child, child.name)),
            key=stream.choice((None, "child:{about}")),
            cost_limit_usd=stream.choice((None, None, 0.01)),
            on_failure=stream.choice(("raise", "return")),
            **common,
        )(given)

    def _child_op(self) -> Op:
        """The same as an operation; some at the same time, some in the background, some twice under one key."""
        stream = self._family
        how = stream.choice(("one", "one", "background", "named"))
        one = Op("child", (self._child_workflow().name, how), stream.random() < 0.5)
        return stream.choice((one, Op("gather", None, stream.random() < 0.5, (one, one))))

    def agent(self) -> Workflow:
        """What answers messages: it does what tasks do, and asks a model about what was said, perhaps before and after."""
        stream, self._stream = self._stream, self._family
        ops, asked = self._ops(self._family.choice((0, 1, 2))), self._family.choice((0, 1, 2))
        self._stream = stream
        made = Workflow(f"{self.workflow.name} answers", input=Chat)
        if self._family.random() < 0.3:
            ops = (*ops, self._child_op())

        async def handler(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            said = Chat(messages=[Message(role=each.role, text=each.text) for each in state.input.messages])
            system = f"{ctx.run_id} {ctx.step_id}"
            heard = [await ctx.model("tiny", said, system=system, max_tokens=40)] if asked > 1 else []
            got = await _perform(ctx, ops, "")
            heard += [await ctx.model("tiny", said, system=system, max_tokens=40)] if asked else []
            await _end()
            return {"done": ctx.step_id, "got": got, "heard": heard}

        made.node("work")(kinds.task(handler, tools=TOOLS, retry=3))
        return made

    def _child_workflow(self) -> Workflow:
        """One step that does what tasks do, perhaps with a child of its own, for less money."""
        stream, self._stream = self._stream, self._family
        ops = self._ops(self._family.choice((0, 1, 2)))
        self._stream = stream
        made = Workflow(
            f"{self.workflow.name} child {len(self.children)}",
            on_limit=self._family.choice(("ask", "fail")),
            cost_limit_usd=self._family.choice((None, None, 0.05)),
        )
        self.children.append(made)
        if len(self.children) < _MAX_CHILDREN and self._family.random() < 0.3:
            ops = (*ops, self._child_op())

        async def handler(state: Any, ctx: Any) -> Any:
            return {"done": ctx.step_id, "got": await perform(state, ctx, ops)}

        made.node("work")(kinds.task(handler, tools=TOOLS, retry=self._family.choice((None, 3))))
        return made

    def _share_op(self) -> Op:
        """Adds one to a number that all runs share, or waits until somebody has; some do so at the same time."""
        stream = self._shares
        one = Op(
            "share", stream.choice(("update", "expect", "lock", "wait", "wait", "delete", "remember", "remember")), caught=True
        )
        return stream.choice((one, one, Op("gather", None, False, (one, Op("share", "update", caught=True)))))

    def _model_ops(self) -> tuple[Op, ...]:
        """Vectors, a model that a router chooses or that has others in its place, or questions that were perhaps answered before."""
        stream, caught = self._models, self._models.random() < 0.5
        match stream.choice(("vectors", "routed", "instead", "cached", "cached", "cached")):
            case "vectors":
                return (Op("vectors", stream.randint(1, 3), caught),)
            case "routed":
                return (Op("routed", stream.choice(_LEVELS), caught),)
            case "instead":
                return (Op("instead", tuple(stream.sample(MODELS, 3)), caught),)
            case _:
                cache = self._cache if stream.random() < 0.8 else _draw_cache(stream)
                return tuple(Op("cached", (cache, stream.choice((0, 0, 1)), stream.choice(_WAYS)), caught) for _ in range(2))

    def _words_op(self) -> Op:
        """Calls at the same time that need somebody's word."""
        tools = {tool.name: tool for tool in TOOLS}
        wanted = ((tools[self._words.choice(tuple(APPROVED))], f"item{self._words.randrange(3)}", None) for _ in range(3))
        return Op("gather", None, True, tuple(Op("tool", each, True) for each in [*wanted][: self._words.choice((2, 2, 3))]))

    def _saying_so(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        """The same with words about it before each, and with models that are heard while they speak."""
        heard = [Op("heard", op.what, op.caught) if op.kind == "model" else op for op in ops]
        return (*(each for op in heard for each in (Op("say"), op)), Op("say"))

    def _map(self, common: dict[str, Any]) -> Any:
        """A map node, whose items do what tasks do."""
        plan, count, terms = self._plan(), self._maps.choice((0, 1, 2, 4)), self._terms()

        async def item_of(state: Any, ctx: Any, item: Any) -> Any:
            await _begin(state, ctx)
            return await _item(ctx, item)

        each = kinds.task(item_of, tools=TOOLS, **common)
        return map_node(lambda state: [{"plan": plan}] * count, **terms)(each)

    def _map_op(self) -> Op:
        """The same as an operation."""
        return Op("map", (self._plan(), self._maps.choice((0, 1, 2, 4)), self._terms()), self._maps.random() < 0.5)

    def _plan(self) -> str:
        """What is done for each item, under a name that stands in it."""
        stream, self._stream = self._stream, self._maps
        ops = self._ops(self._maps.choice((0, 1, 2)), nested=True)
        self._stream = stream
        name = f"{self.workflow.name} {len(_PLANS)}"
        _PLANS[name] = ops
        return name

    def _terms(self) -> dict[str, Any]:
        stream = self._maps
        timeout_s = spread_s(stream, 0.2, 600.0) if stream.random() < 0.3 else None
        enough = stream.choice(
            (
                {},
                {"tolerated_failures": 1},
                {"tolerated_failures": 0.5},
                {"collect": Join("best_effort", 0, timeout_s)},
                {"collect": Join("all", 0, timeout_s)},
            )
        )
        return {"max_parallel": stream.choice((1, 2, 100)), **enough}

    def _with_functions(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        """The same with some steps as flows have them, one by one or two at once."""
        stream = self._functions
        retry = stream.choice((None, RetryPolicy(max_attempts=3, initial_s=stream.choice((0.0, 5.0)))))
        one = Op("function", retry, stream.random() < 0.5)
        added = stream.choice((one, Op("gather", None, False, (one, one))))
        at = stream.randint(0, len(ops))
        asked = (Op("version"),) if stream.random() < 0.5 else ()
        return (*ops[:at], *asked, added, *ops[at:])

    def _ops(self, count: int, *, nested: bool = False) -> tuple[Op, ...]:
        return tuple(self._op(nested) for _ in range(count))

    def _op(self, nested: bool) -> Op:
        stream = self._stream
        kind = stream.choice(
            ("tool", "tool", "tool", "model", "model", "sleep", "now", "uuid", "signal", "ask", "think")
            + (("gather", "gather") if not nested else ())
        )
        caught = stream.random() < 0.4
        match kind:
            case "tool":
                return Op(kind, self._request(), caught)
            case "model":
                return Op(kind, (stream.choice(MODELS), stream.choice((50, 400)), stream.random() < 0.3), caught)
            case "sleep":
                return Op(kind, stream.choice((0.0, 0.05, 2.0, 90.0, 30 * DAY_S)))
            case "signal":
                return Op(kind, (stream.choice(("ping", "pong")), stream.choice((None, 5.0, 3600.0))), caught)
            case "ask":
                return Op(kind, (stream.choice((None, 60.0)), stream.choice((None, 3600.0)), stream.random() < 0.3), caught)
            case "gather":
                return Op(kind, None, caught, self._ops(stream.randint(1, 3), nested=True))
            case _:
                return Op(kind)

    def _request(self) -> tuple[Tool, str, str | None]:
        """A tool, what it is to be called with, and the effect's own name if it has one."""
        stream = self._stream
        tool, item = stream.choice(TOOLS), f"item{stream.randrange(4)}"
        return tool, item, f"{tool.name}:{item}" if stream.random() < 0.3 else None

    def _llm_node(self, common: dict[str, Any]) -> Any:
        stream, routed = self._stream, ""

        async def prompt(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            return {"system": f"{ctx.run_id} {ctx.step_id}{routed}", "user": f"do the work of {ctx.step_id}"}

        more: dict[str, Any] = {}
        if stream.random() < 0.5:
            more = {"tools": stream.sample(TOOLS, stream.randint(1, 3)), "max_turns": stream.randint(1, 4)}
        if stream.random() < 0.3:
            more["output"] = Report
        if stream.random() < 0.3:
            more |= {"min_tokens": 20, "cheaper_models": ("small", "tiny")}
        if self._talks.random() < 0.3:
            more["continue_conversation"] = True
        model: Any = stream.choice((*MODELS, *MODELS, "nobody"))
        if self._modelling and (chosen := self._models.random()) < 0.6:
            if chosen < 0.3:
                level = self._models.choice(_LEVELS)
                model, routed, more["complexity"] = _ROUTER, f" {_said(level)}", level
            else:
                more["fallback_models"] = self._models.sample(MODELS, 2)
        made: Any = kinds.llm_node(model=model, max_tokens=stream.choice((50, 400)), **more, **common)(prompt)
        return made

    def _tool_node(self, common: dict[str, Any]) -> Any:
        tool, item, named = self._request()

        async def arguments(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            return {"item": item, "step": ctx.step_id if named is None else "any"}

        key = f"{tool.name}:{{item}}" if named is not None else None
        made: Any = kinds.tool_node(name=tool, key=key, **common)(arguments)
        return made

    def _remote_task(self, common: dict[str, Any]) -> Any:
        tool, item = self._remote.choice(TOOLS), f"item{self._remote.randrange(4)}"

        async def arguments(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            return {"tool": tool.name, "item": item}

        return kinds.remote_task(task=TASK, tools=TOOLS, **common)(arguments)

    def _human_gate(self, common: dict[str, Any]) -> Any:
        stream = self._stream
        form = stream.choice((None, Form))
        reviewers = self._reviewers.choice(([], ["eve"], ["desk", "eve"]))
        expires_after_s = self._patience.choice((None, None, None, 2 * DAY_S))
        if self._haste.random() < 0.1:  # before most people have answered
            expires_after_s = 60.0

        async def shown(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            return {"diff": f"draft of {ctx.step_id}", "note": "as it was", "reviewers": reviewers}

        return kinds.human_gate(
            shown,
            form=form,
            timeout_s=stream.choice((None, 60.0, 2 * DAY_S)),
            remind_every_s=stream.choice((None, 3600.0, DAY_S)),
            cancel_after_s=stream.choice((None, None, DAY_S)),
            four_eyes=stream.random() < 0.2,
            expires_after_s=expires_after_s,
            quorum=2 if self._reviewers.random() < 0.3 and not reviewers else 1,
            **common,
        )

    def _branch(self, common: dict[str, Any]) -> Any:
        stream = self._stream
        model = stream.choice((None, None, *MODELS))
        workflow = self.workflow

        async def choose(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            if model is not None:
                return {"system": f"{ctx.run_id} {ctx.step_id}", "user": "which way?"}
            name = ctx.step_id.partition("#")[0]
            edges = [edge for edge in workflow.graph.definition.edges if edge.source == name and edge.on == "success"]
            ways = [edge.when or edge.target for edge in edges] or ["nowhere"]
            drawn = here().chance.stream("ways")
            return drawn.choice(ways) if drawn.random() < 0.8 else list(dict.fromkeys(drawn.choices(ways, k=2)))

        return kinds.branch(choose, model=model, max_tokens=60, **common)

    def _check(self, common: dict[str, Any]) -> Any:
        async def judge(state: Any, ctx: Any) -> Any:
            await _begin(state, ctx)
            drawn = here().chance.stream("checks")
            return drawn.choice((True, True, True, None, "pass", ("pass", "fine"), False, "retry", ("fail", "poor")))

        return kinds.check(judge, **common)


# --- What handlers do -------------------------------------------------------------------------------------------------


def _on_limit(drawn: Any, stream: Random) -> Any:
    """What a limit does: in some programs it is only told of."""
    return "record" if stream.random() < 0.06 else drawn


def _typed_state(stream: Random) -> dict[str, Any]:
    """A typed state that steps patch at the same time, in some programs; seldom one that rejects."""
    if stream.random() >= _PATCHING:
        return {}
    fields = [field for field in _PATCHES if field != "reject" or stream.random() < 0.3]
    return {"state": Fields, "state_strategies": {field: field for field in fields}}


class Cache(NamedTuple):
    """On what terms an answer may be given again."""

    model: str
    version: str
    embedder: str | None
    max_age_s: float | None


def _draw_cache(stream: Random) -> Cache:
    return Cache(
        stream.choice(("small", "tiny")),
        stream.choice("12"),
        stream.choice((None, "here", EMBEDS)),
        stream.choice((None, 60.0)),
    )


_LEVELS: Final = (None, *Complexity)
_WAYS: Final = ("question {}", "please answer question {}")
_SYSTEM: Final = "You know."
_ROUTER: Final = Router(
    [
        RoutedModel("large", Complexity.MODERATE, Complexity.EXPERT),
        RoutedModel("small", Complexity.TRIVIAL, Complexity.MODERATE),
        RoutedModel(TOOLLESS, Complexity.TRIVIAL, Complexity.SIMPLE, tools=False),
    ],
    name=ROUTER,
)


def _said(level: Complexity | None) -> str:
    return ANY if level is None else level.name


def _may(state: Any) -> bool:
    """A guard that says no in two ways."""
    if here().faults.strikes("guard_denies"):
        raise TransitionDenied("not now")
    return True


async def _may_too(state: Any) -> bool:
    await asyncio.sleep(spread_s(here().chance.stream("guard"), 0.001, 3.0))
    if here().faults.strikes("guard_breaks"):
        raise ValueError("this guard is broken")
    return not here().faults.strikes("guard_denies")


def _plain(state: Any) -> Any:
    """A plain function, which knows nothing but the state."""
    if here().faults.strikes("handler_raises"):
        raise ValueError("a plain handler broke")
    return {"events": sorted(state.events)}


async def _begin(state: Any, ctx: Any) -> None:
    """What every handler does first: report what it sees, and perhaps break."""
    seen = {name: view.output["step"] for name, view in state.events.items() if _is_signed(view.output)}
    before = {name: f"{name}#{view.visit}" for name, view in state.previous.items()}
    before |= {name: view.output["step"] for name, view in state.previous.items() if _is_signed(view.output)}
    here().witness.handler_began(here().process(), ctx.run_id, ctx.step_id, ctx._attempt.number, seen, before)
    if here().faults.strikes("handler_raises"):
        raise ValueError("a handler broke at its beginning")
    if here().faults.strikes("handler_hangs"):
        await asyncio.sleep(spread_s(here().chance.stream("hang"), 1.0, 400.0))


async def _end() -> None:
    if here().faults.strikes("handler_raises"):
        raise ConnectionResetError("a handler broke at its end")


def _is_signed(output: Any) -> bool:
    return isinstance(output, dict) and isinstance(output.get("step"), str) and "#" in output["step"]


async def _perform(ctx: Any, ops: Sequence[Op], place: str) -> list[Any]:
    """Do `ops` in their order; what came of each, as far as a replay must see it again."""
    got: list[Any] = []
    for number, op in enumerate(ops):
        here_ = f"{place}{number}"
        if not place and ctx._journal.before.journal and here().faults.strikes("code_changed"):
            here().witness.code_changed(ctx.run_id, ctx.step_id)
            await ctx.sleep(0)  # another version of the code goes on with the step
        try:
            value = await _DOINGS[op.kind](ctx, op, here_)
        except OperationFailed as failed:
            if not op.caught:
                raise
            value = {"failed": failed.error.error_class}  # type: ignore[attr-defined]
        else:
            here().witness.operation_gave(ctx.run_id, ctx.step_id, ctx._attempt.number, here_, op.kind, value)
        got.append(value)
    return got


async def perform(state: Any, ctx: Any, ops: Sequence[Op]) -> list[Any]:
    """All that a handler does."""
    await _begin(state, ctx)
    got = await _perform(ctx, ops, "")
    await _end()
    return got


async def _do_tool(ctx: Any, op: Op, place: str) -> Any:
    tool, item, named = op.what
    return await ctx.tool(tool, {"item": item, "step": ctx.step_id if named is None else "any"}, key=named)


async def _do_model(ctx: Any, op: Op, place: str, *, stream: bool = False) -> Any:
    model, max_tokens, shaped = op.what
    return await ctx.model(
        model,
        f"at {place}",
        system=f"{ctx.run_id} {ctx.step_id}",
        max_tokens=max_tokens,
        output=Report if shaped else None,
        stream=stream,
    )


async def _do_heard(ctx: Any, op: Op, place: str) -> Any:
    return await _do_model(ctx, op, place, stream=True)


async def _do_vectors(ctx: Any, op: Op, place: str) -> Any:
    texts = [f"text {number} at {place}" for number in range(op.what)]
    with asks(Asking(ctx.run_id, ctx.step_id, place)):
        vectors = await ctx.embed(texts, model=EMBEDS)
    here().witness.embedded(ctx.run_id, texts, vectors)
    return vectors


async def _do_routed(ctx: Any, op: Op, place: str) -> Any:
    system = f"{ctx.run_id} {ctx.step_id} {_said(op.what)}"
    return await ctx.model(_ROUTER, f"at {place}", system=system, max_tokens=50, complexity=op.what)


async def _do_instead(ctx: Any, op: Op, place: str) -> Any:
    model, *others = op.what
    system = f"{ctx.run_id} {ctx.step_id}"
    return await ctx.model(model, f"at {place}", system=system, max_tokens=50, fallback_models=others)


async def _do_cached(ctx: Any, op: Op, place: str) -> Any:
    cache, number, way = op.what
    embedders: dict[str | None, Embedder | None] = {
        None: None,
        "here": LocalEmbedder("here", lambda texts: [*map(meaning, texts)], DIMENSIONS),
        EMBEDS: ModelEmbedder(EMBEDS, DIMENSIONS),
    }
    kept = SemanticCache(embedders[cache.embedder], version=cache.version, max_age_s=cache.max_age_s, most=2)
    question = way.format(number)
    asking = Asking(
        ctx.run_id, ctx.step_id, place, question, number, (cache.model, cache.version, cache.embedder), cache.max_age_s
    )
    with asks(asking):
        answer = await ctx.model(cache.model, question, system=_SYSTEM, max_tokens=40, cache=kept)
    here().witness.answered(asking, answer)
    return answer


async def _do_say(ctx: Any, op: Op, place: str) -> Any:
    await ctx.stream("said").write([ctx.step_id, place])


async def _do_sleep(ctx: Any, op: Op, place: str) -> Any:
    await ctx.sleep(op.what)


async def _do_now(ctx: Any, op: Op, place: str) -> Any:
    ctx.now()


async def _do_uuid(ctx: Any, op: Op, place: str) -> Any:
    return str(ctx.uuid())


async def _do_signal(ctx: Any, op: Op, place: str) -> Any:
    name, timeout_s = op.what
    return await ctx.wait_signal(name, timeout_s=timeout_s)


async def _do_ask(ctx: Any, op: Op, place: str) -> Any:
    timeout_s, remind_every_s, with_form = op.what
    answer = await ctx.ask(
        {"question": f"at {place}"}, form=Form if with_form else None, timeout_s=timeout_s, remind_every_s=remind_every_s
    )
    return answer["decision"]


async def _do_gather(ctx: Any, op: Op, place: str) -> Any:
    return await ctx.gather(*(_perform(ctx, (part,), f"{place}.{n}.") for n, part in enumerate(op.parts)))


async def _do_child(ctx: Any, op: Op, place: str) -> Any:
    name, how = op.what
    given = {"about": place}
    if how == "background":
        child = await ctx.child(name, given, background=True)
        await ctx.sleep(2.0)
        return await child.result()
    if how == "named":
        await ctx.child(name, given, key=f"{ctx.step_id} {place}", on_failure="return")
    outcome = await ctx.child(name, given, key=f"{ctx.step_id} {place}" if how == "named" else None)
    return outcome["done"]


async def _do_map(ctx: Any, op: Op, place: str) -> Any:
    plan, count, terms = op.what
    return await ctx.map(_item, [{"plan": plan}] * count, **terms)


async def _item(ctx: Any, item: Any) -> Any:
    """What is done for an item of a map."""
    got = await _perform(ctx, _PLANS[item["plan"]], "")
    await _end()
    return {"step": ctx.step_id, "got": got}


_PLANS: Final[dict[str, tuple[Op, ...]]] = {}


async def _do_think(ctx: Any, op: Op, place: str) -> Any:
    await asyncio.sleep(spread_s(here().chance.stream("think"), 0.001, 10.0))


async def _do_share(ctx: Any, op: Op, place: str) -> Any:
    """Every write is one more than what it follows, and nothing else: so a lost write would be seen."""
    numbers = ctx.shared("numbers")
    if op.what == "update":
        return (await numbers.update("n", lambda known: (known or 0) + 1)).version
    if op.what == "wait":
        seen = await numbers.read("n")
        return (await numbers.changed("n", after=seen.version if seen is not None else 0, timeout_s=600)).version
    if op.what == "expect":
        return await _add_one(ctx, numbers, expects=True)
    if op.what == "delete":
        return (await numbers.delete("n")).version
    if op.what == "remember":
        return await _remember(ctx, place)
    async with numbers.lock("n", lease_s=20.0):
        return await _add_one(ctx, numbers, expects=False)


async def _remember(ctx: Any, place: str) -> list[str]:
    """Two things where there is room for a few, so that some are crowded out; what matters least is forgotten."""
    memory = ctx.memory("agent", most=4)
    for kind in ("result", "fact"):
        await memory.remember(f"{ctx.run_id} {ctx.step_id} {place}", kind=kind)
    found = await memory.recall("run", limit=2) + await memory.recall(limit=3)
    await memory.forget(found[-1].key if found else "nobody")
    return [each.key for each in found]


async def _add_one(ctx: Any, numbers: Any, *, expects: bool) -> int:
    seen = await numbers.read("n")
    known, version = (seen.value, seen.version) if seen is not None else (0, 0)
    await asyncio.sleep(spread_s(here().chance.stream("shares"), 0.001, 30.0))
    written = await numbers.write("n", known + 1, expected_version=version if expects else None)
    made: int = written.version
    return made


async def _do_function(ctx: Any, op: Op, place: str) -> Any:
    """What it returns is another each time: a second result of it would be seen."""

    async def work() -> str:
        chance = here().chance.stream("functions")
        await asyncio.sleep(spread_s(chance, 0.001, 10.0))
        if here().faults.strikes("function_raises"):
            raise chance.choice((ValueError("a step broke"), ConnectionResetError("a step lost its connection")))
        return f"{chance.getrandbits(64):x}" if chance.random() < 0.95 else _BIG

    return await ctx.step("work", step(retry=op.what)(work))


async def _do_version(ctx: Any, op: Op, place: str) -> Any:
    """The same each time, though what it was asked before may not have been recorded."""
    return ctx.version(f"at-{place.replace('.', '-')}", 2)


_DOINGS: Final[dict[str, Callable[[Any, Op, str], Any]]] = {
    "tool": _do_tool,
    "model": _do_model,
    "sleep": _do_sleep,
    "now": _do_now,
    "uuid": _do_uuid,
    "signal": _do_signal,
    "ask": _do_ask,
    "gather": _do_gather,
    "map": _do_map,
    "child": _do_child,
    "think": _do_think,
    "function": _do_function,
    "version": _do_version,
    "heard": _do_heard,
    "vectors": _do_vectors,
    "routed": _do_routed,
    "instead": _do_instead,
    "cached": _do_cached,
    "say": _do_say,
    "share": _do_share,
}
