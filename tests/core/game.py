"""A run played by hand: commands in, events out, and after each of them everything that must always hold.

`Game` keeps the history as bytes. After every command, refused ones included, it asserts that the history folded anew is
the state in memory, that the books balance, and that the rows follow from the state. Never here: a rule of the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, Definition, Edge, Graph, Join, Limits, Node
from holdfast.core.facts.state import OPEN_STEPS, Operation, State, Step
from holdfast.core.rules.readiness import stuck
from holdfast.core.values import policies
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import NAMING, CallId, EffectKey, GateId, NodeName, Path, RunId, SessionId, StepId
from holdfast.core.values.payload import NULL, Payload, digest, inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.scopes import PLACEMENT, counts_tokens, family_of, money_scopes
from holdfast.core.views.projection import Changes, project
from holdfast.core.views.status import NOTHING, Wait, due_at_ms, may_be_placed, status, waiting_for
from holdfast.errors import HoldfastError, InvalidWorkflow

START_MS = 1_700_000_000_000
RUN = RunId("0190-run")
ANN = Actor("ann")
WORKER = SessionId("worker")
HERE = SessionId("the game's own session")
OTHER = SessionId("other")

_encode = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(State).decode


def same(one: State, other: State) -> bool:
    """Whether two states are equal, the order of what they hold included."""
    return one == other and orders(one) == orders(other)


def orders(state: State) -> list[list[str]]:
    held = [getattr(state, field) for field in state.__struct_fields__]
    held += [each for step in state.steps.values() for each in (step.journal, step.pending)]
    return [list(each) for each in held if isinstance(each, dict)]


def snapshot(state: State) -> State:
    return _decode_state(_encode(state))


# --- Graphs -----------------------------------------------------------------------------------------------------------


def node(name: str, kind: Any = "task", **more: Any) -> Node:
    if isinstance(join := more.get("join"), str):
        more["join"] = Join(join)
    return Node(NodeName(name), kind, **more)


def edge(source: str, target: str, **more: Any) -> Edge:
    return Edge(NodeName(source), NodeName(target), **more)


def loop(source: str, target: str, max_visits: int = 3, **more: Any) -> Edge:
    return edge(source, target, max_visits=max_visits, **more)


def definition(*parts: str | Node | Edge, limits: dict[str, Any] | None = None, **more: Any) -> Definition:
    """A definition of nodes, edges, and chains like `a > b > c`, whose nodes are tasks unless they are given."""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for part in parts:
        if isinstance(part, str):
            names = [name.strip() for name in part.split(">")]
            for name in names:
                nodes.setdefault(name, node(name))
            edges += [edge(a, b) for a, b in pairwise(names)]
        elif isinstance(part, Node):
            nodes[part.name] = part
        else:
            for name in (part.source, part.target):
                nodes.setdefault(name, node(name))
            edges.append(part)
    return Definition("flow", 1, tuple(nodes.values()), tuple(edges), Limits(**(limits or {})), **more)


def graph(*parts: str | Node | Edge, **more: Any) -> Graph:
    return Graph(definition(*parts, **more))


def problems(*parts: Any, **more: Any) -> tuple[str, ...]:
    """What is wrong with a workflow; it must be something."""
    given = parts[0] if parts and isinstance(parts[0], Definition) else definition(*parts, **more)
    with pytest.raises(InvalidWorkflow) as caught:
        Graph(given)
    return caught.value.problems


def error(klass: str = policies.ERROR, *, retryable: bool = False, **more: Any) -> ErrorRecord:
    return ErrorRecord("somewhere", klass, f"it went wrong ({klass})", retryable, START_MS, **more)


TRANSIENT = error(policies.TIMEOUT, retryable=True)


# --- The game ---------------------------------------------------------------------------------------------------------


class Game:
    """One run of a graph. Every method that sends a command returns the events it caused."""

    def __init__(self, graph: Graph, *, slots: int = 99, start: bool = True, **given: Any) -> None:
        self.graph = graph
        self.slots = slots
        self.session = WORKER
        self.now_ms = START_MS
        self.state = State()
        self.history: list[bytes] = []
        self.times: list[int] = []
        self.listed: list[str] = []
        """The dead letters that the rows have."""
        self.scopes: dict[str, list[int]] = {}
        """What the run has settled, held and left in doubt in each scope."""
        if start:
            self.start(**given)

    # --- The one way in ----------------------------------------------------------------------------------------------

    def do(
        self,
        command: cmd.Command,
        *,
        session: SessionId | None = HERE,
        slots: int | None = None,
        graph: Graph | None = None,
        shortages: Mapping[str, cmd.Shortage] | None = None,
        taken: Mapping[EffectKey, cmd.KnownEffect] | None = None,
        placed: Iterable[str] = (),
    ) -> list[ev.Event]:
        session = self.session if session == HERE else session
        places = frozenset(map(StepId, placed))
        worker = None if session is None else cmd.Worker(session, self.slots if slots is None else slots, places)
        before = snapshot(self.state)
        try:
            events = decide(graph or self.graph, self.state, command, self.now_ms, worker, shortages or {}, taken or {})
        except HoldfastError:
            assert same(self.state, before), "a refusal must leave the state as it was"
            raise
        self.history += [ev.encode(event) for event in events]
        self.times += [self.state.at_ms] * len(events)
        if not events:
            assert same(self.state, before), "what causes no event changes nothing"
        self.check(events)
        return events

    def check(self, events: list[ev.Event]) -> None:
        assert self.state.seq == len(self.history), "a run's seq has no gap"
        assert same(self.replayed(), self.state), "the history folds to the state in memory"
        assert same(snapshot(self.state), self.state), "a snapshot is the state"
        state, budget = self.state, self.state.budget
        parts = (budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd)
        tokens = (state.tokens_used, state.tokens_held, state.tokens_in_doubt)
        assert min(*parts, *tokens) >= 0
        calls = state.calls.values()
        assert budget.held_nanousd == sum(call.hold_nanousd for call in calls if not call.doubted)
        assert budget.in_doubt_nanousd == sum(call.hold_nanousd for call in calls if call.doubted)
        assert state.tokens_held == sum(call.tokens for call in calls if not call.doubted)
        recorded = (state.on_limit or self.graph.definition.on_limit) == "record"
        if not (recorded or any(isinstance(event, ev.ModelCallSettled) and event.over_bound for event in self.events())):
            assert budget.limit_nanousd is None or sum(parts) <= budget.limit_nanousd
        if not recorded:
            assert min(state.calls_left("model") or 0, state.calls_left("tool") or 0) >= 0
        self.check_steps()
        if events:
            rows = self.rows(events)
            assert rows.run.seq == state.seq
            if rows.dead_letters is not None:
                self.listed = [letter.step for letter in rows.dead_letters]
            assert self.listed == self.letters, "the list of dead letters follows the state"
            self.check_scopes(rows)

    def check_scopes(self, rows: Changes) -> None:
        """What the run has moved in each kind of scope is what its own books say."""
        for posting in rows.postings:
            books = self.scopes.setdefault(posting.scope, [0, 0, 0])
            for part, moved in enumerate((posting.settled, posting.held, posting.in_doubt)):
                books[part] += moved
                assert books[part] >= 0, f"{posting.scope}: {books}"
        budget = self.state.budget
        money = [budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd]
        tokens = [self.state.tokens_used, self.state.tokens_held, self.state.tokens_in_doubt]
        place = [0, int(self.state.counted and not self.state.ended), 0]
        lenders = {each.family for each in rows.postings if each.limit_change and not (each.total or each.settled)}
        for family in {posting.family for posting in rows.postings} - lenders:
            of_family = [books for scope, books in self.scopes.items() if family_of(scope) == family]
            mine = place if family.endswith("runs") else tokens if counts_tokens(family) else money
            assert [sum(parts) for parts in zip(*of_family, strict=True)] == mine
        waits = {op.scope for _, _, op in self.state.short_operations()} | {self.state.awaits} - {None}
        waits |= {PLACEMENT} if may_be_placed(self.state) else set()
        assert {waiter.scope for waiter in rows.waiters} == (set() if self.state.paused or self.state.ended else waits)

    def check_steps(self) -> None:
        state = self.state
        assert set(state.unfinished) == {name for name, step in state.steps.items() if step.status in OPEN_STEPS}
        assert set(state.active) == {name for name, step in state.steps.items() if step.status == "active"}
        ready = {name for name, step in state.steps.items() if step.status == "ready" or step.woken}
        demanding = {name for name, step in state.steps.items() if step.demand is not None}
        assert set(state.startable) == ready - set(state.active) - demanding or state.ended
        assert set(state.unplaced) == (ready - set(state.active)) & demanding or state.ended
        for step in state.steps.values():
            open_ = {path for path, op in step.journal.items() if op.status not in ("done", "failed")}
            assert set(step.pending) == open_, "what is looked up as open is what is open"
            numbers = [op.settled for path, op in step.journal.items() if path not in open_]
            numbers += [step.cancelled_at] if step.cancelled_at else []
            assert len({*numbers}) == len(numbers), "each outcome has a number of its own"
            assert all(0 < number <= step.settlements for number in numbers), "outcomes are counted"
            assert not any(step.journal[path].settled for path in open_), "what has no outcome has no number"
        assert not stuck(state), "a suspended step has something that wakes it"
        assert NOTHING not in {wait.kind for wait in self.waits}, "a run waits for something"
        if state.ended:
            assert not state.unfinished
            assert not state.gates
            assert not [call for call in state.calls.values() if call.kind == "effect"]

    def replayed(self, count: int | None = None) -> State:
        """The state folded anew from the first `count` events, as they were stored."""
        state = State()
        for data, at_ms in list(zip(self.history, self.times, strict=True))[:count]:
            evolve(state, ev.decode(data), at_ms)
        return state

    # --- What happened -----------------------------------------------------------------------------------------------

    def events(self, *kinds: type[ev.Event]) -> list[Any]:
        found = [ev.decode(data) for data in self.history]
        return [event for event in found if not kinds or isinstance(event, kinds)]

    def step(self, name: str) -> Step:
        return self.state.steps[NodeName(name)]

    def op(self, name: str, path: str = "0") -> Operation:
        return self.step(name).journal[Path(path)]

    def statuses(self) -> dict[str, str]:
        return {str(name): step.status for name, step in self.state.steps.items()}

    @property
    def status(self) -> str:
        return status(self.state)

    @property
    def waits(self) -> list[Wait]:
        return waiting_for(self.state)

    @property
    def due_ms(self) -> int | None:
        """When somebody must look, counted from the start."""
        due = due_at_ms(self.state, executing=False)
        return None if due is None else due - START_MS

    @property
    def active(self) -> list[str]:
        return [str(name) for name in self.state.active]

    @property
    def gate(self) -> ev.GateOpened:
        """The only open gate."""
        (found,) = self.state.gates.values()
        return found.opened

    @property
    def output(self) -> Any:
        """The output of a completed run, or its outputs by end node."""
        assert self.state.ended == "completed", self.status
        parts = self.state.parts
        return {name: part.value() for name, part in parts.items()} if parts else self.state.output.value()

    def rows(self, events: Iterable[ev.Event], *, executing: bool = True) -> Changes:
        return project(self.state, list(events), executing=executing)

    # --- The run -----------------------------------------------------------------------------------------------------

    def start(
        self,
        data: Any = None,
        *,
        limit: int | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        session: SessionId | None = HERE,
        team: str | None = None,
        queue: bool = False,
        shortages: Mapping[str, cmd.Shortage] | None = None,
        shared: tuple[str, ...] = (),
        agent: str | None = None,
        naming: int = NAMING,
        contributors: tuple[str, ...] = (),
        makers: Mapping[str, tuple[str, ...]] = {},
    ) -> list[ev.Event]:
        command = cmd.StartRun(
            RUN,
            "acme",
            inline(data),
            digest(data),
            limit,
            key,
            by if isinstance(by, Actor) else Actor(by),
            team=team,
            queue=queue,
            shared=shared,
            agent=agent,
            naming=naming,
            contributors=contributors,
            makers={**makers},
        )
        return self.do(command, session=session, shortages=shortages)

    def shortages(self, *, left: int = 0, held: int = 0, limit: int = 1000, number: int = 0) -> dict[str, cmd.Shortage]:
        """What is known when the tenant's day has only so much left; or its month, with another `number`."""
        scope = money_scopes(self.state.tenant, self.state.team, self.now_ms)[number]
        return {scope: cmd.Shortage(limit, left, held)}

    def tick(self, after_s: float = 0, *, dead: Iterable[SessionId] = (), **how: Any) -> list[ev.Event]:
        self.now_ms += int(after_s * 1000)
        return self.do(cmd.Tick(frozenset(dead)), **how)

    def lose(self, session: SessionId = WORKER, *, by: SessionId | None = OTHER) -> list[ev.Event]:
        """The session dies; `by` finds out."""
        return self.do(cmd.Tick(frozenset({session})), session=by)

    def pause(self) -> list[ev.Event]:
        return self.do(cmd.PauseRun(ANN))

    def resume(self, **how: Any) -> list[ev.Event]:
        return self.do(cmd.ResumeRun(ANN), **how)

    def cancel(self, reason: str = "no longer needed") -> list[ev.Event]:
        return self.do(cmd.CancelRun(reason, ANN))

    def retry(self, *, shortages: Mapping[str, cmd.Shortage] | None = None) -> list[ev.Event]:
        return self.do(cmd.RetryRun(ANN), shortages=shortages)

    def edit_letter(self, step: str, data: Any = "edited") -> list[ev.Event]:
        return self.do(cmd.EditDeadLetter(StepId(step), inline(data), ANN))

    def replay_letter(self, step: str) -> list[ev.Event]:
        return self.do(cmd.RetryDeadLetter(StepId(step), ANN))

    def resolve_letter(self, step: str) -> list[ev.Event]:
        return self.do(cmd.ResolveDeadLetter(StepId(step), "enough", ANN))

    @property
    def letters(self) -> list[str]:
        """The steps that have failed for good, and of which nobody has said what is to become."""
        return [step.id for step in self.state.dead_letters()]

    def raise_limit(self, limit: str, value: int) -> list[ev.Event]:
        return self.do(cmd.RaiseLimit(limit, value, ANN))

    def signal(self, name: str, data: Any = None) -> list[ev.Event]:
        return self.do(cmd.SendSignal(name, inline(data)))

    def judge(self, *, allow: bool = True, reason: str | None = None, broken: ErrorRecord | None = None) -> list[ev.Event]:
        """Answer every question that is asked just now."""
        verdicts = [
            cmd.Verdict(asked.step, asked.target, asked.guard, allow, reason, broken) for asked in self.state.asked.values()
        ]
        return self.do(cmd.JudgeGuards(tuple(verdicts)))

    # --- Attempts ----------------------------------------------------------------------------------------------------

    def at(self, name: str) -> tuple[StepId, int]:
        step = self.step(name)
        return step.id, step.attempt

    def complete(
        self,
        name: str,
        output: Any = None,
        decisions: str | None = None,
        *,
        provisional: bool = False,
        conversation: Payload | None = None,
        **how: Any,
    ) -> list[ev.Event]:
        """`decisions` are the names a deciding node chose, separated by blanks."""
        chosen = None if decisions is None else tuple(decisions.split())
        command = cmd.CompleteStep(*self.at(name), inline(output), chosen, provisional=provisional, conversation=conversation)
        return self.do(command, **how)

    def fail(self, name: str, problem: ErrorRecord | None = None, path: str | None = None, **how: Any) -> list[ev.Event]:
        where = None if path is None else Path(path)
        return self.do(cmd.FailAttempt(*self.at(name), problem or error(), where), **how)

    def suspend(self, name: str, **how: Any) -> list[ev.Event]:
        return self.do(cmd.SuspendStep(*self.at(name)), **how)

    def stop(self, name: str, path: str = "0", asked: str = "sleep", **how: Any) -> list[ev.Event]:
        """The attempt's code asks for something else than what stands at `path`."""
        op = self.op(name, path)
        recorded, now = {"operation": f"{op.kind} {op.name!r}"}, {"operation": asked}
        return self.do(cmd.StopStep(*self.at(name), Path(path), recorded, now), **how)

    def hold(
        self,
        name: str,
        nanousd: int = 0,
        tokens: int = 0,
        path: str = "0",
        *,
        args: str = "args",
        model: str = "m",
        cheaper: tuple[cmd.CallCandidate, ...] = (),
        shortages: Mapping[str, cmd.Shortage] | None = None,
    ) -> list[ev.Event]:
        offers = (cmd.CallCandidate(model, nanousd, tokens), *cheaper)
        return self.do(cmd.HoldModelCall(*self.at(name), Path(path), model, args, offers), shortages=shortages)

    def held(self, name: str, nanousd: int = 0, tokens: int = 0, path: str = "0", **more: Any) -> CallId:
        """A call whose hold was admitted."""
        (found,) = [event for event in self.hold(name, nanousd, tokens, path, **more) if isinstance(event, ev.ModelCallHeld)]
        return found.call

    def settle(self, call: CallId, nanousd: int = 0, output: Any = "text", tokens: tuple[int, int] = (0, 0)) -> list[ev.Event]:
        return self.do(cmd.SettleModelCall(call, nanousd, *tokens, inline(output)))

    def refuse(self, call: CallId, problem: ErrorRecord | None = None) -> list[ev.Event]:
        return self.do(cmd.FailModelCall(call, problem or error()))

    def doubt_money(self, call: CallId, output: Payload | None = None) -> list[ev.Event]:
        return self.do(cmd.DoubtModelCall(call, TRANSIENT, output))

    def reconcile(self, call: CallId, nanousd: int) -> list[ev.Event]:
        return self.do(cmd.ReconcileCall(call, nanousd, ANN))

    def intend(
        self,
        name: str,
        policy: str = "once",
        path: str = "0",
        *,
        key: str | None = None,
        args: str = "args",
        tool: str = "send",
        compensation: str | None = None,
        settles_within_s: float | None = None,
        compensates: CallId | None = None,
        tenant_wide: bool = False,
        taken: Mapping[EffectKey, cmd.KnownEffect] | None = None,
        nanousd: int = 0,
        shortages: Mapping[str, cmd.Shortage] | None = None,
    ) -> list[ev.Event]:
        named = None if key is None else EffectKey(key)
        command = cmd.IntendEffect(
            *self.at(name),
            Path(path),
            tool,
            policy,
            args,
            inline({"to": "bob"}),
            named,
            settles_within_s,
            compensation,
            compensates,
            tenant_wide=tenant_wide,
            hold_nanousd=nanousd,
        )
        return self.do(command, taken=taken, shortages=shortages)

    def intended(self, name: str, policy: str = "once", path: str = "0", **more: Any) -> CallId:
        """A tool's call that may now be made."""
        (found,) = [event for event in self.intend(name, policy, path, **more) if isinstance(event, ev.EffectIntended)]
        return found.call

    def did(self, call: CallId, response: Any = "done") -> list[ev.Event]:
        return self.do(cmd.CompleteEffect(call, inline(response)))

    def did_not(self, call: CallId, problem: ErrorRecord | None = None) -> list[ev.Event]:
        return self.do(cmd.FailEffect(call, problem or error(policies.TOOL)))

    def never_left(self, call: CallId) -> list[ev.Event]:
        return self.do(cmd.ReleaseEffect(call))

    def doubt(self, call: CallId) -> list[ev.Event]:
        return self.do(cmd.DoubtEffect(call, TRANSIENT))

    def reopen(self, call: CallId) -> list[ev.Event]:
        return self.do(cmd.ReopenEffect(call))

    def effect(self, name: str, path: str = "0", **more: Any) -> CallId:
        """A tool called and done."""
        call = self.intended(name, path=path, **more)
        self.did(call)
        return call

    def sleep(self, name: str, seconds: float, path: str = "0") -> list[ev.Event]:
        """A timer, and the step left for it."""
        self.do(cmd.StartTimer(*self.at(name), Path(path), f"sleep {seconds}", int(seconds * 1000)))
        return self.suspend(name)

    def await_signal(self, name: str, signal: str, timeout_s: float | None = None, path: str = "0") -> list[ev.Event]:
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        return self.do(cmd.AwaitSignal(*self.at(name), Path(path), signal, f"signal {signal}", timeout_ms))

    # --- Children ----------------------------------------------------------------------------------------------------

    def ask_for(
        self,
        name: str,
        path: str = "0",
        *,
        key: str | None = None,
        background: bool = False,
        args: str = "args",
        limit: int | None = None,
        handoff: bool = False,
    ) -> list[ev.Event]:
        """Ask for a child, whose name is made of its place."""
        child = RunId(f"child-{name}-{path}-{self.state.children_asked + 1}")
        command = cmd.RequestChild(
            *self.at(name),
            Path(path),
            child,
            "other",
            1,
            "hash",
            args,
            inline({"n": 1}),
            limit,
            key,
            background,
            handoff=handoff,
        )
        return self.do(command)

    def child(self, name: str, path: str = "0", **more: Any) -> RunId:
        """A child that was asked for."""
        (found,) = [event for event in self.ask_for(name, path, **more) if isinstance(event, ev.ChildRequested)]
        return found.child

    def await_child(self, name: str, child: RunId, path: str = "1") -> list[ev.Event]:
        return self.do(cmd.AwaitChild(*self.at(name), Path(path), child, f"awaited {child}"))

    def end_child(
        self, child: RunId, how: Any = "completed", output: Any = "done", *, undoable: bool = False
    ) -> list[ev.Event]:
        failed = None if how == "completed" else error()
        return self.do(cmd.EndChild(child, how, inline(output) if failed is None else NULL, failed, undoable))

    def undo_child(self, child: RunId, path: str = "0") -> list[ev.Event]:
        """What undoes the run has a child undo what it did."""
        return self.do(cmd.UndoChild(*self.at(COMPENSATE), Path(path), child, "other", digest(["undone", child])))

    # --- People ------------------------------------------------------------------------------------------------------

    def open_gate(self, name: str, path: str = "0", *, shown: Any = "is this right?", **more: Any) -> list[ev.Event]:
        """Ask inside a step. The step is not left."""
        given: dict[str, Any] = {"allowed": ("answer", "approve", "edit", "reject"), **more}
        command = cmd.OpenGate(*self.at(name), Path(path), "question", digest(shown), inline(shown), digest(shown), **given)
        return self.do(command)

    def human_gate(self, name: str, path: str = "0", *, shown: Any = "is this right?", **more: Any) -> GateId:
        """What the engine does with a human_gate: the gate is the whole step."""
        given: dict[str, Any] = {"allowed": ("approve", "edit", "reject", "answer", "retry"), **more}
        command = cmd.OpenGate(
            *self.at(name), Path(path), "approval", digest(shown), inline(shown), digest(shown), completes_step=True, **given
        )
        (opened,) = [event for event in self.do(command) if isinstance(event, ev.GateOpened)]
        return opened.gate

    def decide(
        self, decision: str, gate: GateId | None = None, data: Any = None, by: str | Actor | None = "ann", **more: Any
    ) -> list[ev.Event]:
        """Answer `gate`, or the only open one, as somebody who executes nothing."""
        command = cmd.DecideGate(gate or self.gate.gate, decision, data, by if isinstance(by, Actor) else Actor(by), **more)
        return self.do(command, session=None)


def kinds(events: Iterable[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


__all__ = [
    "ANN",
    "COMPENSATE",
    "NULL",
    "OTHER",
    "RUN",
    "START_MS",
    "TRANSIENT",
    "WORKER",
    "Actor",
    "Game",
    "cmd",
    "definition",
    "edge",
    "error",
    "ev",
    "graph",
    "kinds",
    "loop",
    "node",
    "problems",
]
