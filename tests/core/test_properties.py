"""What holds for every graph and every order of things: replay is the state, the books balance, nothing hangs.

Graphs and seeds come from Hypothesis. `chaos` sends commands without sense or shame, stale and repeated ones among them.
`Crew` is a small engine: it executes whatever a run asks for, crashes at any point, answers every question, and must
always reach an end.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.evolve import evolve
from holdfast.core.facts.graph import FIELD_STRATEGIES, Graph, Join
from holdfast.core.facts.state import FUNCTION, LABEL, MAP, OPEN_STEPS, SLEEP, TIMER, Operation, State, Step
from holdfast.core.nouns.shared_values import SharedConflict, SharedIndex, SharedValue, packed
from holdfast.core.people.changed_code import RESTART
from holdfast.core.people.gates import asked_together
from holdfast.core.rules.fence import may_begin
from holdfast.core.rules.forking import ForkRequest, forked
from holdfast.core.rules.questions import CODE_CHANGED, LIMITS
from holdfast.core.values import policies
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import (
    CallId,
    EffectKey,
    GateId,
    NodeName,
    Path,
    RunId,
    Seq,
    SessionId,
    StepId,
    approval_at,
    is_item,
    map_of,
    node_of,
)
from holdfast.core.values.money import nanousd, usd
from holdfast.core.values.payload import NULL, inline
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.values.scopes import run_scopes
from holdfast.errors import AlreadyClosed, Conflict, HoldfastError, InvalidInput, RunEnded, Suspended
from tests.conftest import examples
from tests.core.game import ANN, COMPENSATE, RUN, START_MS, TRANSIENT, Game, cmd, definition, edge, error, ev, loop, node, same

TWICE = RetryPolicy(max_attempts=2, initial_s=1, rate_limit_attempts=1)


def quick(usual: int) -> settings:
    """The same examples every time: what fails here fails everywhere."""
    return settings(
        max_examples=examples(usual), deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


# --- Graphs -----------------------------------------------------------------------------------------------------------

KINDS: list[Any] = ["task", "task", "llm_node", "tool_node", "remote_task", "child", "branch", "check", "human_gate", "map"]


def some_graph(count: int, seed: int) -> Graph:
    """Nodes of every kind, with joins, guards, error edges, optional edges and loops."""
    pick = random.Random(seed)
    kinds = [pick.choice(KINDS) for _ in range(count)]
    parts: list[Any] = []
    ways: dict[tuple[int, int, str], Any] = {}
    for target in range(1, count):
        for source in {pick.randrange(target) for _ in range(pick.randint(1, 3))}:
            ways[source, target, "success"] = edge(f"n{source}", f"n{target}", **_way(pick, kinds[source]))
            if pick.random() < 0.15:
                ways[source, target, "error"] = edge(f"n{source}", f"n{target}", on="error", guard=_maybe(pick, "g"))
    incoming = Counter(target for _, target, _ in ways)
    for number, kind in enumerate(kinds):
        modes = ["all", "all", "all_required", "any", "best_effort", "quorum"] if incoming[number] else ["all"]
        mode = pick.choice(modes)
        join = Join(mode, pick.randint(1, incoming[number]) if mode == "quorum" else 0, pick.choice([None, None, 30]))
        retry = RetryPolicy(max_attempts=pick.randint(1, 3), initial_s=1, only_transient=pick.random() < 0.5)
        forgiving = kind in ("task", "check") and pick.random() < 0.2
        parts.append(
            node(
                "flow" if kinds == ["task"] else f"n{number}",
                kind,
                join=join,
                guard=_maybe(pick, "gn"),
                retry=retry,
                continue_on_error=forgiving,
                each=node(f"n{number}", "task", retry=retry) if kind == "map" else None,
            )
        )
    for _ in range(pick.randint(0, 2)):
        way = _back(pick, kinds, {(source, target) for source, target, _ in ways})
        if way is not None:
            ways[way.source, way.target, "loop"] = way
    limits = {
        "cost_nanousd": pick.choice([None, 0, 100, 300]),
        "max_tokens": pick.choice([None, None, 100]),
        "max_steps": pick.choice([1000, 4]),
        "max_active_s": pick.choice([None, None, 5]),
        "max_lifespan_s": pick.choice([None, None, 100]),
        "max_model_calls": pick.choice([None, None, 3]),
        "max_tool_calls": pick.choice([None, None, 2]),
        "max_wall_s": pick.choice([None, None, None, 50]),
    }
    return Graph(
        definition(
            *parts,
            *ways.values(),
            limits=limits,
            on_limit=pick.choice(["ask", "ask", "ask", "fail", "record"]),
            on_exhausted=pick.choice(["fail", "dead_letter"]),
            state=_fields(seed),
        )
    )


def _fields(seed: int) -> dict[str, Any]:
    """Fields of a typed state, in some graphs, each called as its strategy. Chosen apart, so that all else stays as it was."""
    pick = random.Random(f"fields of {seed}")
    some = pick.sample(FIELD_STRATEGIES, 3) if pick.random() < 0.3 else ()
    return {field: field for field in sorted(some)}


def patch(graph: Graph, name: str) -> Any:
    """What a step comes to: a patch of the typed state, where there is one."""
    return {field: [name] for field in graph.definition.state} or 1


def next_version(graph: Graph) -> Graph:
    """The workflow after a change: one more node, which follows from an entry."""
    before = graph.definition
    late = NodeName("late")
    return Graph(
        msgspec.structs.replace(
            before,
            version=before.version + 1,
            nodes=(*before.nodes, node(late)),
            edges=(*before.edges, edge(graph.entries[0], late)),
        )
    )


SEEDS = st.integers(0, 2**32)
GRAPHS = st.builds(some_graph, st.integers(1, 7), SEEDS)


def _maybe(pick: random.Random, guard: str) -> str | None:
    return guard if pick.random() < 0.15 else None


def _way(pick: random.Random, kind: str) -> dict[str, Any]:
    names = {"human_gate": ["approve", "reject", "retry"], "check": ["fail", "retry", "pass"], "branch": ["x", "y"]}
    when = pick.choice(names[kind]) if kind in names and pick.random() < 0.4 else None
    return {"when": when, "guard": _maybe(pick, "g"), "optional": pick.random() < 0.15}


def _back(pick: random.Random, kinds: list[str], ways: set[tuple[int, int]]) -> Any:
    """A loop between two nodes of which one comes after the other, if such a pair is drawn."""
    source = pick.randrange(len(kinds))
    before = {source}
    for number in range(source, -1, -1):
        if any((number, later) in ways for later in before):
            before.add(number)
    when = {"human_gate": pick.choice(["retry", "reject"]), "branch": "again"}.get(kinds[source])
    to, visits, guard = pick.choice(sorted(before)), pick.randint(2, 3), _maybe(pick, "gl")
    names = [f"n{number}" for number in (source, to)] if kinds != ["task"] else ["flow", "flow"]
    return loop(*names, visits, when=when, guard=guard)


class Record(Game):
    """A game that folds its history along the way, so that long ones stay cheap."""

    def __init__(self, graph: Graph, **given: Any) -> None:
        self._shadow = State()
        self.commits: list[int] = []
        """Where the history stood after each command that caused something."""
        self.sent: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        super().__init__(graph, **given)

    def do(self, command: cmd.Command, **how: Any) -> list[ev.Event]:
        self.sent[type(command).__name__] += 1
        try:
            events = super().do(command, **how)
        except HoldfastError as refusal:
            self.refused[type(refusal).__name__] += 1
            raise
        if events:
            self.commits.append(len(self.history))
        return events

    def migrate(self) -> None:
        """The run goes on with another version of its workflow."""
        changed = next_version(self.graph)
        self.do(cmd.MigrateRun(ANN), graph=changed)
        self.graph = changed

    def replayed(self, count: int | None = None) -> State:
        if count is not None:
            return super().replayed(count)
        for data, at_ms in list(zip(self.history, self.times, strict=True))[self._shadow.seq :]:
            evolve(self._shadow, ev.decode(data), at_ms)
        return self._shadow

    def check_history(self) -> None:
        """What can be said of a whole history, folded once more from its beginning."""
        state = State()
        attempts: Counter[StepId] = Counter()
        over: set[StepId] = set()
        outcomes: Counter[CallId] = Counter()
        closed: Counter[GateId] = Counter()
        for event, at_ms in zip(self.events(), self.times, strict=True):
            match event:
                case ev.StepReady() | ev.StepStarted():
                    assert event.step not in over, f"{event.step} was over"
                    known = state.step(event.step) is not None
                    assert known or self.follows(state, event.step), f"{event.step} follows from nothing"
                    if isinstance(event, ev.StepStarted):
                        attempts[event.step] += 1
                        assert event.attempt == attempts[event.step], "a visit starts once, its attempts increase"
                case ev.StepCompleted() | ev.StepSkipped() | ev.StepCancelled():
                    over.add(event.step)
                case ev.LoopTaken():
                    over.update(event.superseded)
                case ev.RunReopened():
                    over.difference_update(event.superseded)  # one that had not begun may begin under its name
                case ev.StepReplayed():
                    over.discard(event.step)
                case ev.ModelCallSettled() | ev.ModelCallFailed() | ev.ModelCallReconciled():
                    outcomes[event.call] += 1
                case ev.EffectCompleted() | ev.EffectFailed() | ev.EffectReleased() | ev.OutcomeOrphaned():
                    outcomes[event.call] += 1
                case ev.EffectIntended():
                    done = state.step(event.step)
                    op = done.journal.get(event.path) if done is not None else None
                    assert op is None or op.status in ("reopened", "deferred"), "no call begins where one is, or was"
                case ev.GateDecided() | ev.GateExpired() | ev.GateWithdrawn():
                    closed[event.gate] += 1
                case _:
                    self.check_waits(state, event)
            evolve(state, event, at_ms)
        assert same(state, self.state)
        assert not [call for call, count in outcomes.items() if count > 1], "a call has one outcome"
        assert not [gate for gate, count in closed.items() if count > 1], "a gate is closed once"

    def check_waits(self, state: State, event: ev.Event) -> None:
        """What comes, comes to what waits for it."""
        match event:
            case ev.SignalDelivered() | ev.TimerFired() | ev.OperationCalledOff():
                op = state.steps[node_of(event.step)].journal[event.path]
                assert op.status not in ("done", "failed"), "nothing comes to what waits no more"
            case ev.StepCancelling():
                step = state.steps[node_of(event.step)]
                goes_on = (state.phase, step.attempt > 0, step.status in OPEN_STEPS, step.cancelled_at)
                assert goes_on == ("cancelling", True, True, 0), "what has begun hears once that it is cancelled"
            case _:
                pass

    def follows(self, state: State, id_: StepId) -> bool:
        """Whether something that has happened leads to a first start of this step."""
        name = NodeName(id_.rpartition("#")[0])
        if name == COMPENSATE:
            return bool(state.phase)
        if is_item(name):
            return map_of(name) in state.maps
        if name in state.summoned or not self.graph.incoming[name]:
            return True
        join = self.graph.nodes[name].join
        sources = [state.steps.get(edge.source) for edge in self.graph.incoming[name]]
        if name in state.joins and state.joins[name] is None:
            return True  # its time is up
        if join.mode == "best_effort":
            return all(step is not None and step.status not in OPEN_STEPS for step in sources)
        return any(step is not None and step.status in ("completed", "failed") for step in sources)


def elsewhere(pick: random.Random) -> dict[EffectKey, cmd.KnownEffect]:
    """Another run has the tenant-wide effect that these runs mean."""
    other = CallId("other-run:send#1:0:1")
    return {EffectKey("wide"): cmd.KnownEffect(other, pick.choice(["h", "h", "other"]), pick.choice([None, inline("sent")]))}


FULL = cmd.Shortage(1, 0, 1)


def in_line(pick: random.Random) -> dict[str, Any]:
    """How some runs begin: with too many others before them."""
    return {"queue": True, "shortages": {run_scopes("acme")[0]: FULL}} if pick.random() < 0.1 else {}


# --- Chaos ------------------------------------------------------------------------------------------------------------


class Chaos:
    """Sends whatever can be said, to whatever there ever was."""

    def __init__(self, graph: Graph, pick: random.Random) -> None:
        self.game = Record(graph, by="kim", naming=1 + pick.getstate()[1][6] % 2, **in_line(pick))
        self.pick = pick
        self.by_the_way = random.Random(pick.getstate()[1][0])
        self.talk = random.Random(pick.getstate()[1][1])
        self.board = random.Random(pick.getstate()[1][2])
        self.prices = random.Random(pick.getstate()[1][3])
        self.people = random.Random(pick.getstate()[1][4])
        self.tasks = random.Random(pick.getstate()[1][5])
        self.steps = [(event.step, event.attempt) for event in self.game.events(ev.StepStarted)]
        self.calls: list[CallId] = []
        self.gates = [event.gate for event in self.game.events(ev.GateOpened)]
        self.sessions = [SessionId(f"s{n}") for n in range(3)]

    def play(self, moves: int) -> None:
        for _ in range(moves):
            self.game.now_ms += self.pick.choice([0, 0, 1, 500, 5_000, 40_000, -10_000])
            session = self.pick.choice([*self.sessions, None])
            try:
                if self.game.state.paused and self.pick.random() < 0.5:
                    self.game.resume()
                if self.pick.random() < 0.01 and "late" not in self.game.graph.nodes:
                    self.game.migrate()
                shortages = self.game.shortages(left=self.pick.choice([0, 50]), held=self.pick.choice([0, 100]))
                shortages = self.pick.choice([{}, {}, {}, shortages, dict.fromkeys(run_scopes("acme")[1:], FULL)])
                events = self.game.do(
                    self.move(),
                    session=session,
                    slots=self.pick.choice([0, 1, 5]),
                    shortages=shortages,
                    taken=self.pick.choice([{}, {}, {}, elsewhere(self.pick)]),
                )
                if self.by_the_way.random() < 0.1:
                    self.settle_letter()
                if self.talk.random() < 0.1:
                    self.say()
                if self.board.random() < 0.1 and self.steps:
                    self.share()
            except HoldfastError:
                continue
            for event in events:
                if isinstance(event, ev.StepStarted):
                    self.steps.append((event.step, event.attempt))
                elif isinstance(event, ev.ModelCallHeld | ev.EffectIntended):
                    self.calls.append(event.call)
                elif isinstance(event, ev.GateOpened):
                    self.gates.append(event.gate)

    def settle_letter(self) -> None:
        """Something is said of a step that has failed for good, or of one that has not."""
        letters = [*self.game.letters, *(id_ for id_, _ in self.steps[-1:])]
        if letters:
            settle = self.by_the_way.choice([self.game.edit_letter, self.game.replay_letter, self.game.resolve_letter])
            settle(self.by_the_way.choice(letters))

    def say(self) -> None:
        """Something is said while the run is at work, perhaps again, and some step reads it."""
        game = self.game
        game.do(cmd.SendMessage(max(1, game.state.told + self.talk.choice([-1, 0, 1, 2])), inline("said")))
        if self.steps:
            game.do(cmd.ReadMessages(*self.steps[-1], Path(str(self.talk.randint(0, 3)))))

    def share(self) -> None:
        """A step writes a value that nobody has written, or waits for one; somebody tells who waits."""
        step, path = self.steps[-1], Path(f"9{self.board.randint(0, 1)}")
        value = inline(SharedValue(1, 1, 3, "somebody"))
        conflict = SharedConflict(0, 1, "ann", "reject", NULL, NULL) if self.board.random() < 0.4 else None
        refusal = "moved" if conflict is not None and self.board.random() < 0.5 else None
        key = f"case {self.board.getrandbits(64):x}"
        write = cmd.WriteSharedValue(*step, path, "board", key, "h", 0, refusal is None, value, conflict, refusal)
        if self.board.random() < 0.5:
            index = SharedIndex("black tea", "tiny", packed((3, 4)))
            write = msgspec.structs.replace(write, index=index, keep=self.board.choice([0, 1]), dropped=("case",))
        timeout_ms = self.board.choice([None, 1, 5_000])
        wait = cmd.AwaitSharedValue(*step, Path(f"{path}0"), "board", "case", "h", 1, timeout_ms)
        bring = cmd.BringSharedValue(step[0], Path(f"{path}0"), value)
        self.game.do(self.board.choice([write, wait, wait, bring, bring]))

    def move(self) -> cmd.Command:
        pick = self.pick
        state = self.game.state
        choices = [self.judge, self.outside] if pick.random() < 0.5 else [cmd.Tick]
        if self.steps:
            choices += [self.inside] * 8
        if self.calls:
            choices += [self.outcome] * 4
        if state.children:
            choices += [self.end_of_child] * 2
        if state.gates or self.gates:
            choices += [self.answer]
        return pick.choice(choices)()

    def outside(self) -> cmd.Command:
        return self.pick.choice(
            [
                cmd.Tick(),
                cmd.Tick(frozenset(self.pick.sample(self.sessions, 1))),
                cmd.PauseRun() if self.pick.random() < 0.3 else cmd.Tick(),
                cmd.ResumeRun(),
                cmd.ResumeRun(),
                cmd.Tick(headroom=frozenset([*self.game.shortages(), *run_scopes("acme"), "effect/wide"])),
                cmd.SendSignal("go", NULL, makers=self.makers()),
                cmd.RaiseLimit(self.pick.choice([*LIMITS]), self.pick.randint(1, 2000)),
                cmd.Tick() if self.pick.random() < 0.9 else cmd.CancelRun(),
                cmd.MigrateRun(),
                cmd.RetryRun(Actor("ann")),
                cmd.LabelRun(self.pick.choice([{"a": "1"}, {"a": None, "b": "2"}, dict.fromkeys(map(str, range(33)), "x")])),
                cmd.UndoRun("undone"),
                cmd.StartRun(RUN, "acme", NULL, ""),
            ]
        )

    def judge(self) -> cmd.Command:
        verdicts = [
            cmd.Verdict(
                q.step, q.target, q.guard, self.pick.random() < 0.7, None, None if self.pick.random() < 0.95 else error()
            )
            for q in self.game.state.asked.values()
            if self.pick.random() < 0.8
        ]
        return cmd.JudgeGuards((*verdicts, cmd.Verdict(StepId("n0#1"), NodeName("n1"), "g", False)))

    def inside(self) -> cmd.Command:
        pick = self.pick
        active = [(step.id, step.attempt) for step in map(self.game.step, self.game.active)]
        at = pick.choice(active if active and pick.random() < 0.85 else self.steps)
        path = Path(pick.choice(["0", "0", "1", "2.0.0", "2.1.0"]))
        args = pick.choice(["h"] * 8 + ["other"])
        key = pick.choice([None, None, "k1", "k2"])
        said = args if key is None else pick.choice([args, "other"])
        policy = pick.choice(["read", "idempotent", "verify", "once"])
        decisions = pick.choice([None, ("pass",), ("fail",), ("retry",), ("x",), ("again",), ("n1",), ("n2", "n3"), ()])
        value = cmd.Value(Path("9"), "now", 1)
        limited = error(policies.RATE_LIMIT, retryable=True)
        step = self.game.state.step(at[0])
        stands = [path for path, op in step.journal.items() if op.status == "done"] if step is not None else []
        if self.tasks.random() < 0.1:
            return self.of_tasks(at, args)
        kept = [op for op in step.kept.values() if op.kind == "tool"] if step is not None else []
        if kept and pick.random() < 0.6:
            return cmd.IntendEffect(*at, Path("3"), "send", policy, kept[0].args_hash, NULL)
        named = [*self.game.state.named_children]
        if named and pick.random() < 0.3:
            return cmd.RequestChild(*at, Path("5"), self.new_child(), "other", 1, "hash", args, NULL, None, named[0])
        offers = (cmd.CallCandidate("m", pick.choice([0, 40, 120]), pick.choice([0, 60])), cmd.CallCandidate("n", 30, 10))
        price = self.prices.choice([0, 0, 25, 90])
        expires_after_ms = self.people.choice([None, None, 20_000])
        return pick.choice(
            [
                cmd.CompleteStep(*at, inline(patch(self.game.graph, at[0])), decisions, values=(value,)),
                cmd.FailAttempt(*at, pick.choice([TRANSIENT] * 4 + [limited] * 2 + [error()]), path),
                cmd.SuspendStep(*at),
                cmd.SuspendStep(*at, yields=True),
                cmd.RecordValues(*at, (value, cmd.Value(Path("done"), "result", None, inline(1)))),
                cmd.RecordValues(*at, (value, cmd.Value(path, FUNCTION, None, inline(1), "f", args))),
                cmd.RecordValues(*at, (value, cmd.Value(Path("label"), LABEL, {"a": args, "c": None}))),
                cmd.FailFunction(*at, path, "f", args, pick.choice([TRANSIENT, limited, error()]), TWICE),
                cmd.RetryOperation(*at, path, TWICE),
                cmd.ReuseOperation(*at, Path("3"), FUNCTION, "f", args, (value,)),
                map_items(at, path, random.Random(f"{at[0]}{path}"), args),
                cmd.RecordValues(*at, (cmd.Value(path, MAP, None, inline([]), "list", args),)),
                cmd.AwaitPools(*at, path, "m", ("POOL",)),
                cmd.LoseAttempt(*at),
                cmd.StopStep(
                    *at, pick.choice(stands or [path]), {"operation": "one"}, {"operation": pick.choice(["another", "a third"])}
                ),
                cmd.HoldModelCall(*at, path, "m", args, offers[: pick.randint(1, 2)]),
                cmd.HoldModelCall(*at, path, "m", args, offers[:1]),
                cmd.IntendEffect(
                    *at, path, "send", policy, said, NULL, key, 5, pick.choice([None, "undo"]), hold_nanousd=price
                ),
                cmd.IntendEffect(*at, path, "send", policy, said, NULL, key, None, pick.choice([None, "undo"])),
                cmd.IntendEffect(*at, path, "send", policy, said, NULL, key, None, hold_nanousd=price),
                cmd.IntendEffect(
                    *at,
                    path,
                    "send",
                    policy,
                    said,
                    NULL,
                    EffectKey("wide"),
                    None,
                    pick.choice([None, "undo"]),
                    tenant_wide=True,
                ),
                cmd.DenyToolCall(*at, path, "send", args, error(policies.DENIED)),
                cmd.RequestChild(
                    *at,
                    path,
                    self.new_child(),
                    "other",
                    1,
                    "hash",
                    args,
                    NULL,
                    None,
                    pick.choice([None, "c1", "c1"]),
                    pick.random() < 0.3,
                ),
                cmd.AwaitChild(*at, path, pick.choice([*self.game.state.children, RunId("nobody")]), args),
                cmd.UndoChild(*at, path, pick.choice([*self.game.state.children, RunId("nobody")]), "other", args),
                cmd.StartTimer(*at, path, args, pick.choice([0, 1000, 60_000])),
                cmd.AwaitSignal(*at, path, "go", args, pick.choice([None, 10_000])),
                cmd.OpenGate(
                    *at,
                    path,
                    pick.choice(["question", "tool_approval"]),
                    args,
                    NULL,
                    "h",
                    ("answer", "reject"),
                    timeout_ms=pick.choice([None, 9000]),
                    remind_every_ms=pick.choice([None, 2000, 4000]),
                    cancel_after_ms=pick.choice([None, 50_000]),
                    expires_after_ms=expires_after_ms,
                    reviewers=self.people.choice([(), ("ann", "lead")]),
                ),
                cmd.OpenGate(
                    *at,
                    path,
                    "tool_approval",
                    args,
                    NULL,
                    "h",
                    ("approve", "edit", "reject"),
                    four_eyes=True,
                    quorum=self.people.choice([1, 2]),
                ),
                cmd.OpenGate(
                    *at,
                    path,
                    "approval",
                    args,
                    NULL,
                    "h",
                    ("approve", "reject", "retry"),
                    completes_step=True,
                    expires_after_ms=expires_after_ms,
                ),
            ]
        )

    def of_tasks(self, at: tuple[StepId, int], args: str) -> cmd.Command:
        """What only code says that has several tasks: it goes on without something, or waits by asyncio's clock."""
        pick, timer, step = self.tasks, Path("@0"), self.game.state.step(at[0])
        open_ = [*step.pending] if step is not None else []
        return pick.choice(
            [
                cmd.CallOffOperations(*at, (*open_, timer, Path("0"))),
                cmd.CallOffOperations(*at, tuple(open_[:1])),
                cmd.SuspendStep(*at, timers=(cmd.Timer(timer, args, pick.choice([0, 30_000])),)),
                cmd.RecordValues(*at, (cmd.Value(timer, SLEEP, None, None, TIMER, args),)),
                cmd.CancelRun(insists=pick.random() < 0.3) if pick.random() < 0.2 else cmd.Tick(),
            ]
        )

    def new_child(self) -> RunId:
        return RunId(f"child-{len(self.game.history)}")

    def end_of_child(self) -> cmd.Command:
        """A child ends, perhaps for the second time, perhaps one that there never was."""
        child = self.pick.choice([*self.game.state.children, RunId("nobody")])
        how: Any = self.pick.choice(["completed", "failed", "cancelled"])
        return cmd.EndChild(
            child,
            how,
            inline("c") if how == "completed" else NULL,
            None if how == "completed" else error(),
            undoable=self.pick.random() < 0.5,
            makers=self.makers(),
        )

    def makers(self) -> dict[str, tuple[str, ...]]:
        """Those who made a key with which somebody decided elsewhere: another at times."""
        return {"keys.elsewhere": (f"maker-{len(self.game.history) % 3}",)}

    def outcome(self) -> cmd.Command:
        call = self.pick.choice([*self.calls[-2:], self.pick.choice(self.calls)])
        hold = getattr(self.game.state.calls.get(call), "hold_nanousd", 0)
        reopens = self.pick.random() < 0.3
        if self.game.state.calls.get(call) is not None and self.game.state.calls[call].doubted and reopens:
            return cmd.ReconcileCall(call, self.pick.choice([-1, -1, 0, hold]))
        return self.pick.choice(
            [
                cmd.SettleModelCall(call, self.pick.randint(0, hold), 5, 5, inline("m")),
                cmd.SettleModelCall(call, self.pick.randint(0, hold), 5, 5, inline("m")),
                cmd.FailModelCall(call, TRANSIENT),
                cmd.DoubtModelCall(call, TRANSIENT, self.pick.choice([None, inline("m")]), reopens),
                cmd.DoubtModelCall(call, TRANSIENT, None, reopens, inline("pa"), self.pick.choice([None, 0, hold])),
                cmd.ReconcileCall(call, self.pick.choice([-1, 0, hold])),
                cmd.CompleteEffect(call, inline("done")),
                cmd.CompleteEffect(call, inline("done")),
                cmd.FailEffect(call, TRANSIENT),
                cmd.ReleaseEffect(call),
                cmd.DoubtEffect(call, TRANSIENT, reopens),
                cmd.ReopenEffect(call),
            ]
        )

    def answer(self) -> cmd.Command:
        changed = [id_ for id_, gate in self.game.state.gates.items() if gate.opened.reason == CODE_CHANGED]
        if changed and self.pick.random() < 0.7:
            return cmd.DecideGate(changed[0], self.pick.choice(["approve", "answer", "answer", "retry"]), RESTART)
        gate = self.pick.choice([*self.game.state.gates, *self.gates[-2:]])
        decision = self.pick.choice(["approve", "answer", "answer", "reject", "retry"])
        data = self.pick.choice([None, {"limit_usd": "0.000001"}, {"steps": 50, "tokens": 5000, "active": 500}, RESTART])
        by = Actor(self.pick.choice(["ann", None]))
        known = self.game.state.gates.get(gate)
        if known is not None and known.opened.four_eyes:
            decision, by = (self.people.choice(["approve", "edit", "reject"]), Actor(self.people.choice(["bob", "eve", "zoe"])))
            return cmd.DecideGate(gate, decision, {"to": by.name} if decision == "edit" else None, by)
        if self.people.random() < 0.1:
            return cmd.AssignGate(gate, ("bob", "ann"), self.people.choice([True, False]), by)
        together = asked_together(self.game.state, gate)
        if together and self.pick.random() < 0.5:
            others = [*together, *self.pick.choice([(), (), (gate,), self.gates[-1:]])]
            return cmd.DecideTogether(tuple(cmd.DecideGate(each, decision, data, by) for each in others))
        return cmd.DecideGate(gate, decision, data, by)


@quick(300)
@given(GRAPHS, SEEDS)
def test_whatever_is_said_the_history_is_the_state_and_the_books_balance(graph: Graph, seed: int) -> None:
    """Every command is followed by the checks of Game; refused ones must have changed nothing."""
    chaos = Chaos(graph, random.Random(seed))
    chaos.play(60)
    chaos.game.check_history()


@quick(40)
@given(GRAPHS, SEEDS)
def test_any_prefix_of_any_history_folds_and_goes_on(graph: Graph, seed: int) -> None:
    pick = random.Random(seed)
    chaos = Chaos(graph, pick)
    chaos.play(40)
    game = chaos.game
    count = pick.randint(0, len(game.history))
    state = game.replayed(count)
    assert state.seq == count
    for data, at_ms in list(zip(game.history, game.times, strict=True))[count:]:
        evolve(state, ev.decode(data), at_ms)
    assert same(state, game.state)


# --- A crew that does everything --------------------------------------------------------------------------------------


class Crew:
    """Executes a run. Each step is a fixed program, as a handler is; who comes first, and what goes wrong, is chance.

    A program has one or two lanes (the branches of a gather) of operations. Nothing happens at once: an attempt leaves
    some time after it was refused, an outcome comes some time after its call, and a process dies in between.
    """

    def __init__(self, graph: Graph, seed: int) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self.by_the_way = random.Random(f"{seed}/by the way")
        self.game = Record(graph, naming=1 + seed // 2 % 2, **in_line(random.Random(f"{seed}/line")))
        self.moves = 0
        self.refused: set[tuple[StepId, int, Path]] = set()
        """What an attempt has asked for in vain: it does not ask twice."""
        self.leaving: set[tuple[StepId, int]] = set()
        self.flying: dict[CallId, str] = {}
        self.ghosts: list[tuple[CallId, str]] = []
        """Calls of processes that were taken for dead."""
        self.reused: set[tuple[StepId, Path]] = set()
        """What the run has from its origin, if it is a fork."""

    def play(self) -> None:
        while not self.game.state.ended:
            self.moves += 1
            assert self.moves < 3_000, f"no end in sight: {self.situation()}"
            self.move()
        while self.flying:
            self.bring(next(iter(self.flying)))

    def fork(self) -> Crew | None:
        """A crew with a fork of this run, which has ended, from one of its steps; None where none has begun."""
        game = self.game
        began = [event.step for event in game.events(ev.StepStarted) if node_of(event.step) in game.graph.nodes]
        if not began:
            return None
        step = self.pick.choice(began)
        history = [
            ev.Recorded(Seq(number), at_ms, event)
            for number, (event, at_ms) in enumerate(zip(game.events(), game.times, strict=True), 1)
        ]
        outputs = {node_of(other): inline("said") for other in began if not game.graph.nodes[node_of(other)].decides}
        said = {name: each for name, each in outputs.items() if name != node_of(step) and self.pick.random() < 0.1}
        wish = ForkRequest(step, repeats_effects=self.pick.random() < 0.5, by=ANN)
        try:
            found = forked(game.graph, history, msgspec.structs.replace(wish, outputs=said))
        except InvalidInput:  # one of them had failed, or was skipped
            found = forked(game.graph, history, wish)
        crew = Crew(game.graph, self.seed)
        crew.game = Record(game.graph, start=False)
        crew.game.now_ms = game.now_ms
        naming = found.began.naming
        crew.game.do(cmd.StartRun(RunId("0190-fork"), "acme", NULL, "fork", None, by=ANN, inherits=found.events, naming=naming))
        crew.reused = {(each.step, each.path) for each in found.reused_operations}
        return crew

    def situation(self) -> str:
        game = self.game
        return f"{game.status} {game.statuses()} waits for {game.waits}, due {game.due_ms} at {game.now_ms - START_MS}"

    def move(self) -> None:
        """Whatever can be done by somebody, at random where there is a choice."""
        game, state = self.game, self.game.state
        if state.asked and (not game.active or self.pick.random() < 0.7):
            game.judge(allow=self.pick.random() < 0.7)
        elif self.flying and self.pick.random() < 0.3:
            self.bring(self.pick.choice(list(self.flying)))
        elif game.active:
            self.work(game.step(self.pick.choice(game.active)))
        elif state.paused:
            game.resume()
        elif not (state.startable and game.tick()):
            self.idle()
        if not state.ended:
            self.meddle()

    def idle(self) -> None:
        """Nothing runs and nothing may start: something must come home or fall due, or somebody answer."""
        game = self.game
        if game.status in ("waiting", "requires_attention", "budget_blocked"):
            assert game.waits, f"a run that waits says for what: {self.situation()}"
        if self.flying:
            self.bring(next(iter(self.flying)))
        elif game.state.gates and (game.due_ms is None or self.pick.random() < 0.5):
            self.answer()
        elif game.state.awaits is not None:
            full = {scope: FULL for scope in run_scopes("acme") if self.pick.random() < 0.3}
            game.do(cmd.Tick(headroom=frozenset([game.state.awaits])), shortages=full)
        elif game.state.has_open_children:
            self.end_child()
        elif game.due_ms is not None:
            self.wait()
        else:
            raise AssertionError(f"nobody can do anything: {self.situation()}")

    def meddle(self) -> None:
        chance = self.pick.random()
        if chance < 0.04 and self.game.active:
            self.crash()
        elif 0.04 < chance < 0.07:
            self.game.pause()
        elif 0.07 < chance < 0.10:
            self.game.resume()
        elif 0.10 < chance < 0.11 or (self.game.graph.cleanup_s is not None and self.by_the_way.random() < 0.05):
            self.game.do(cmd.CancelRun(by=ANN, insists=self.by_the_way.random() < 0.1))
        elif 0.11 < chance < 0.15:
            self.game.signal("go")
        elif 0.15 < chance < 0.25 and self.game.state.gates:
            self.answer()
        elif 0.25 < chance < 0.30 and self.ghosts:
            self.haunt(*self.ghosts.pop())
        elif 0.30 < chance < 0.31 and "late" not in self.game.graph.nodes:
            self.game.migrate()
        elif 0.31 < chance < 0.34:
            self.reconcile()
        elif 0.50 < chance < 0.58 and self.game.state.has_open_children:
            self.end_child()
        elif 0.34 < chance < 0.50 and self.game.state.short:
            self.game.do(cmd.Tick(headroom=frozenset(self.game.shortages())))

    def wait(self) -> None:
        """Until something is due; then looking must find something."""
        game = self.game
        before = game.due_ms
        assert before is not None
        game.now_ms = max(game.now_ms, START_MS + before)
        found = game.tick()
        assert found or game.due_ms != before, f"looking found nothing: {self.situation()}"

    def crash(self) -> None:
        dead, self.game.session = self.game.session, SessionId(f"worker{self.moves}")
        self.ghosts += self.flying.items()
        self.flying.clear()
        self.game.lose(dead, by=self.pick.choice([self.game.session, None]))

    def haunt(self, call: CallId, kind: str) -> None:
        """A process that was taken for dead brings an outcome after all."""
        try:
            if kind == "model":
                self.game.settle(call, 1)
            else:
                self.pick.choice([self.game.did, self.game.never_left])(call)
        except AlreadyClosed:
            pass

    def end_child(self) -> None:
        """One that nobody waits for any more is cancelled; what becomes of others is chance."""
        name, child = self.pick.choice(list(self.game.state.open_children()))
        how = "cancelled" if child.abandoned else self.pick.choice(["completed", "completed", "failed"])
        if child.undoing:
            how = self.pick.choice(["completed", "cancelled", "cancelled", "failed"])
        self.game.end_child(name, how, undoable=self.pick.random() < 0.5)

    def reconcile(self) -> None:
        """The provider's bill shows what a call in doubt has cost."""
        doubted = [id_ for id_, call in self.game.state.calls.items() if call.kind == "model" and call.doubted]
        if doubted:
            call = self.pick.choice(doubted)
            self.game.reconcile(call, self.pick.randint(0, self.game.state.calls[call].hold_nanousd))

    def settle_letter(self) -> None:
        """Another input may help, or another try."""
        settle = self.by_the_way.choice([self.game.edit_letter, self.game.replay_letter])
        try:
            settle(self.by_the_way.choice(self.game.letters))
        except (Conflict, RunEnded):
            pass  # an effect of it is in doubt, or it has been undone

    def answer(self) -> None:
        if self.game.letters and self.by_the_way.random() < 0.2:
            self.settle_letter()
        if not self.game.state.gates:
            return  # a replay has withdrawn the question
        gate = self.pick.choice(list(self.game.state.gates.values())).opened
        decision = self.pick.choice(gate.allowed)
        data: dict[str, Any] = {}
        if gate.reason == "budget":
            needed = nanousd(gate.shown.value()["needed_limit_usd"])
            data = {"limit_usd": usd(max(needed, (self.game.state.budget.limit_nanousd or 0) + 1))}
        elif gate.subject in LIMITS:
            data = {gate.subject: 10_000_000 * self.moves}
        try:
            self.game.decide(decision, gate.gate, data)
        except HoldfastError:
            assert decision == "retry", f"a gate must take what it offers: {decision} {gate}"
            self.game.decide("reject", gate.gate)

    # --- One attempt --------------------------------------------------------------------------------------------------

    def work(self, step: Step) -> None:
        """The attempt's next move: one more operation, or its end."""
        name = NodeName(step.id.rpartition("#")[0])
        if (step.id, step.attempt) in self.leaving:
            self.game.suspend(name)
            return
        ops = [self.next_of(step, lane) for lane in self.program(step, name)]
        standings = [op[0] for op in ops]
        can = [op for op in ops if op[0] in ("begin", "verify", "fly")]
        if can:
            standing, path, kind, how = self.pick.choice(can)
            if standing == "fly":
                self.bring(step.journal[path].call)
            elif standing == "verify":
                self.verify(step.journal[path])
            else:
                self.begin(step, name, path, kind, how)
        elif "failed" in standings:
            path = next(op[1] for op in ops if op[0] == "failed")
            if not self.game.do(cmd.RetryOperation(*self.game.at(name), path, TWICE)):
                self.game.fail(name, step.journal[path].error, path)
        elif "wait" in standings:
            waiting = [path for standing, path, *_ in ops if standing == "wait"]
            if self.by_the_way.random() < 0.1:  # the code has a time limit of its own
                self.game.do(cmd.CallOffOperations(*self.game.at(name), tuple(waiting)))
            else:
                self.leave(name, step)
        else:
            self.finish(step, name)

    def program(self, step: Step, name: NodeName) -> list[list[Any]]:
        """What the step does, the same in every attempt: lanes of (path, kind, how)."""
        if name == COMPENSATE:
            done = list(reversed(self.game.state.compensable))
            return [
                [
                    (Path(str(i)), "tool" if each.child is None else "undone", ("idempotent", None, each.child or each.call))
                    for i, each in enumerate(done)
                ]
            ]
        fixed = random.Random(f"{self.seed}/{step.id}")
        if is_map(self.game, name):
            return [[(Path("0"), "map", None)]]
        mapping = ["map"] if name.count("[") < 2 else []
        return [
            [
                (
                    Path(f"0.{lane}.{number}"),
                    fixed.choice(
                        [
                            "model",
                            "model",
                            "tool",
                            "tool",
                            "tool",
                            "tool",
                            "sleep",
                            "signal",
                            "gate",
                            "function",
                            "child",
                            *mapping,
                        ]
                    ),
                    (fixed.choice(["read", "idempotent", "verify", "once"]), fixed.choice([None, "k"]), None),
                )
                for number in range(fixed.choice([0, 1, 1, 2]))
            ]
            for lane in range(fixed.choice([1, 1, 2]))
        ]

    def next_of(self, step: Step, lane: list[Any]) -> tuple[str, Path, str, Any]:
        """How a lane stands: at which operation, and what can be done there now."""
        for path, kind, how in lane:
            op = step.journal.get(path)
            if op is not None and op.status == "done":
                continue
            if op is not None and op.status == "failed":
                if random.Random(f"{self.seed}/{step.id}/{path}").random() < 0.5:
                    continue  # the handler survives it, as it does every time
                return "failed", path, kind, how
            if op is not None and op.status == "unverified":
                return "verify", path, kind, how
            if op is not None and op.status == "open" and op.call in self.flying:
                return "fly", path, kind, how
            asks = op is None or op.status in ("reopened", "deferred")
            if asks and (step.id, step.attempt, path) not in self.refused:
                return "begin", path, kind, how
            return "wait", path, kind, how
        return "done", Path(""), "", None

    def leave(self, name: NodeName, step: Step) -> None:
        """Now, or after others have had their turn."""
        if self.pick.random() < 0.5:
            self.game.suspend(name)
        else:
            self.leaving.add((step.id, step.attempt))

    def begin(self, step: Step, name: NodeName, path: Path, kind: str, how: Any) -> None:
        game, at = self.game, self.game.at(name)
        fixed = random.Random(f"{step.id}{path}")
        try:
            if kind == "model":
                hold = fixed.choice([10, 60, 150])
                shortages = game.shortages(left=self.pick.choice([0, 20]), held=self.pick.choice([0, 200]))
                game.hold(name, hold, 40, path, shortages=self.pick.choice([{}, {}, {}, {}, shortages]))
            elif kind == "tool":
                policy, key, compensates = how
                undo = None if compensates else fixed.choice([None, "undo"])
                price = 0 if compensates is not None else random.Random(f"price of {step.id}{path}").choice([0, 0, 25])
                game.intend(
                    name, policy, path, key=key, compensation=undo, compensates=compensates, settles_within_s=2, nanousd=price
                )
            elif kind == "undone":
                game.undo_child(how[2], path)
            elif kind == "function":
                self.call(step, at, path)
            elif kind == "map":
                if path in step.journal:  # the items have done enough
                    game.do(cmd.RecordValues(*at, (cmd.Value(path, MAP, None, inline([]), "list", "h"),)))
                else:
                    game.do(map_items(at, path, fixed))
            else:
                self.begin_waiting(name, path, kind, fixed)
        except Suspended:
            pass
        except Conflict:  # what happens once needs a person's word in a fork; and what cleans up has no items
            if kind != "map" and approval_at(path) not in step.journal:
                game.open_gate(name, approval_at(path))
        op = step.journal.get(path)
        if op is not None and op.status == "open" and op.call is not None and game.state.step(step.id) is step:
            self.flying[op.call] = kind
        else:
            self.refused.add((*at, path))

    def begin_waiting(self, name: NodeName, path: Path, kind: str, fixed: random.Random) -> None:
        game = self.game
        if kind == "sleep":
            game.do(cmd.StartTimer(*game.at(name), path, "sleep", 20_000))
        elif kind == "child":
            game.ask_for(name, path, key=fixed.choice([None, None, "c"]), background=fixed.random() < 0.2)
        elif kind == "signal":
            game.await_signal(name, "go", 30, path)
        else:
            game.open_gate(name, path, timeout_ms=10_000)

    def call(self, step: Step, at: tuple[StepId, int], path: Path) -> None:
        """A function of the user's runs, and what it came to is told. Of a run that is paused meanwhile it is told too."""
        if step.kept or step.inherited:
            self.game.do(cmd.ReuseOperation(*at, path, FUNCTION, "f", "h"))
        if path in step.journal and step.journal[path].status == "done":
            return
        may_begin(self.game.state, step.id)
        if self.pick.random() < 0.1:
            self.game.pause()
        if self.pick.random() < 0.6:
            self.game.do(cmd.RecordValues(*at, (cmd.Value(path, FUNCTION, None, inline(1), "f", "h"),)))
        else:
            self.game.do(cmd.FailFunction(*at, path, "f", "h", self.pick.choice([TRANSIENT, error()]), TWICE))

    def bring(self, call: CallId | None) -> None:
        """The outcome of a call comes home."""
        assert call is not None
        game, pick, kind = self.game, self.pick, self.flying.pop(call)
        if kind == "model":
            hold = game.state.calls[call].hold_nanousd
            how = pick.choice(["settle", "settle", "refuse", "doubt"])
            if how == "settle":
                game.settle(call, pick.randint(0, hold), tokens=(5, 5))
            elif how == "refuse":
                game.refuse(call, TRANSIENT)
            else:
                game.doubt_money(call)
        else:
            failed = pick.choice([TRANSIENT, error(policies.TOOL)])
            how = pick.choice(["did", "did", "did", "doubt", "never_left", "did_not"])
            if how == "did_not":
                game.did_not(call, failed)
            else:
                getattr(game, how)(call)

    def verify(self, op: Operation) -> None:
        assert op.call is not None
        call = self.game.state.calls[op.call]
        if self.pick.random() < 0.5:
            self.game.did(op.call)
        else:
            self.game.now_ms = max(self.game.now_ms, call.at_ms + 2_000)
            self.game.reopen(op.call)

    def finish(self, step: Step, name: NodeName) -> None:
        game, pick = self.game, self.pick
        if name != COMPENSATE and pick.random() < 0.15:
            game.fail(name, pick.choice([TRANSIENT, error(policies.TOOL), error(policies.RATE_LIMIT, retryable=True)]))
            return
        known = game.graph.nodes.get(name)
        kind = "task" if known is None else known.kind
        if kind == "human_gate":
            try:
                game.do(human_gate(game.at(name)))
            except Suspended:
                self.leave(name, step)
            return
        ways: list[Any] = [None]
        if kind == "check":
            ways = ["pass", "pass", "fail", "retry"]
        elif kind == "branch":
            ways = [way.when or way.target for way in self.ways_of(name)] or [""]
        game.complete(name, patch(game.graph, name), pick.choice(ways))

    def ways_of(self, name: NodeName) -> list[Any]:
        graph = self.game.graph
        ways = [*graph.outgoing[name], *graph.loops_from.get(name, ())]
        return [way for way in ways if way.on == "success"]


def is_map(game: Game, name: NodeName) -> bool:
    return name in game.graph.nodes and game.graph.nodes[name].kind == "map"


def map_items(at: tuple[StepId, int], path: Path, pick: random.Random, args: str = "h") -> cmd.MapItems:
    """A list of a few items, with terms that it can meet."""
    count = pick.choice([0, 1, 2, 4])
    enough = pick.choice([count, count, min(1, count)])
    tolerated, timeout_ms = pick.randint(0, count - enough), pick.choice([None, None, 20_000])
    settles = pick.random() < 0.5
    pages = {"pages": (inline([0] * count),), "starts": (0,)} if count else {}
    return cmd.MapItems(
        *at,
        path,
        "list",
        args,
        count,
        pick.randint(1, 3),
        enough,
        pick.choice([tolerated, count - enough]),
        timeout_ms,
        settles,
        TWICE,
        **pages,
    )


def human_gate(at: tuple[StepId, int]) -> cmd.OpenGate:
    allowed = ("approve", "reject", "retry")
    return cmd.OpenGate(*at, Path("9"), "approval", "gate", NULL, "shown", allowed, timeout_ms=5_000, completes_step=True)


@quick(600)
@given(GRAPHS, SEEDS)
def test_a_run_whose_every_wish_is_answered_always_ends(graph: Graph, seed: int) -> None:
    """No order of outcomes, answers, crashes, pauses and late arrivals leaves a run waiting for something that has come."""
    crew = Crew(graph, seed)
    crew.play()
    crew.game.check_history()
    assert crew.game.due_ms is None


@quick(150)
@given(GRAPHS, SEEDS)
def test_a_fork_of_any_run_from_any_step_ends_too_and_does_nothing_twice(graph: Graph, seed: int) -> None:
    """Whatever it has from its origin it reuses; the origin's undoing, costs and questions are not its own."""
    crew = Crew(graph, seed)
    crew.play()
    fork = crew.fork()
    if fork is None:
        return
    fork.play()
    fork.game.check_history()
    for event in fork.game.events(ev.EffectIntended, ev.ModelCallHeld):
        assert (event.step, event.path) not in fork.reused, f"{event} was done by the origin"
