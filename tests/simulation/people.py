"""The people and programs around a run: who starts it, answers its gates, sends signals, pauses, cancels, raises limits.

They act through whatever process is there, make mistakes, ask twice when nobody answers, and remember what was
acknowledged. They learn of a question as by mail, and of everything else through the public face. Never here: the
rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from holdfast.compose import Engine
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import EXPIRED
from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.people.changed_code import RESTART
from holdfast.core.rules.questions import CODE_CHANGED, COMPENSATION_FAILED, EFFECT_UNKNOWN, EXHAUSTED, LIMITS
from holdfast.core.values.ids import GateId, RunId, run_of
from holdfast.core.values.scopes import Period
from holdfast.core.views.status import Wait
from holdfast.errors import (
    AlreadyDecided,
    Conflict,
    DecisionRefused,
    HoldfastError,
    InvalidDecision,
    InvalidInput,
    NotFound,
    RunEnded,
    StoreError,
)
from holdfast.service.control.base import NOT_GIVEN
from holdfast.service.control.command import GateDecision
from tests.simulation.auditor import Auditor
from tests.simulation.chance import Chance, spread_s
from tests.simulation.desk import Desk
from tests.simulation.fault import Faults
from tests.simulation.loop import SimulatedLoop
from tests.simulation.process import MODELS, SLOTS, Process
from tests.simulation.program import DAY_S, TEAM, TEAM_BUDGET, TENANT, Program
from tests.simulation.schedule import Timetable
from tests.simulation.score import Scores
from tests.simulation.talk import NAME, Thread
from tests.simulation.world import World

T = TypeVar("T")

_PATIENCE_S: Final = 40.0
"""How long somebody waits for an answer before he asks again."""
_LIMITED: Final = 0.3
"""How many programs call models whose providers allow only so much."""
_APPROVING: Final = 0.6
"""How many programs without a file have people who say beforehand which calls need no question."""
_TOGETHER: Final = 0.4
"""How many questions about calls are answered together with those that are asked beside them."""
_REPLAYING: Final = 0.3
"""How many questions about an outcome meet somebody who replays the dead letter behind them first."""
_SCORING: Final = 0.1
_MAX_REPLAYS: Final = 3
_MAX_RETAKES: Final = 3
_LOOK_AGAIN_S: Final = 20.0


class Gone(Exception):
    """There is nothing to be answered any more."""


class People:
    """Everybody who wants something of one program."""

    def __init__(
        self,
        loop: SimulatedLoop,
        chance: Chance,
        faults: Faults,
        world: World,
        auditor: Auditor,
        program: Program,
        scores: Scores,
        processes: Callable[[], list[Process]],
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._stream = chance.stream("people")
        self._hands = chance.stream("hands")
        self._board = chance.stream("board")
        self._faults = faults
        self._world = world
        self._auditor = auditor
        self._program = program
        self._scores = scores
        self._processes = processes
        self.run: RunId | None = None
        self.acknowledged: list[tuple[str, str, str]] = []
        """(what, about what, by whom): what somebody was told is done."""
        self._names = 0
        self._replays = self._retakes = 0
        self._forked = False
        self.refusals: dict[str, int] = {}
        self.talk: Thread | None = None
        auditor.on_event = self._hear

    def begin(self) -> None:
        self._do(self._start())
        if self._program.agent is not None:
            stream = self._chance.stream("talk")
            self.talk = Thread(self._program.agent, stream, self._ask, self._refused)
            self._auditor.second_thoughts += 1
            self._do(self._talk(self.talk))

    async def _talk(self, talk: Thread) -> None:
        await talk.take_place()
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    def _do(self, work: Any) -> None:
        self._loop.spawn(self._loop.world, work)

    def _name(self, role: str) -> str:
        self._names += 1
        return f"{role}-{self._names}"

    # --- Hearing of things --------------------------------------------------------------------------------------------

    def _hear(self, run: RunId, event: ev.Event) -> None:
        """A question, a wait or a doubt becomes known to those whom it concerns."""
        match event:
            case ev.GateOpened() if event.allowed:  # else it waits for something to happen, and not for a word
                self._do(self._answer(event))
            case ev.SignalAwaited():
                self._do(self._send_signal(run, event.name, event.due_at_ms is None))
            case ev.ModelCallInDoubt():
                self._do(self._reconcile(run, event))
            case ev.RunStarted() if self.run is None and not _is_reply(event):
                self.run = run
                self._do(self._meddle(run))
            case ev.ScopeExceeded() if event.blocked:
                self._do(self._allow_more(event))
            case ev.RunPaused():
                self._do(self._resume(run))
            case ev.RunFailed() if self._retakes < _MAX_RETAKES and self._faults.strikes("taken_up_again"):
                self._retakes += 1
                self._auditor.second_thoughts += 1
                self._do(self._take_up(run))
            case ev.RunCompleted() | ev.RunFailed() | ev.RunCancelled() if self._may_fork(run):
                self._auditor.second_thoughts += 1
                self._do(self._fork(run))
            case _:
                pass

    def _may_fork(self, run: RunId) -> bool:
        """Only the first run, and once: who judges jobs follows one run."""
        if run != self.run or self._forked or self._auditor.jobs is not None:
            return False
        self._forked = self._faults.strikes("forked")
        return self._forked

    # --- Asking a process ---------------------------------------------------------------------------------------------

    async def _ask(self, what: Callable[[Engine], Awaitable[T]]) -> T:
        """Have a process do something; ask another, or the same again, until one answers. Raises its refusal."""
        while True:
            able = [process for process in self._processes() if process.up]
            if not able:
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            process = self._stream.choice(able)
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    return await process.ask(what)
            except StoreError:
                await asyncio.sleep(spread_s(self._stream, 0.1, 10.0))
            except TimeoutError:
                pass
            except (asyncio.CancelledError, RuntimeError):
                if process.up:
                    raise
                await asyncio.sleep(1.0)

    def _refused(self, problem: HoldfastError) -> None:
        name = type(problem).__name__
        self.refusals[name] = self.refusals.get(name, 0) + 1

    # --- The run ------------------------------------------------------------------------------------------------------

    async def _declare(self) -> None:
        """Say what runs may spend, how many may be active, and what there is of what steps ask for."""
        program = self._program
        for period, team, limits in program.budgets:
            await self._ask(partial(Engine.set_budget, tenant=TENANT, period=period, team=team, **limits))
        if program.team_budget is not None:
            await self._ask(partial(Engine.set_team_budget, name=TEAM_BUDGET, tenant=TENANT, **program.team_budget))
        for whose, runs in program.caps:
            await self._ask(partial(Engine.set_admission, runs=runs, tenant=whose))
        if program.workflow.graph.demands:
            await self._ask(partial(Engine.set_pool, name="SLOTS", slots=SLOTS))
            await self._ask(partial(Engine.set_pool, name="RATE", rate=2, burst=2))
        for name, pool in _of_providers(self._chance.stream("pools of providers")):
            await self._ask(partial(Engine.set_pool, name=name, **pool))

    async def _start(self) -> None:
        program = self._program
        await self._declare()
        for number in range(program.neighbours):
            self._do(self._start_neighbour(f"neighbour-{number}", (TENANT, "another tenant")[number % 2]))

        async def start(engine: Engine) -> str:
            run = await engine.start(
                program.workflow,
                program.input,
                tenant=TENANT,
                team=program.team,
                cost_limit_usd=program.cost_limit_usd,
                key=program.key,
                by="ada",
                queue=program.key is not None,
                **self._teamed(TEAM[0]),
            )
            return run.id

        twice = program.key is not None and self._faults.strikes("started_twice")
        if program.key is None:
            # Without a key, whoever hears nothing cannot start again without risking a second run.
            while self.run is None:
                able = [process for process in self._processes() if process.up]
                if able:
                    told = self._stream.choice(able).ask(start)
                    await asyncio.wait({told}, timeout=_PATIENCE_S)
                    if told.done() and told.exception() is None:
                        self.acknowledged.append(("started", told.result(), "ada"))
                        return
                await asyncio.sleep(1.0)
            return
        started = await asyncio.gather(*(self._ask(start) for _ in range(1 + twice)))
        others = sum(books.is_asked_for for books in self._auditor.books.values()) - 1
        if len(set(started)) != 1 or others > program.neighbours:
            self._auditor.fault("one key starts one run", started[0], f"{started}")
        self.acknowledged.append(("started", started[0], "ada"))

    def _teamed(self, agent: str) -> dict[str, Any]:
        """How a run is started that shares the team budget of the program, where it has one."""
        return {} if self._program.team_budget is None else {"team_budget": TEAM_BUDGET, "agent": agent}

    async def _start_neighbour(self, key: str, tenant: str) -> None:
        """Another run, which wants its share of the same money, or a place beside it."""
        program = self._program
        await asyncio.sleep(spread_s(self._stream, 0.01, 20.0))
        await self._ask(
            lambda engine: engine.start(
                program.workflow,
                program.input,
                tenant=tenant,
                team=program.team,
                key=key,
                queue=True,
                by="bea",
                **(self._teamed(TEAM[1]) if tenant == TENANT else {}),
            )
        )

    async def _allow_more(self, event: ev.ScopeExceeded) -> None:
        """Somebody sees that a limit above a run stops it; unless tomorrow will do, more may be spent. What agents share has no
        tomorrow."""
        tokens = event.limit_tokens is not None
        limit, needed = (
            (event.limit_tokens or 0, event.needed_tokens) if tokens else (event.limit_nanousd, event.needed_nanousd)
        )
        kind, *names = event.scope.removeprefix("tokens/").split("/")
        talks = kind == "conversation"
        if not talks and needed <= limit and self._stream.random() < 0.3 and kind != "agent":
            return
        await asyncio.sleep(spread_s(self._stream, 1.0, 3 * DAY_S))
        if kind == "tree":
            limit += needed * self._stream.choice((1, 3, 20))
            await self._allow_tree_more(RunId(names[0]), "tokens" if tokens else "cost", limit)
            return
        if kind == "agent":
            await self._allow_team_more(4 * (limit + needed), tokens)
            return
        more = (limit + needed) * (3 if talks else self._stream.choice((1, 3, 20)))
        given: dict[str, Any] = {"max_tokens": more} if tokens else {"limit_usd": f"{more / 1_000_000_000:.9f}"}
        if talks:
            await self._ask(partial(Engine.set_conversation_budget, name=NAME, tenant=TENANT, **given))
            return
        period: Period = "day" if names[-2] == "day" else "month"
        team = self._program.team if kind == "team" else None
        await self._ask(partial(Engine.set_budget, tenant=TENANT, period=period, team=team, **given))

    async def _allow_team_more(self, total: int, tokens: bool) -> None:
        """Agents may spend more together, in what they were short of."""
        assert self._program.team_budget is not None
        unit, amount = ("total_tokens", total) if tokens else ("total_usd", f"{total / 1_000_000_000:.9f}")
        self._program.team_budget[unit] = amount
        await self._ask(partial(Engine.set_team_budget, name=TEAM_BUDGET, tenant=TENANT, **self._program.team_budget))

    async def _allow_tree_more(self, root: RunId, what: str, limit: int) -> None:
        """The limit of a run stops what is below it."""
        try:
            await self._ask(lambda engine: engine.extend(root, what, limit, by=self._name("raiser")))
        except InvalidDecision as problem:  # somebody else has
            self._refused(problem)

    async def _meddle(self, run: RunId) -> None:
        """What somebody may want of a run at any moment."""
        wishes: list[tuple[str, Callable[[RunId], Awaitable[None]]]] = [
            ("paused", self._pause),
            ("cancelled", self._cancel),
            ("limit_raised_unasked", self._raise_unasked),
            ("signal_twice", self._signal_unasked),
            ("labelled", self._label),
        ]
        if self._program.later is not None:
            self._later(self._migrate, run)
        for kind, wish in wishes:
            if self._faults.strikes(kind):
                self._later(wish, run)
        if self._auditor.timetable is not None and self._faults.strikes("scheduled"):
            self._auditor.second_thoughts += 1
            self._do(self._schedule(self._auditor.timetable))
        if self._program.file is None and self._board.random() < _APPROVING:
            self._do(self._auditor.approvals.live(self._ask, run))
        if self._board.random() < _SCORING:
            self._auditor.second_thoughts += 1
            self._do(self._score(run))
        if self._auditor.desk is not None and self._faults.strikes("supervised"):
            self._auditor.second_thoughts += 1
            self._do(self._supervise(self._auditor.desk))

    async def _schedule(self, timetable: Timetable) -> None:
        await timetable.live(self._ask, lambda: self._faults.over)
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    async def _score(self, run: RunId) -> None:
        await self._scores.live(self._ask, run)
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    async def _supervise(self, desk: Desk) -> None:
        await desk.live(self._ask)
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    def _later(self, wish: Callable[[RunId], Awaitable[None]], run: RunId) -> None:
        async def wait() -> None:
            await asyncio.sleep(spread_s(self._stream, 0.01, 1000.0))
            try:
                await wish(run)
            except (Conflict, NotFound, InvalidDecision, InvalidInput) as problem:
                self._refused(problem)

        self._do(wait())

    async def _label(self, run: RunId) -> None:
        """At any moment, also after its end."""
        for seen in ("once", "twice", "thrice"):
            labels = {"seen": seen, "last": None if seen == "twice" else "yes"}
            await self._ask(partial(Engine.label_run, run_id=run, labels=labels, by=self._name("labeller")))
        self.acknowledged.append(("labelled", run, "thrice"))

    async def _pause(self, run: RunId) -> None:
        by = self._name("pauser")
        await self._ask(lambda engine: engine.pause(run, by=by))

    async def _resume(self, run: RunId) -> None:
        await asyncio.sleep(spread_s(self._stream, 0.1, 300.0))
        by = self._name("resumer")
        try:
            await self._ask(lambda engine: engine.resume(run, by=by))
        except (Conflict, NotFound) as problem:
            self._refused(problem)

    async def _take_up(self, run: RunId) -> None:
        """Somebody sees that a run has failed, and has it tried again, perhaps twice. Only he may, who has seen it fail."""
        await asyncio.sleep(spread_s(self._stream, 0.1, 2000.0))
        try:
            for _ in range(1 + self._faults.strikes("decided_twice")):
                await self._ask(partial(Engine.retry, run_id=run, by=self._name("mender")))
        except (Conflict, NotFound) as problem:
            self._refused(problem)
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    async def _fork(self, run: RunId) -> None:
        """Somebody wants to know how it had gone otherwise: from some step on, perhaps with all effects once more."""
        await asyncio.sleep(spread_s(self._stream, 0.1, 2000.0))
        try:
            history = await self._ask(lambda engine: engine.run(run).events())
            began = [each.event.step for each in history if isinstance(each.event, ev.StepStarted)]
            step, repeats, key = self._stream.choice(began), self._stream.random() < 0.3, self._name("fork")
            await self._ask(lambda engine: engine.fork(run, step, repeat_effects=repeats, key=key, by=self._name("forker")))
        except (Conflict, NotFound, IndexError) as problem:
            if isinstance(problem, HoldfastError):
                self._refused(problem)
        self._auditor.second_thoughts -= 1
        self._auditor.see_whether_all_is_over()

    async def _cancel(self, run: RunId) -> None:
        by = self._name("canceller")
        await self._ask(lambda engine: engine.cancel(run, reason="enough", by=by))
        self.acknowledged.append(("cancelled", run, by))

    async def _raise_unasked(self, run: RunId) -> None:
        limit = self._stream.choice(("cost", "steps", "tokens", "active", "lifespan"))
        value = {"cost": 2_000_000_000, "steps": 2000, "tokens": 100_000, "active": 4000, "lifespan": 40 * 86_400}[limit]
        by = self._name("raiser")
        await self._ask(lambda engine: engine.extend(run, limit, value, by=by))

    async def _migrate(self, run: RunId) -> None:
        later = self._program.later
        assert later is not None
        by = self._name("migrator")
        await self._ask(lambda engine: engine.migrate(run, later, by=by))

    async def _signal_unasked(self, run: RunId) -> None:
        await self._signal(run, self._stream.choice(("ping", "pong")))

    async def _send_signal(self, run: RunId, name: str, needed: bool) -> None:
        """Somebody sees that a run waits for a program, and has that program speak. If it must, it does."""
        if not needed and self._stream.random() < 0.5:
            return
        await asyncio.sleep(spread_s(self._stream, 0.01, 2000.0))
        try:
            for _ in range(1 + self._faults.strikes("signal_twice")):
                await self._signal(run, name)
            while needed and await self._waits_for(run, name):  # another wait may have taken what was meant for this one
                await self._signal(run, name)
                await asyncio.sleep(_LOOK_AGAIN_S)
        except (Conflict, NotFound, InvalidInput) as problem:
            self._refused(problem)

    async def _waits_for(self, run: RunId, name: str) -> bool:
        """Whether the run waits for the signal `name`, and would for ever."""
        row = await self._ask(lambda engine: engine.find(run))
        waits = msgspec.json.decode(row.waiting_for, type=list[Wait])
        return any(wait.kind == "signal" and wait.reason == name and wait.due_at_ms is None for wait in waits)

    async def _signal(self, run: RunId, name: str) -> None:
        by = self._name("sender")
        await self._ask(lambda engine: engine.signal(run, name, {"from": by}, by=by))
        self.acknowledged.append(("signalled", name, by))

    async def _reconcile(self, run: RunId, event: ev.ModelCallInDoubt) -> None:
        """The bill comes, some day."""
        if not self._faults.strikes("reconciled"):
            return
        await asyncio.sleep(spread_s(self._stream, 1.0, 5000.0))
        try:
            # Nobody can tell one call from another on the bill; the hold is what it cost at most.
            held = self._auditor.books[run].calls[event.call].hold
            cost_usd = f"{held / 1_000_000_000:.9f}"
            await self._ask(lambda engine: engine.reconcile(event.call, cost_usd, by=self._name("bookkeeper")))
        except (Conflict, NotFound, InvalidInput) as problem:
            self._refused(problem)

    # --- Gates --------------------------------------------------------------------------------------------------------

    async def _answer(self, gate: ev.GateOpened) -> None:
        """See a question, think, and answer it; until it is answered, whoever did."""
        late = self._faults.strikes("decided_late")
        await asyncio.sleep(spread_s(self._stream, 60.0, 4 * DAY_S) if late else spread_s(self._stream, 0.05, 100.0))
        try:
            if self._faults.strikes("decided_for_wrong_gate"):
                await self._mislead(gate)
            if gate.reviewers and self._hands.random() < 0.2:
                await self._hand_on(gate)
            if self._faults.strikes("decided_with_nonsense"):
                await self._decide(gate, self._stream.choice(("answer", "edit", "approve")), {"note": ["no text"]})
                await self._decide(gate, gate.allowed[0], None, intruder="ada")
            if gate.reason == TOOL_APPROVAL and self._board.random() < _TOGETHER:
                await self._decide_together(gate)
            if gate.reason == EFFECT_UNKNOWN and self._retakes < _MAX_RETAKES and self._board.random() < _REPLAYING:
                self._retakes += 1
                await self._replay(run_of(gate.gate))
            while True:
                try:
                    decision, data = await self._opinion(gate)
                    askers = 1 + self._faults.strikes("decided_twice")
                    await asyncio.gather(*(self._decide(gate, decision, data) for _ in range(askers)))
                except (InvalidDecision, InvalidInput) as problem:  # not what the gate takes, or what the code returns
                    self._refused(problem)
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except Gone:
            pass

    async def _replay(self, run: RunId) -> None:
        """Have a dead letter tried again of which nobody knows what became of a call: where that is harmless, nobody need."""
        try:
            await self._ask(partial(Engine.retry_dead_letter, letter=run, by=self._name("replayer")))
        except (Conflict, NotFound) as problem:
            self._refused(problem)

    async def _mislead(self, gate: ev.GateOpened) -> None:
        wrong = GateId(f"{gate.gate}9")
        try:
            await self._ask(lambda engine: engine.decide(wrong, "approve", by=self._name("muddler")))
        except (NotFound, Conflict) as problem:
            self._refused(problem)
        else:
            self._auditor.fault("only what was asked is decided", run_of(gate.gate), wrong)

    async def _hand_on(self, gate: ev.GateOpened) -> None:
        """Have others asked, too: by one of those who are, or by who only says so."""
        roles = self._hands.choice((gate.reviewers[:1], gate.reviewers[:1], ("nobody",)))
        try:
            await self._ask(lambda engine: engine.delegate(gate.gate, ["dora", "ivan"], by="hand", roles=roles))
        except (Conflict, NotFound, InvalidInput) as problem:
            self._refused(problem)

    async def _opinion(self, gate: ev.GateOpened) -> tuple[str, Any]:
        """What an honest person answers."""
        match gate.reason:
            case reason if reason == EFFECT_UNKNOWN:
                return await self._what_happened(gate)
            case reason if reason == EXHAUSTED:
                self._replays += 1
                if self._faults.strikes("letter_edited"):
                    await self._edit(f"{run_of(gate.gate)}:{gate.subject}")
                if self._replays <= _MAX_REPLAYS and "retry" in gate.allowed and self._stream.random() < 0.7:
                    return "retry", None
                if "answer" in gate.allowed and self._stream.random() < 0.5:
                    return "answer", {"step": "by hand"}
                return "reject", None
            case reason if reason == CODE_CHANGED:
                decision = self._stream.choice(("retry", "approve", "approve", "approve", "answer", "answer", "reject"))
                return decision, RESTART if decision == "answer" else None
            case reason if reason == COMPENSATION_FAILED:
                self._replays += 1
                return ("retry", None) if self._replays <= 2 * _MAX_REPLAYS else ("answer", {"undone": "by hand"})
            case reason if reason in LIMITS.values():
                return self._limit(gate)
            case reason if reason == TOOL_APPROVAL:
                decision = self._stream.choice(("approve", "approve", "edit", "reject", "answer"))
                given = {"edit": {"item": f"item{self._stream.randrange(4)}"}, "answer": {"done": "by hand"}}
                return decision, given.get(decision)
            case _:
                decision = self._stream.choice(gate.allowed)
                data = {"note": "mended", "edited_body": "mended"} if decision in ("edit", "answer") else None
                if data is not None and gate.form is not None:
                    data = {name: value for name, value in data.items() if name in gate.form["properties"]}
                return decision, data

    async def _edit(self, letter: str) -> None:
        """Another input may help; here the same, so that whoever looks on knows what comes of it."""
        try:
            await self._ask(lambda engine: engine.edit_dead_letter(letter, self._program.input, by=self._name("editor")))
        except (Conflict, NotFound, InvalidInput) as problem:
            self._refused(problem)

    def _limit(self, gate: ev.GateOpened) -> tuple[str, Any]:
        if self._stream.random() < 0.15:
            return "reject", None
        reached = gate.shown.value()
        match gate.reason:
            case "budget":
                needed = float(reached["needed_limit_usd"])
                return "answer", {"limit_usd": f"{needed * self._stream.choice((1.0, 3.0, 20.0)):.9f}"}
            case "max_steps":
                return "answer", {"steps": int(reached["reached"]) + self._stream.choice((1, 3, 500))}
            case "max_tokens":
                return "answer", {"tokens": int(reached["reached"]) + self._stream.choice((2_000, 100_000))}
            case "max_active":
                return "answer", {"active": int(reached["reached"]) + self._stream.choice((5, 100, 10_000))}
            case "max_wall":
                return "answer", {"wall": int(reached["reached"]) + self._stream.choice((60, 10_000, 10 * int(DAY_S)))}
            case "max_model_calls" | "max_tool_calls":
                return "answer", {reached["limit"]: int(reached["reached"]) + self._stream.choice((1, 3, 500))}
            case _:
                return "answer", {"lifespan": int(reached["reached"]) + 60 * int(DAY_S)}

    async def _what_happened(self, gate: ev.GateOpened) -> tuple[str, Any]:
        """Look at the other side, and say what is there. Whoever says "again" has seen that it did not happen."""
        key = gate.shown.value()["key"]
        sendings = self._world.sendings.get(key, [])
        while any(each.pending for each in sendings):
            await asyncio.sleep(_LOOK_AGAIN_S)
        happened = self._world.effects.get(key)
        if happened:
            return "answer", self._world.response(happened[0])
        for each in sendings:
            each.excused = True
        return self._stream.choice(("reject", "retry") if "retry" in gate.allowed else ("reject",)), None

    async def _decide(self, gate: ev.GateOpened, decision: str, data: Any, intruder: str | None = None) -> None:
        """Send one decision, of somebody who is asked, or of an intruder: who asked for the run. Raises Gone when the gate
        needs no answer any more."""
        by, roles = (self._name("reviewer"), gate.reviewers[:1]) if intruder is None else (intruder, ())
        now = self._auditor.books[run_of(gate.gate)].gates.get(gate.gate, gate)  # as it was edited since
        seen = now.shown_hash if self._stream.random() < 0.5 else None
        more = {} if data is None else {"data": data}

        async def decide(engine: Engine) -> None:
            await engine.decide(gate.gate, decision, by=by, roles=roles, shown_hash=seen, **more)

        try:
            await self._ask(decide)
        except AlreadyDecided as late:
            self._check_winner(gate, late)
            raise Gone from None
        except (InvalidDecision, DecisionRefused) as problem:
            self._refused(problem)
            if gate.gate in self._closed():
                raise Gone from None
        except (RunEnded, NotFound) as problem:
            self._refused(problem)
            raise Gone from None
        except Conflict as problem:  # it was edited since, perhaps by a decision whose reply was lost
            self._refused(problem)
            if gate.gate not in self._auditor.books[run_of(gate.gate)].gates:
                raise Gone from None
            await asyncio.sleep(_LOOK_AGAIN_S)
        else:
            self.acknowledged.append(("decided", gate.gate, by))

    async def _decide_together(self, gate: ev.GateOpened) -> None:
        """Answer all calls that the step asks about at the same time; now and then one of the answers makes no sense."""
        by, roles = self._name("board"), gate.reviewers[:1]
        try:
            asked = await self._ask(lambda engine: engine.asked_together(gate.gate))
            said = {each.gate: GateDecision(*self._word()) for each in asked.calls}
            if self._board.random() < 0.2:
                said[asked.calls[-1].gate] = GateDecision("retry")
            self._auditor.approvals.together[by] = frozenset(said)
            shown_hash = self._board.choice((None, asked.shown_hash))
            await self._ask(partial(Engine.decide_together, decisions=said, by=by, roles=roles, shown_hash=shown_hash))
        except (Conflict, NotFound, InvalidDecision, InvalidInput) as problem:
            self._refused(problem)
            self._auditor.approvals.seen["answers refused together"] += isinstance(problem, InvalidDecision)
            return
        self._auditor.approvals.seen["answers given together"] += len(said) > 1
        self.acknowledged += [("decided", each, by) for each in said]
        if gate.gate not in self._auditor.books[run_of(gate.gate)].gates:
            raise Gone  # else another person is needed, who is to look at an edit

    def _word(self) -> tuple[str, Any]:
        """What somebody says of a call: another item, and so another call, is among it."""
        decision = self._board.choice(("approve", "approve", "edit", "reject", "answer"))
        data = {"edit": {"item": f"item{self._board.randrange(4)}"}, "answer": {"done": "by hand"}}
        return decision, data.get(decision, NOT_GIVEN)

    def _closed(self) -> dict[str, Any]:
        return {id_: gate for books in self._auditor.books.values() for id_, gate in books.closed_gates.items()}

    def _check_winner(self, gate: ev.GateOpened, late: AlreadyDecided) -> None:
        """The loser is told who won."""
        self._refused(late)
        if getattr(late, "decision", None) == EXPIRED:
            if gate.expires_at_ms is None:
                self._auditor.fault("a gate expires that may", run_of(gate.gate), late.message)
            return
        won = self._closed().get(gate.gate)
        if won is None or getattr(late, "by", None) != won.by:
            self._auditor.fault("the loser is told who won", run_of(gate.gate), f"{late.message} against {won}")

    # --- The end ------------------------------------------------------------------------------------------------------

    def check_acknowledged(self) -> None:
        """What somebody was told is done stands in the history."""
        for what, about, by in self.acknowledged:
            if not any(self._stands(RunId(run), what, about, by) for run in self._auditor.books):
                run = self.run or RunId("?")
                self._auditor.fault("what was acknowledged is in the history", run, f"{what} {about} by {by}")

    def _stands(self, run: RunId, what: str, about: str, by: str) -> bool:
        books = self._auditor.books[run]
        match what:
            case "started":
                return about == run
            case "labelled":
                return about == run and books.state.labels.get("seen") == by
            case "cancelled":
                return about == run and books.phase == "cancelling"
            case "decided":
                won = books.closed_gates.get(about)
                return (won is not None and won.by == by) or (about, by) in books.edited or (about, by) in books.approved
            case _:
                return any(signal.by == by for signal in books.signals.values())


def _is_reply(event: ev.RunStarted) -> bool:
    return any(scope.startswith("conversation/") for scope in event.shared)


def _of_providers(stream: Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the providers of models allow, in some programs: calls take of these pools without saying so."""
    if stream.random() < _LIMITED:
        yield "CALLS", {"slots": stream.choice((1, 2)), "counts": "requests", "of": "large"}
        yield "REQUESTS", {"rate": 1, "per_s": stream.choice((1, 10)), "burst": 1, "counts": "requests", "of": "small"}
        yield "TOKENS", {"rate": 6_000, "per_s": 60, "burst": 600, "counts": "tokens", "of": stream.choice(MODELS)}
