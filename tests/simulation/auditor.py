"""Who watches: hears of every commit and of everything that reaches the world, and keeps books of its own.

What must hold is written here a second time, in other words, so that a mistake in the rules is not repeated by their
judge. Where it does use the core's fold, it is to compare: replayed with live, rows with state. Never here: a decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, GOING_ON, Definition, Edge, Graph
from holdfast.core.facts.state import FOLD_VERSION, MAP, SHARED_USE, SLEEP, State, comes_after
from holdfast.core.rules.readiness import stuck
from holdfast.core.values.demand import NOTHING, Demand
from holdfast.core.values.ids import (
    CallId,
    NodeName,
    Path,
    RunId,
    SessionId,
    StepId,
    is_item,
    map_of,
    node_of,
    place_of,
    visit_of,
)
from holdfast.core.values.payload import Payload
from holdfast.core.views.projection import project
from holdfast.core.views.status import status, waiting_for, waits_for_nothing
from holdfast.ports import Append, EmbeddingRequest, EventsCommitted, ModelRequest, Observation, SnapshotRecord, StreamName
from tests.simulation import answer, approval
from tests.simulation.answer import Answers
from tests.simulation.approval import Approvals
from tests.simulation.books import Books, Call, Mapped, Visit
from tests.simulation.desk import KEYS as DESK_KEYS
from tests.simulation.desk import Desk
from tests.simulation.flow_auditor import FlowAuditor
from tests.simulation.job_auditor import JobAuditor
from tests.simulation.loop import SimulatedLoop
from tests.simulation.process import CPU_M, SLOTS, Process
from tests.simulation.schedule import KEYS, Timetable
from tests.simulation.store import Disk, Mount
from tests.simulation.talk_auditor import TalkAuditor
from tests.simulation.workers import GPU
from tests.simulation.world import SETTLES_S, Asking, Execution, Sending, World

_encode = msgspec.json.Encoder(order="deterministic").encode

_FROM_ATTEMPTS: Final = (
    ev.StepCompleted,
    ev.StepSuspended,
    ev.StepStopped,
    ev.OperationReused,
    ev.AttemptFailed,
    ev.FunctionFailed,
    ev.ModelCallHeld,
    ev.HoldDeferred,
    ev.ScopeExceeded,
    ev.EffectIntended,
    ev.EffectReused,
    ev.EffectDeferred,
    ev.ToolCallDenied,
    ev.TimerStarted,
    ev.SignalAwaited,
    ev.ChildRequested,
    ev.ChildAwaited,
    ev.ChildUndone,
)
"""What only the current attempt may say."""
_LATE_MS: Final = 5000
"""How long after it is due a timer may fire where nothing goes wrong."""
_AFTER_THE_END: Final = (
    ev.ModelCallSettled,
    ev.ModelCallFailed,
    ev.ModelCallInDoubt,
    ev.ModelCallReconciled,
    ev.OutcomeOrphaned,
    ev.DeadLetterEdited,
    ev.DeadLetterResolved,
    ev.RunLabelled,
)


def _number(item: str) -> int:
    return int(item.rpartition("[")[2][:-1])


def _demand(books: Books, name: NodeName) -> Demand | None:
    """What the steps of that name ask for, if anything."""
    if is_item(name) and (map_ := books.maps.get(map_of(name))) is not None and map_.opened.demands:
        return map_.opened.demands[int(name.rpartition("[")[2][:-1])]
    node = books.graph.node(name)
    return None if node is None or node.demand == NOTHING else node.demand


class Violation(NamedTuple):
    """A promise that was broken, and where."""

    promise: str
    run: str
    seq: int
    details: str

    def __str__(self) -> str:
        return f"{self.promise}: run {self.run}, event {self.seq}: {self.details}"


class Auditor:
    """Judges one program. Keeps the Witness port of the world, and hears of every commit."""

    def __init__(self, loop: SimulatedLoop, disk: Disk) -> None:
        self.loop = loop
        self.disk = disk
        self.world: World
        self.books: dict[str, Books] = {}
        self.timetable: Timetable | None = None
        self.desk: Desk | None = None
        """Who judges what a schedule starts."""
        self.jobs: JobAuditor | None = None
        """Who judges besides what a workflow file makes its run promise."""
        self.approvals: Approvals
        """Who judges besides what needs somebody's word."""
        self.answers = Answers(self.books, self.fault, loop.time)
        """Who judges besides what comes of models that are not asked by their name alone."""
        self.talk: TalkAuditor | None = None
        """Who judges besides what was said to an agent."""
        self.flows: FlowAuditor | None = None
        """Who judges besides what a flow in plain asyncio promises."""
        self.has_shells = False
        """Whether connected workers run scripts, so that nobody here knows where they are run."""
        self.scopes: dict[str, list[int]] = {}
        """What all runs have settled, held and left in doubt in each scope."""
        self.violations: list[Violation] = []
        self.lent = 0
        """How often an agent of a team lent something."""
        self.shared: dict[tuple[str, str, str], tuple[int, int]] = {}
        """Which version each shared value has, and which number it is, as histories tell it."""
        self.uses: dict[tuple[str, str, str], int] = {}
        """How often each memory was recalled."""
        self.clock_jumped = False
        self.events: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()
        self.joins: Counter[str] = Counter()
        self.on_event: Callable[[RunId, ev.Event], None] = lambda _, __: None
        self.second_thoughts = 0
        """How many people think about taking up a run that has failed."""
        self.on_end: Callable[[], None] = lambda: None
        self.observed: set[tuple[RunId, int]] = set()
        """Up to where the commits led of which some process has told that they are its own."""
        self.snapshots: list[tuple[RunId, SnapshotRecord]] = []
        disk.on_commit = self.committed
        disk.on_snapshot = lambda run, record: self.snapshots.append((run, record))

    def fault(self, promise: str, run: str, details: str) -> None:
        """A promise is broken: nothing that follows would tell more."""
        books = self.books.get(run)
        self.violations.append(Violation(promise, run, books.seq if books is not None else 0, details))
        self.loop.halt()

    # --- Commits ------------------------------------------------------------------------------------------------------

    def committed(self, by: Mount, append: Append) -> None:
        run = append.run
        books = self.books.get(run)
        if books is None:
            first = append.events[0].event
            if not isinstance(first, ev.RunStarted):
                self.fault("a history begins with its start", run, type(first).__name__)
                return
            books = self.books[run] = Books(self._graph(first.graph_hash))
            books.number = max(each.number for each in self.books.values()) + 1
        for recorded in append.events:
            self._event(books, run, recorded)
            if isinstance(recorded.event, ev.SharedValueWritten):
                self._shared_value(books, run, recorded.event)
            elif isinstance(recorded.event, ev.ValueRecorded) and recorded.event.kind == SHARED_USE:
                self._used(books, run, recorded.event)
        self.approvals.decided(run, _decided(append))
        self._check_order(books, run)
        self._compare_memories(run)
        self._compare_rows(books, append)
        self._compare_letters(books, run)
        self._check_money(books, append)
        self._check_scopes(books, append)
        self._check_waits(books, append)
        for recorded in append.events:
            self.on_event(run, recorded.event)
        self.see_whether_all_is_over()

    def _check_order(self, books: Books, run: RunId) -> None:
        """The outcomes of a step have numbers of their own, which rise with the history."""
        for name in books.state.unfinished:
            step = books.state.steps[name]
            count, before = books.outcomes.get(step.id, (0, {}))
            if step.settlements == count:
                continue
            now = {path: op.settled for path, op in step.journal.items() if op.settled}
            new = [number for path, number in now.items() if before.get(path) != number]
            nameless = [path for path, op in step.journal.items() if (op.settled > 0) != (path not in step.pending)]
            if len({*now.values()}) < len(now) or nameless or not all(count < each <= step.settlements for each in new):
                self.fault("the outcomes of a step are numbered as they come", run, f"{step.id}: {before}, then {now}")
            books.outcomes[step.id] = (step.settlements, now)

    def _check_waits(self, books: Books, append: Append) -> None:
        for step in stuck(books.state):
            self.fault("a suspended step has something that wakes it", append.run, step.id)
        if waits_for_nothing(status(books.state), waiting_for(books.state)):
            self.fault("a run waits for something", append.run, append.changes.run.status)

    def _shared_value(self, books: Books, run: RunId, event: ev.SharedValueWritten) -> None:
        """Each version follows the one before it, and the programs add one to what they have seen, or to nothing."""
        if event.space == approval.SPACE:
            self.approvals.used(books, run, event)
            return
        if event.space.startswith(answer.CACHE):
            self.answers.written(books, event)
        name = (books.state.tenant, event.space, event.key)
        version, number = self.shared.get(name, (0, 0))
        value = event.outcome.value()
        if event.base != version:
            self.fault("no write of a shared value is lost", run, f"{value} is on {event.base}, and not on {version}")
        number = 0 if value.get("gone") else number + 1
        if event.index is None and (value["version"], value["value"]) != (version + 1, number or None):
            self.fault("no write of a shared value is lost", run, f"{value} is not {number}")
        self.shared[name] = (version + 1, number)
        if event.index is not None:
            self.uses.setdefault(name, 0)
        for key in (*event.dropped, *(() if event.keep else (event.key,))):
            self.shared.pop((*name[:2], key), None)
            self.uses.pop((*name[:2], key), None)

    def _used(self, books: Books, run: RunId, event: ev.ValueRecorded) -> None:
        assert event.payload is not None
        if event.name.startswith(answer.CACHE):
            self.answers.found(books, run, event)
        for found in event.payload.value():
            name = (books.state.tenant, event.name, found["key"])
            if name in self.uses:
                self.uses[name] += 1

    def _compare_memories(self, run: RunId) -> None:
        kept = {name: uses for name, (_, uses, _) in self.disk.shared_entries.items()}
        if kept != self.uses:
            self.fault("memories are kept, used and forgotten as histories say", run, f"{kept}, not {self.uses}")

    def see_whether_all_is_over(self) -> None:
        if not self.second_thoughts and all(each.ended for each in self.books.values()):
            self.on_end()

    def _graph(self, hash_: str) -> Graph:
        return Graph(msgspec.json.decode(self.disk.graphs[hash_], type=Definition))

    def _event(self, books: Books, run: RunId, recorded: ev.Recorded) -> None:
        event = recorded.event
        name = type(event).__name__
        self.events[name] += 1
        books.kinds[name] += 1
        if recorded.seq != books.seq + 1:
            self.fault("seq is gap-free", run, f"{recorded.seq} follows {books.seq}")
        if recorded.at_ms < books.at_ms:
            self.fault("store time does not run backwards in a run", run, f"{recorded.at_ms} after {books.at_ms}")
        books.seq, books.at_ms = recorded.seq, recorded.at_ms
        again = isinstance(event, ev.RunReopened) and COMPENSATE not in books.steps
        again = again and (books.ended == "RunFailed" or self._is_undone_by_its_parent(books, run))
        pays = isinstance(event, ev.LimitRaised) and any(f"tree/{run}" in scope for scope in books.shared)
        if books.ended and not isinstance(event, _AFTER_THE_END) and not (again or pays):
            self.fault("terminal states absorb", run, f"{name} after {books.ended}")
        if isinstance(event, _FROM_ATTEMPTS) or (isinstance(event, ev.GateOpened) and event.step is not None):
            self._check_attempt(books, run, event)
        try:
            judge = _JUDGES.get(type(event))
            if judge is not None:
                judge(self, books, run, event)
            self._contributed(books, event)
            if self.jobs is not None:
                self.jobs.event(books, run, event)
            if self.talk is not None:
                self.talk.event(books, run, event)
            if self.flows is not None:
                self.flows.event(run, event)
        except (LookupError, AttributeError, TypeError, ValueError) as problem:
            self.fault("a history makes sense", run, f"{name}: {problem!r}")
        # Replayed from what is on the disk, not from the object that was appended.
        try:
            evolve(books.state, ev.decode(ev.encode(event)), recorded.at_ms)
        except Exception as problem:
            self.fault("every history folds", run, repr(problem))

    def _compare_rows(self, books: Books, append: Append) -> None:
        events = [recorded.event for recorded in append.events]
        for executing in (True, False):
            mine = project(books.state, events, executing=executing)
            if mine == append.changes:
                return
        mine = project(books.state, events, executing=True)
        differ = [
            f"{name}: {getattr(mine.run, name)!r}, not {getattr(append.changes.run, name)!r}"
            for name in mine.run.__struct_fields__
            if getattr(mine.run, name) != getattr(append.changes.run, name)
        ]
        self.fault("rows are the projection of the replayed history", append.run, "; ".join(differ) or "beside the run")

    def _compare_letters(self, books: Books, run: RunId) -> None:
        """The open dead letters of the store are the state's, after every commit."""
        kept = {step for (of, step), each in self.disk.letters.items() if of == run and each.resolved_at_ms is None}
        if kept != {step.id for step in books.state.dead_letters()}:
            self.fault("what failed for good is listed until somebody settles it", run, f"{sorted(kept)}")

    def observe(self, observation: Observation) -> None:
        """A process tells what it holds of a run after a commit."""
        if not isinstance(observation, EventsCommitted):
            return
        state = observation.state
        if observation.own:
            if (state.run, state.seq) in self.observed:
                self.fault("a commit is told once", state.run, f"{observation.events}")
            self.observed.add((state.run, state.seq))
        books = self.books.get(state.run)
        if books is not None and books.seq == state.seq and state != books.state:
            self.fault("replay equals live", state.run, _difference(state, books.state))

    def _check_money(self, books: Books, append: Append) -> None:
        row, run = append.changes.run, append.run
        if (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) != (books.settled, books.held, books.doubt):
            mine = (books.settled, books.held, books.doubt)
            self.fault("the run's row shows its money", run, f"{row} against {mine}")
        spent = books.settled + books.held + books.doubt
        if books.limit is not None and spent > books.limit and books.is_held:
            self.fault("settled + held + in doubt ≤ limit", run, f"{spent} of {books.limit}")
        if min(books.settled, books.held, books.doubt) < 0:
            self.fault("no part of the books is negative", run, f"{books.settled} {books.held} {books.doubt}")
        tokens = books.tokens + books.tokens_held + books.tokens_doubt
        if books.most_tokens is not None and tokens > books.most_tokens and books.is_held:
            self.fault("tokens stay below their limit", run, f"{tokens} of {books.most_tokens}")
        if books.started > books.most_steps and books.kinds["LimitRaised"] == 0 and books.is_held:
            self.fault("no more steps than the limit start", run, f"{books.started} of {books.most_steps}")

    def _scopes(self, books: Books, at_ms: int, unit: str = "", agent: str | None = None) -> list[str]:
        """Where a run's money of that moment counts, as an agent's; with the unit `tokens/`, where its tokens do."""
        day = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d")
        tenant = quote(books.tenant, safe="")
        owners = [f"tenant/{tenant}", *([f"team/{tenant}/{books.team}"] if books.team is not None else [])]
        dated = [f"{unit}{owner}/{period}" for owner in owners for period in (f"day/{day}", f"month/{day[:7]}")]
        shared = [scope for scope in books.shared if scope.startswith("tokens/") == bool(unit)]
        as_agent = [f"{scope}/{agent}" for scope in shared if scope.startswith(f"{unit}agent/")] if agent else []
        return [*dated, *shared, *as_agent]

    def _move(self, books: Books, call: Call, settled: int = 0, held: int = 0, doubt: int = 0, *, unit: str = "") -> None:
        for scope in self._scopes(books, call.held_ms, unit, call.agent):
            moved = self.scopes.setdefault(scope, [0, 0, 0])
            for part, amount in enumerate((settled, held, doubt)):
                moved[part] += amount

    def _move_tokens(self, books: Books, call: Call, settled: int = 0, held: int = 0, doubt: int = 0) -> None:
        self._move(books, call, settled, held, doubt, unit="tokens/")

    def _check_scopes(self, books: Books, append: Append) -> None:
        """The store's books of scopes are mine, and whatever holds more stays below the limits."""
        for kept in (row.scope for row in self.disk.scopes.values() if row.scope.endswith("/runs")):
            active = sum(
                each.placed and not each.ended and kept in ("fleet/runs", f"tenant/{quote(each.tenant)}/runs")
                for each in self.books.values()
            )
            if self.disk.books(kept).used != active:
                self.fault("every active run has one place", append.run, f"{self.disk.books(kept)}, {active} are")
        for scope, mine in self.scopes.items():
            row = self.disk.books(scope)
            if [row.settled, row.held, row.in_doubt] != mine:
                self.fault("a scope's books are the sum of its runs'", append.run, f"{row} against {mine}")
            if min(mine) < 0:
                self.fault("no part of a scope's books is negative", append.run, f"{scope}: {mine}")
        if any(isinstance(each.event, ev.RunAdmitted | ev.RunStarted) for each in append.events) and books.placed:
            self._check_place(books, append)
        held = [each.event for each in append.events if isinstance(each.event, ev.ModelCallHeld)]
        if not held:
            return
        self._check_loans(books, append.run, held)
        units = [(unit, event.agent) for event in held for unit in ("", "tokens/")]
        for scope in {scope for unit, agent in units for scope in self._scopes(books, books.at_ms, unit, agent)}:
            row = self.disk.books(scope)
            own = {f"tree/{append.run}": books.limit, f"tokens/tree/{append.run}": books.most_tokens}
            if row.limit != own.get(scope, row.limit):
                self.fault("the limits of a tree are its root's", append.run, f"{row} against {own[scope]}")
            if row.limit is not None and sum(self.scopes[scope]) > row.limit:
                self.fault("settled + held + in doubt ≤ limit, of every scope", append.run, f"{row}")

    def _check_loans(self, books: Books, run: RunId, held: list[ev.ModelCallHeld]) -> None:
        """Nobody lends more than half of what it had left, and what all agents are allotted stays below the total."""
        lent: Counter[str] = Counter()
        for event in held:
            lent.update(event.loans)
        for lender, amount in lent.items():
            left = self.disk.limits[lender] + amount - sum(self.scopes.get(lender, [0]))
            if 2 * amount > left:
                self.fault("nobody lends more than half of what it has left", run, f"{lender} lent {amount} of {left}")
            self.lent += 1
        for budget in (scope for scope in books.shared if scope.removeprefix("tokens/").startswith("agent/")):
            total, agents = self.disk.limits.get(budget), self.disk.agents(budget)
            allotted = sum(each.limit or 0 for each in agents)
            if total is not None and allotted > max(total, sum(each.used for each in agents)):
                self.fault("agents are allotted no more than the total", run, f"{allotted} of {total} in {budget}")

    def _check_place(self, books: Books, append: Append) -> None:
        """Whoever gets a place finds room for itself and for all who wait there and came before it; unless the same append
        gives it back."""
        if any(isinstance(each.event, ev.RunCompleted | ev.RunFailed | ev.RunCancelled) for each in append.events):
            return
        for scope in (f"tenant/{quote(books.tenant, safe='')}/runs", "fleet/runs"):
            cap = self.disk.limits.get(scope)
            others = [each for run, each in self.books.items() if run != append.run and not each.ended]
            ahead = [each for each in others if each.awaits == scope and each.number < books.number and not each.paused]
            taken = [each for each in others if each.placed and scope in ("fleet/runs", f"tenant/{quote(each.tenant)}/runs")]
            if cap is not None and len(taken) + len(ahead) + 1 > cap:
                told = f"{len(taken)} active, {len(ahead)} before it, {cap} may be"
                self.fault("no more runs are active than may be, first come, first served", append.run, told)

    # --- The run ------------------------------------------------------------------------------------------------------

    def _run_started(self, books: Books, run: RunId, e: ev.RunStarted) -> None:
        if books.seq != 1:
            self.fault("a run starts once", run, "RunStarted again")
        books.limit, books.most_steps, books.most_tokens = e.limit_nanousd, e.max_steps, e.max_tokens
        books.most_model_calls, books.most_tool_calls = e.max_model_calls, e.max_tool_calls
        books.tenant, books.team, books.requester = e.tenant, e.team, e.by
        books.contributors.update(dict.fromkeys(e.contributors, books.seq))
        books.placed, books.awaits = e.counted, e.awaits
        books.parent, books.shared = e.parent, e.shared
        is_scheduled = (e.key or "").startswith((KEYS, DESK_KEYS))
        is_reply = any(scope.removeprefix("tokens/").startswith("conversation/") for scope in e.shared)
        books.is_asked_for = e.parent is None and not is_reply and not is_scheduled
        if self.desk is not None and e.key is not None:
            self.desk.started(run, e.key)
        if self.timetable is not None and e.key is not None:
            self.timetable.started(run, e.key, books.at_ms, clocks_agree=not self.clock_jumped)
        if e.parent is not None:
            self._child_started(books, run, e.parent)
        elif e.counted == (e.awaits is not None):
            self.fault("a run has its place or waits for it", run, f"{e.counted}, {e.awaits}")

    def _child_started(self, books: Books, run: RunId, parent: ev.Parent) -> None:
        if run not in self.books[parent.run].children:
            self.fault("a child is asked for before it starts", run, f"{parent}")
        above = self.books[parent.run].shared
        if books.shared != above or books.tenant != self.books[parent.run].tenant or books.placed or books.awaits:
            self.fault("a child counts where its parent does, and takes no place", run, f"{books.shared}, not {above}")

    def _tree_opened(self, books: Books, run: RunId, e: ev.TreeOpened) -> None:
        mine = [books.settled, books.held, books.doubt]
        if [e.settled_nanousd, e.held_nanousd, e.in_doubt_nanousd] != mine or e.limit_nanousd != books.limit:
            self.fault("a tree begins with what its root has spent", run, f"{e} against {mine} of {books.limit}")
        tokens = [books.tokens, books.tokens_held, books.tokens_doubt]
        if [e.settled_tokens, e.held_tokens, e.in_doubt_tokens] != tokens or e.limit_tokens != books.most_tokens:
            self.fault("a tree begins with what its root has used", run, f"{e} against {tokens} of {books.most_tokens}")
        for scope, used, limit in ((f"tree/{run}", mine, books.limit), (f"tokens/tree/{run}", tokens, books.most_tokens)):
            if limit is not None:
                books.shared = (*books.shared, scope)
                self.scopes[scope] = used

    def _child_requested(self, books: Books, run: RunId, e: ev.ChildRequested) -> None:
        self._check_may_begin(books, run, e.step, "a child")
        if (e.child in books.children) != e.again:
            self.fault("a child is asked for once, but to be taken up again", run, f"{e}")
        books.children[e.child] = False

    def _child_undone(self, books: Books, run: RunId, e: ev.ChildUndone) -> None:
        if not books.phase or not books.children[e.child] or self.books[e.child].ended != "RunCompleted":
            self.fault("a child that completed is undone where its parent is", run, f"{e}")
        books.children[e.child] = False
        books.undone.append(CallId(e.child))

    def _is_undone_by_its_parent(self, books: Books, run: RunId) -> bool:
        parent = None if books.parent is None else self.books[books.parent.run]
        return books.ended == "RunCompleted" and parent is not None and parent.children.get(run) is False

    def _child_ended(self, books: Books, run: RunId, e: ev.ChildEnded) -> None:
        child = self.books.get(e.child)
        ended = {"completed": "RunCompleted", "failed": "RunFailed", "cancelled": "RunCancelled"}[e.how]
        if books.children[e.child]:
            self.fault("the end of a child is heard of once", run, f"{e}")
        if child is None or child.kinds[ended] == 0:
            self.fault("what is heard of a child has happened", run, f"{e}")
        elif e.how == "completed" and e.undoable != bool(child.compensable):
            self.fault("a parent knows what its children can undo", run, f"{e}")
        if e.undoable:
            books.compensable.append(CallId(e.child))
        books.children[e.child] = True

    def _run_admitted(self, books: Books, run: RunId, e: ev.RunAdmitted) -> None:
        if books.placed:
            self.fault("a run is admitted once", run, "it has its place")
        books.placed, books.awaits = True, None

    def _admission_deferred(self, books: Books, run: RunId, e: ev.AdmissionDeferred) -> None:
        # There it comes last: what the line is like, its own commit decides.
        books.awaits, books.number = e.scope, max(each.number for each in self.books.values()) + 1

    def _run_paused(self, books: Books, run: RunId, e: ev.RunPaused) -> None:
        books.paused = True

    def _run_resumed(self, books: Books, run: RunId, e: ev.RunResumed) -> None:
        books.paused = False
        if books.awaits is not None:  # it had left the line, and comes last
            books.number = max(each.number for each in self.books.values()) + 1

    def _run_failing(self, books: Books, run: RunId, e: ev.RunFailing) -> None:
        if books.phase:
            self.fault("a run fails or is cancelled once", run, f"failing while {books.phase}")
        books.phase = "failing"

    def _run_cancelling(self, books: Books, run: RunId, e: ev.RunCancelling) -> None:
        books.phase = "cancelling"
        if self.timetable is not None:
            self.timetable.over[run] = "cancelling"

    def _run_ended(self, books: Books, run: RunId, e: ev.RunCompleted | ev.RunFailed | ev.RunCancelled) -> None:
        books.ended = type(e).__name__
        if self.timetable is not None:
            self.timetable.over[run] = books.ended
        effects = {id_: call for id_, call in books.calls.items() if call.kind == "effect"}
        open_ = [id_ for id_, call in effects.items() if not (call.closed or call.superseded)]
        if open_:
            self.fault("a run ends when its effects have outcomes", run, f"{open_}")
        unfinished = [visit.id for visit in books.steps.values() if visit.ended is None]
        if unfinished:
            self.fault("a run ends when its steps have", run, f"{unfinished}")
        if not isinstance(e, ev.RunCompleted) and not books.undoing_given_up:
            left = [call for call in books.compensable if call not in books.undone]
            if left:
                self.fault("what can be undone is undone", run, f"{left}")
        if not all(books.children.values()):
            self.fault("a run ends after its children", run, f"{books.children}")
        if isinstance(e, ev.RunCompleted) and books.phase:
            self.fault("a failing run does not complete", run, books.phase)

    def _run_reopened(self, books: Books, run: RunId, e: ev.RunReopened) -> None:
        had_ended, books.ended, books.phase = bool(books.ended), "", ""
        books.before_the_end = [*books.steps.values()]
        if had_ended:
            books.placed, books.awaits = e.counted, e.awaits
        elif e.counted or e.awaits is not None:
            self.fault("a run that has not ended keeps its place", run, f"{e.counted}, {e.awaits}")
        if had_ended and books.parent is None and e.counted == (e.awaits is not None):
            self.fault("a run has its place or waits for it", run, f"{e.counted}, {e.awaits}")
        for id_, call in books.calls.items():
            is_open = call.kind == "effect" and not (call.closed or call.superseded or call.reopened)
            if not had_ended and is_open and call.policy == "once":
                self.fault("a run goes on with no effect in doubt that may not be repeated", run, id_)
        if e.awaits is not None:  # there it comes last
            books.number = max(each.number for each in self.books.values()) + 1
        books.joins_over.clear()
        if books.messages:  # its conversation tells it again what no model was told
            books.latest_message = min(books.messages) - 1
            books.messages.clear()
        for step in e.superseded:
            visit = books.steps[node_of(step)]
            if visit.ended == "completed" and not self._follows_a_failure(books, visit):
                self.fault("what was done stays done", run, step)
            self._supersede(books, run, step)
            books.visits[node_of(step)] -= not visit.attempt

    def _follows_a_failure(self, books: Books, visit: Visit) -> bool:
        """Whether it comes after a job of a workflow file that had failed."""
        before = {node_of(StepId(visit.id))}
        for name in reversed(books.graph.order):
            if any(target in before for target in books.graph.successors[name]):
                before.add(name)
        return any(each.provisional and node_of(StepId(each.id)) in before for each in books.before_the_end)

    def _run_forked(self, books: Books, run: RunId, e: ev.RunForked) -> None:
        books.is_asked_for = False
        books.visits.update(e.visits)
        books.summoned |= {*e.summoned}
        books.asks_before_repeats = not e.repeats_effects

    def _step_inherited(self, books: Books, run: RunId, e: ev.StepInherited) -> None:
        if e.previous:
            books.previous[node_of(e.step)] = [(0, e.step if e.status in ("completed", "failed") else None)]
            return
        books.visits[node_of(e.step)] = visit_of(e.step)
        books.steps[node_of(e.step)] = Visit(e.step, starts={}, ended=e.status, decisions=e.decisions, absorbed=e.absorbed)

    def _operation_inherited(self, books: Books, run: RunId, e: ev.OperationInherited) -> None:
        books.inherited[e.step, e.path] = e.args_hash
        if e.kind == "gate" or e.name.startswith(approval.SPACE):
            self.fault("what people decided is asked again", run, f"{e.step} {e.path}")

    def _run_migrated(self, books: Books, run: RunId, e: ev.RunMigrated) -> None:
        books.graph = self._graph(e.graph_hash)

    def _limit_raised(self, books: Books, run: RunId, e: ev.LimitRaised) -> None:
        if e.limit == "cost":
            books.limit = e.value
        elif e.limit == "steps":
            books.most_steps = e.value
        elif e.limit == "tokens":
            books.most_tokens = e.value
        elif e.limit == "model_calls":
            books.most_model_calls = e.value
        elif e.limit == "tool_calls":
            books.most_tool_calls = e.value

    # --- Steps --------------------------------------------------------------------------------------------------------

    def _check_attempt(self, books: Books, run: RunId, event: Any) -> None:
        visit = books.steps.get(node_of(event.step))
        if isinstance(event, ev.StepCompleted) and visit is not None and visit.attempt == event.attempt:
            waits = visit.ended is None and (visit.active or self._is_gate(books, event.step))
            if waits or visit.parked:
                return
        if isinstance(event, ev.StepSuspended) and visit is not None and visit.id == event.step and visit.active:
            return
        if visit is None or visit.id != event.step or not visit.active or visit.attempt != event.attempt:
            self.fault("only the current attempt speaks for its step", run, f"{type(event).__name__} of {event.step}: {visit}")

    def _is_gate(self, books: Books, step: StepId) -> bool:
        node = books.graph.nodes.get(node_of(step))
        return node is not None and node.kind == "human_gate"

    def _visit(self, books: Books, run: RunId, id_: StepId) -> Visit:
        name = node_of(id_)
        known = books.steps.get(name)
        if known is not None and known.id == id_:
            return known
        if is_item(name):
            return self._item(books, run, id_)
        if known is not None:
            self.fault("a node has one current visit", run, f"{id_} begins while {known.id} is current")
        if visit_of(id_) != books.visits[name] + 1:
            self.fault("visits are counted", run, f"{id_} is visit {books.visits[name] + 1}")
        books.visits[name] = visit_of(id_)
        books.joins_over.discard(f"-{name}")
        books.superseded.pop(id_, None)  # a visit that had not begun when it was superseded comes again under its name
        made = books.steps[name] = Visit(id_, starts={})
        return made

    def _item(self, books: Books, run: RunId, id_: StepId) -> Visit:
        """An item of a map begins."""
        name = node_of(id_)
        map_ = books.maps.get(map_of(name))
        if map_ is None or map_.over or visit_of(map_.opened.step) != visit_of(id_):
            self.fault("an item begins while its map is open", run, f"{id_}: {map_}")
            return Visit(id_, starts={})
        made = books.steps[name] = Visit(id_, starts={})
        if map_.again:
            self.fault("what is tried again comes before what is new", run, f"{id_} before {map_.again}")
        self._goes_on(map_, run, name)
        return made

    def _goes_on(self, map_: Mapped, run: RunId, item: NodeName) -> None:
        map_.under_way.add(item)
        if len(map_.under_way) > map_.opened.max_parallel + map_.taken_up:
            self.fault("no more items are under way than may be", run, f"{map_.under_way} of {map_.opened.max_parallel}")

    def _items_mapped(self, books: Books, run: RunId, e: ev.ItemsMapped) -> None:
        if books.maps.get(e.map) is not None and books.maps[e.map].opened.step == e.step:
            self.fault("a map is opened once", run, e.map)
        books.maps[e.map] = Mapped(e)

    def _map_ended(self, books: Books, run: RunId, e: ev.MapEnded) -> None:
        map_ = books.maps[e.map]
        if map_.over or map_.under_way:
            self.fault("a map ends once, and with it its items", run, f"{e.map}: {map_.under_way}")
        if (
            e.error is None
            and not map_.opened.settles
            and not map_.stopping
            and len(map_.results) < map_.opened.enough - map_.opened.tolerated
        ):
            self.fault("a map ends when enough is done", run, f"{e.map}: {len(map_.results)} of {map_.opened.enough}")
        map_.over = True
        map_.again = set()

    def _map_reopened(self, books: Books, run: RunId, e: ev.MapReopened) -> None:
        books.maps[e.map].over = books.maps[e.map].stopping = False
        books.maps[e.map].again = {*e.again}
        for item in e.again:
            books.maps[e.map].results.pop(_number(item), None)

    def _value_recorded(self, books: Books, run: RunId, e: ev.ValueRecorded) -> None:
        """The results of a map are those of its items, in their order. A timer fires once, wherever that is noticed."""
        if e.kind == SLEEP:
            self._fired(books, run, e)
        if e.kind != MAP or e.payload is None or e.payload.blob is not None:
            return
        (map_,) = [each for each in books.maps.values() if (each.opened.step, each.opened.path) == (e.step, e.path)]
        if any(output.blob is not None for output in map_.results.values()):
            return
        expected = [map_.results[n].value() if n in map_.results else None for n in range(map_.opened.count)]
        if e.payload.value() != expected:
            self.fault("results come in the order of the items", run, f"{e.payload.value()} of {expected}")

    def _forget_maps(self, books: Books, step: str, first: Path | None = None) -> None:
        """What was mapped by a step that counts no more, or goes on otherwise from a place on."""
        mine = {name: map_.opened.path for name, map_ in books.maps.items() if map_.opened.step == step}
        visit = books.state.step(StepId(step)) if first is not None else None
        for name, path in mine.items():
            if first is None or visit is None or comes_after(books.state, visit, path, first):
                self._forget_map(books, name)

    def _forget_map(self, books: Books, name: str) -> None:
        del books.maps[name]
        for item in [item for item in books.steps if is_item(NodeName(item)) and map_of(NodeName(item)) == name]:
            self._forget_maps(books, books.steps[item].id)
            del books.steps[item]

    def _item_ended(self, books: Books, run: RunId, step: StepId, output: Payload | None = None) -> None:
        map_ = books.maps.get(map_of(node_of(step)))
        if map_ is None:
            return
        map_.under_way.discard(node_of(step))
        if output is not None:
            number = _number(node_of(step))
            if number in map_.results:
                self.fault("an item is done once", run, step)
            map_.results[number] = output

    def _step_ready(self, books: Books, run: RunId, e: ev.StepReady) -> None:
        fresh = node_of(e.step) not in books.steps
        if fresh:
            self._check_join(books, run, e.step)
        self._visit(books, run, e.step)

    def _step_started(self, books: Books, run: RunId, e: ev.StepStarted) -> None:
        name = node_of(e.step)
        if is_item(name) and (map_ := books.maps.get(map_of(name))) is not None and map_.stopping:
            self.fault("no item begins after the one that stops the others", run, f"{e.step} of {map_.opened.map}")
        if name not in books.steps:
            self._check_join(books, run, e.step)
        visit = self._visit(books, run, e.step)
        if visit.active:
            self.fault("a step has one attempt at a time", run, f"{e.step} attempt {e.attempt}")
        if visit.ended is not None and not visit.parked:
            self.fault("a step that has ended does not start", run, f"{e.step} {visit.ended}")
        if e.attempt != visit.attempt + 1:
            self.fault("attempts increase by one", run, f"{e.step}: {e.attempt} after {visit.attempt}")
        if books.paused:
            self.fault("nothing starts in a paused run", run, e.step)
        if books.phase and name != COMPENSATE and not visit.cleans_up:
            self.fault("nothing starts in an ending run", run, e.step)
        if visit.attempt == 0 and not books.phase and not is_item(name):
            books.started += 1
        if name in books.graph.nodes and visit.attempt == 0:
            self.nodes[books.graph.nodes[name].kind] += 1
            if len(books.graph.incoming[name]) > 1:
                self.joins[books.graph.nodes[name].join.mode] += 1
        visit.attempt, visit.session, visit.active, visit.ended, visit.parked = e.attempt, e.session, True, None, False
        if _demand(books, name) is not None:
            self._check_placement(run, e)
        visit.starts[e.attempt] = books.seq
        books.summoned.discard(name)

    def _check_placement(self, run: RunId, e: ev.StepStarted) -> None:
        """A step that demands something starts where it is, and no more is in use than there is. What the dead had is free."""
        now_s = self.disk.clock_s()
        dead = {
            session
            for session, lease in self.disk.leases.items()
            if lease.dead_at_ms is not None or lease.unlocked or not lease.lasts(now_s)
        }
        cpu_m: Counter[SessionId] = Counter()
        slots = 0
        for each in self.books.values():
            for name, visit in each.steps.items():
                demand = _demand(each, NodeName(name))
                if demand is not None and visit.active and visit.session not in dead:
                    cpu_m[SessionId(visit.session or "")] += demand.cpu_m if self._is_done_here(demand) else 0
                    slots += demand.pools.get("SLOTS") or 0
        if cpu_m[e.session] > CPU_M:
            self.fault("placed steps never take more than there is", run, f"{e.session} has {cpu_m[e.session]} m at work")
        if slots > SLOTS:
            self.fault("a pool never has more out than there is", run, f"{slots} of SLOTS are out")
        wanted = _demand(self.books[run], node_of(e.step)) or NOTHING
        for process in self.world.processes.values() if wanted.labels and self._is_done_here(wanted) else ():
            if (
                process.engine is not None
                and process.engine.runtime.membership.session == e.session
                and GPU not in process.labels
            ):
                self.fault("a step starts only where its labels are", run, f"{e.step} in {process.name}")

    def _is_done_here(self, demand: Demand) -> bool:
        """Whether a step with that demand is certainly done by the process that has its session."""
        return not demand.is_remote and not (demand.runs_scripts and self.has_shells)

    def _journal_dropped(self, books: Books, run: RunId, e: ev.JournalDropped) -> None:
        """What is asked for anew may come to something else; but no effect may be done again."""
        books.steps[node_of(e.step)].active = False
        self._forget_maps(books, e.step, e.path)
        books.told = {seen: value for seen, value in books.told.items() if seen[1] != e.step}
        books.fired = {(step, path) for step, path in books.fired if step != e.step}
        for id_, call in books.calls.items():
            if call.kind == "effect" and call.step == e.step and call.closed and books.completed.get(call.key) == id_:
                books.done.setdefault((e.step, call.tool, _encode(call.request)), []).append(id_)

    def _operation_reused(self, books: Books, run: RunId, e: ev.OperationReused) -> None:
        for calls in books.done.values():
            calls[:] = [id_ for id_ in calls if books.calls[id_].path != place_of(e.kept)]

    def _step_stopped(self, books: Books, run: RunId, e: ev.StepStopped) -> None:
        visit = books.steps[node_of(e.step)]
        visit.active, visit.stopped = False, True
        if e.step not in books.changed and not books.kinds["RunMigrated"]:
            self.fault("unchanged code goes on with its journal", run, f"{e}")

    def _step_left(self, books: Books, run: RunId, e: ev.StepSuspended | ev.AttemptFailed) -> None:
        books.steps[node_of(e.step)].active = False

    def _attempt_lost(self, books: Books, run: RunId, e: ev.AttemptLost) -> None:
        visit = books.steps[node_of(e.step)]
        if not visit.active or visit.attempt != e.attempt or visit.session != e.session:
            self.fault("only an attempt at work is lost", run, f"{e.step} attempt {e.attempt}")
        lease = self.disk.leases.get(SessionId(e.session))
        demand = _demand(self.books[run], node_of(e.step)) or NOTHING
        # Else its worker may be gone, and the session live.
        if lease is not None and lease.dead_at_ms is None and self._is_done_here(demand):
            self.fault("a living session's attempt is not lost", run, f"{e.step} in {e.session}")
        visit.active = False

    def _step_completed(self, books: Books, run: RunId, e: ev.StepCompleted) -> None:
        visit = books.steps[node_of(e.step)]
        if visit.cleans_up:
            self.fault("what has cleaned up is cancelled", run, e.step)
        if is_item(node_of(e.step)):
            self._item_ended(books, run, e.step, e.output)
            if (map_ := books.maps.get(map_of(node_of(e.step)))) is not None:
                map_.stopping |= e.provisional and map_.opened.fail_fast
        visit.active, visit.ended, visit.decisions, visit.parked = False, "completed", e.decisions, False
        visit.provisional = e.provisional
        if books.graph.definition.state and not is_item(node_of(e.step)):
            self._check_patch(books, run, visit, e)
        self._check_said(books, run, e)

    def _state_conflicted(self, books: Books, run: RunId, e: ev.StateConflicted) -> None:
        if e.resolved is not None:
            books.met[e.step, e.field] = e

    def _check_patch(self, books: Books, run: RunId, visit: Visit, e: ev.StepCompleted) -> None:
        """What a step patches that it had not seen another's patch of is told, and comes to what its strategy says."""
        output = e.output.value() if e.output.blob is None else None
        visit.ended_seq, visit.fields = books.seq, {}
        patch = output if isinstance(output, dict) else {}
        for field, strategy in books.graph.definition.state.items():
            if field not in patch:
                continue
            others = [each for each in books.steps.values() if each.ended == "completed" and field in each.fields]
            last = max((each for each in others if each is not visit), key=lambda each: each.ended_seq, default=None)
            told, value = books.met.pop((e.step, field), None), patch[field]
            saw = visit.starts.get(e.attempt, 0)
            meets = last is not None and last.ended_seq > saw and last.fields[field] != value
            if (told is not None) != (meets and strategy not in ("append", "sum")):
                self.fault("patches that meet are told", run, f"{e.step} {field}: {told}, {last}")
            if told is not None and last is not None:
                before = last.fields[field]
                expected = {"first_write": before, "merge": {**value, **before} if isinstance(value, dict) else value}
                value = expected.get(strategy, value)
                if (told.current.value(), told.resolved and told.resolved.value()) != (before, value):
                    self.fault("a field comes to what its strategy says", run, f"{e.step} {field}: {told}")
                if strategy == "reject" and books.graph.nodes[node_of(e.step)].kind == "task":
                    self.fault("a rejected patch is not taken", run, f"{e.step} {field}")
            visit.fields[field] = value

    def _check_said(self, books: Books, run: RunId, e: ev.StepCompleted) -> None:
        """What code wrote to a stream that will not run again is there, each once and without gaps."""
        pieces = [chunk for _, chunk in self.disk.streams.get(StreamName(run, "said"), ())]
        if [chunk.first for chunk in pieces] != list(range(len(pieces))):
            self.fault("a stream has no gaps", run, str(pieces))
        times = Counter(chunk.content for chunk in pieces)
        if e.step in books.changed:
            return  # where the code was another, another value stands at its place
        for place in books.said.get((e.step, e.attempt), ()):
            if (said := times[msgspec.json.encode([e.step, place])]) != 1:
                self.fault("what was written to a stream is there once", run, f"{e.step} {place}: {said} times")

    def _step_failed(self, books: Books, run: RunId, e: ev.StepFailed) -> None:
        visit = self._visit(books, run, e.step)
        if is_item(node_of(e.step)):
            self._item_ended(books, run, e.step)
        visit.active, visit.ended, visit.absorbed, visit.parked = False, "failed", e.absorbed, e.parked

    def _step_replayed(self, books: Books, run: RunId, e: ev.StepReplayed) -> None:
        visit = books.steps[node_of(e.step)]
        again = visit.ended in ("failed", "cancelled") or (visit.ended == "completed" and visit.provisional)
        if not again and not (visit.ended is None and visit.stopped):
            self.fault("only what came to nothing is tried again", run, e.step)
        self._unjudge(books, e.step)
        # A time limit of asyncio begins anew, if it began after what is tried again.
        books.fired = {(step, path) for step, path in books.fired if step != e.step or "@" not in path}
        if is_item(node_of(e.step)) and (map_ := books.maps.get(map_of(node_of(e.step)))) is not None:
            map_.results.pop(_number(node_of(e.step)), None)
            map_.taken_up += node_of(e.step) not in map_.again
            map_.again.discard(node_of(e.step))
            self._goes_on(map_, run, node_of(e.step))
        visit.active = visit.stopped = False
        visit.ended, visit.parked = None, False

    def _step_skipped(self, books: Books, run: RunId, e: ev.StepSkipped) -> None:
        self._visit(books, run, e.step).ended = "skipped"

    def _step_cancelling(self, books: Books, run: RunId, e: ev.StepCancelling) -> None:
        visit = books.steps[node_of(e.step)]
        if books.phase != "cancelling" or visit.attempt == 0 or visit.ended is not None or visit.cleans_up:
            self.fault("what has begun hears once that its run is being cancelled", run, f"{e.step}: {visit}")
        visit.cleans_up = True

    def _step_cancelled(self, books: Books, run: RunId, e: ev.StepCancelled) -> None:
        visit = self._visit(books, run, e.step)
        if is_item(node_of(e.step)):
            self._item_ended(books, run, e.step)
        visit.active, visit.ended, visit.parked, visit.cleans_up = False, "cancelled", False, False

    def _loop_taken(self, books: Books, run: RunId, e: ev.LoopTaken) -> None:
        loops = [loop for loop in books.graph.loops_from.get(node_of(e.source), ()) if loop.target == e.target]
        most = max((loop.max_visits or 0 for loop in loops), default=0)
        if books.visits[e.target] >= most:
            self.fault("a loop has its bound", run, f"{e.target} after {books.visits[e.target]} visits of {most}")
        for name in books.graph.loop_body[e.target]:
            visit = books.steps.get(name)
            over = visit.id if visit is not None and visit.ended in ("completed", "failed") else None
            books.previous.setdefault(name, [(0, None)]).append((books.seq, over))
        for step in e.superseded:
            self._supersede(books, run, step)
        for name in e.rearmed:
            books.joins_over.discard(name)
            self._unjudge(books, f"{name}#{books.visits[name] + 1}")
        books.summoned.add(e.target)

    def _supersede(self, books: Books, run: RunId, step: StepId) -> None:
        self._forget_maps(books, step)
        visit = books.steps.pop(node_of(step), None)
        if visit is None or visit.id != step:
            self.fault("a loop supersedes what is current", run, step)
        books.superseded[step] = books.seq
        books.joins_over.discard(node_of(step))
        self._unjudge(books, step)

    def _unjudge(self, books: Books, step: str) -> None:
        for key in [key for key in books.verdicts if key[0] == step]:
            del books.verdicts[key]

    def _guard_judged(self, books: Books, run: RunId, e: ev.GuardJudged) -> None:
        books.verdicts[e.step, e.target, e.guard] = e.allowed

    def _join_timed_out(self, books: Books, run: RunId, e: ev.JoinTimedOut) -> None:
        books.joins_over.add(e.node)

    def _check_join(self, books: Books, run: RunId, step: StepId) -> None:
        """Whether the graph lets `step` begin: the joins, said once more."""
        name = node_of(step)
        if name == COMPENSATE or name in books.summoned or name in books.joins_over or is_item(name):
            return
        node, edges = books.graph.nodes[name], books.graph.incoming[name]
        if node.guard is not None and not books.verdicts.get((step, None, node.guard), False):
            self.fault("a guarded node starts when its guard lets it", run, step)
        if not edges:
            return
        ways = {edge: self._way(books, edge) for edge in edges}
        needed = [edge for edge in edges if not edge.optional] or list(edges)
        arrived = sum(way == "taken" for way in ways.values())
        still_open = [edge for edge in needed if ways[edge] == "open"]
        met = {
            "all": not still_open and arrived > 0,
            "all_required": all(ways[edge] == "taken" for edge in needed),
            "any": arrived > 0,
            "quorum": arrived >= node.join.count,
            "best_effort": all(way != "open" for way in ways.values()),
        }[node.join.mode]
        if not met:
            told = ", ".join(f"{edge.source}: {way}" for edge, way in ways.items())
            self.fault("a node starts when its join is met", run, f"{step} ({node.join.mode}): {told}")

    def _way(self, books: Books, edge: Edge) -> str:
        """`taken`, `not` or `open`."""
        visit = books.steps.get(edge.source)
        if visit is None or visit.ended is None or visit.parked:
            return "open"
        if visit.ended in ("skipped", "cancelled"):
            return "not"
        if visit.ended == "failed":
            node = books.graph.nodes[edge.source]
            has_error_edges = any(each.on == "error" for each in books.graph.outgoing[edge.source])
            wanted = edge.on == "error" if has_error_edges else node.continue_on_error and edge.when is None
            return self._guarded(books, visit, edge) if visit.absorbed and wanted else "not"
        if edge.on == "error" or not _follows(books.graph, edge, visit.decisions):
            return "not"
        return self._guarded(books, visit, edge)

    def _guarded(self, books: Books, visit: Visit, edge: Edge) -> str:
        if edge.guard is None:
            return "taken"
        said = books.verdicts.get((visit.id, edge.target, edge.guard))
        return "open" if said is None else "taken" if said else "not"

    # --- Model calls --------------------------------------------------------------------------------------------------

    def _model_call_held(self, books: Books, run: RunId, e: ev.ModelCallHeld) -> None:
        self._check_may_begin(books, run, e.step, "a model call")
        if e.call in books.calls:
            self.fault("a call is held once", run, e.call)
        self.answers.held(books, run, e)
        call = Call("model", "", e.sent_to or e.model, e.step, e.path, e.hold_nanousd, e.tokens, books.at_ms)
        call.agent = e.agent
        books.calls[e.call] = call
        self._move(books, call, held=call.hold)
        self._move_tokens(books, call, held=call.tokens)
        books.held += e.hold_nanousd
        books.tokens_held += e.tokens
        books.holds += 1

    def _release(self, books: Books, run: RunId, id_: CallId, event: ev.Event) -> Call:
        call = books.calls[id_]
        if call.closed or call.kind != "model":
            self.fault("a hold settles at most once", run, f"{type(event).__name__} of {id_}")
        call.closed = True
        self._free(books, call)
        return call

    def _spend(self, books: Books, call: Call, nanousd: int) -> None:
        self._move(books, call, settled=nanousd)
        books.settled += nanousd

    def _doubt(self, books: Books, call: Call) -> None:
        if call.doubted:
            return
        call.doubted = True
        books.held -= call.hold
        books.doubt += call.hold
        books.tokens_held -= call.tokens
        books.tokens_doubt += call.tokens
        self._move(books, call, held=-call.hold, doubt=call.hold)
        self._move_tokens(books, call, held=-call.tokens, doubt=call.tokens)

    def _free(self, books: Books, call: Call) -> None:
        if call.doubted:
            books.doubt -= call.hold
            books.tokens_doubt -= call.tokens
            self._move(books, call, doubt=-call.hold)
            self._move_tokens(books, call, doubt=-call.tokens)
        else:
            books.held -= call.hold
            books.tokens_held -= call.tokens
            self._move(books, call, held=-call.hold)
            self._move_tokens(books, call, held=-call.tokens)

    def _model_call_settled(self, books: Books, run: RunId, e: ev.ModelCallSettled) -> None:
        call = self._release(books, run, e.call, e)
        if not books.unsettled_bills[e.cost_nanousd]:
            self.fault("what is settled is what was billed, once", run, f"{e.call} for {e.cost_nanousd}")
        if e.cost_nanousd > call.hold or e.input_tokens + e.output_tokens > call.tokens:
            self.fault("no call takes more than was held for it", run, f"{e} of {call}")
        books.unsettled_bills[e.cost_nanousd] -= 1
        call.answered = not call.doubted  # else its step has asked again, and only the books wait for it
        self._spend(books, call, e.cost_nanousd)
        self._move_tokens(books, call, settled=e.input_tokens + e.output_tokens)
        books.tokens += e.input_tokens + e.output_tokens

    def _model_call_failed(self, books: Books, run: RunId, e: ev.ModelCallFailed) -> None:
        self._release(books, run, e.call, e)

    def _model_call_in_doubt(self, books: Books, run: RunId, e: ev.ModelCallInDoubt) -> None:
        call = books.calls[e.call]
        if call.closed or call.doubted:
            self.fault("a call is doubted once", run, e.call)
        self._doubt(books, call)

    def _model_call_reconciled(self, books: Books, run: RunId, e: ev.ModelCallReconciled) -> None:
        call = self._release(books, run, e.call, e)
        if not call.doubted:
            self.fault("only what is in doubt is reconciled", run, e.call)
        self._spend(books, call, e.cost_nanousd)
        self._move_tokens(books, call, settled=call.tokens)
        books.tokens += call.tokens

    def _check_may_begin(self, books: Books, run: RunId, step: StepId, what: str) -> None:
        if books.paused:
            self.fault("nothing begins in a paused run", run, f"{what} of {step}")
        visit = books.steps.get(node_of(step))
        if books.phase and node_of(step) != COMPENSATE and not (visit is not None and visit.cleans_up):
            self.fault("nothing begins in an ending run", run, f"{what} of {step}")

    # --- Effects ------------------------------------------------------------------------------------------------------

    def _effect_intended(self, books: Books, run: RunId, e: ev.EffectIntended) -> None:
        self._check_may_begin(books, run, e.step, "an effect")
        if e.call in books.calls:
            self.fault("a call is intended once", run, e.call)
        if books.inherited.get((e.step, e.path)) == e.args_hash:
            self.fault("what the origin of a fork has done is not done again", run, e.call)
        if e.policy == "once" and e.compensates is None and books.asks_before_repeats:
            self._check_approved(books, run, e)
        self._check_unanswered(books, run, e)
        self.approvals.intended(books, run, e)
        done = books.done.get((e.step, e.tool, _encode(e.request.value()))) if e.request.blob is None else None
        if done and not e.named and e.policy != "read":
            self.fault("what a step has done is not done again by other code", run, f"{e.call} after {done}")
        if e.key in books.completed and e.policy != "read":
            self.fault("no call begins after its completion", run, f"{e.call} after {books.completed[e.key]}")
        for id_, other in books.calls.items():
            if other.kind != "effect" or other.key != e.key:
                continue
            if not e.named and (other.step, other.path, other.tool) != (e.step, e.path, e.tool):
                self.fault("an unnamed key belongs to one place", run, f"{e.call} and {id_}")
            if not (other.closed or other.doubted or other.superseded):
                self.fault("an effect has one call in flight", run, f"{e.call} while {id_}")
            if other.doubted and not (other.closed or other.superseded):
                other.superseded = True
                self._free(books, other)
                self._spend(books, other, other.hold)  # it may have been billed, and nobody will say
        books.calls[e.call] = Call(
            "effect",
            e.key,
            e.tool,
            e.step,
            e.path,
            policy=e.policy,
            named=e.named,
            request=e.request.value() if e.request.blob is None else None,
            compensation=e.compensation,
            compensates=e.compensates,
            hold=e.hold_nanousd,
            held_ms=books.at_ms,
            agent=e.agent,
        )
        self._move(books, books.calls[e.call], held=e.hold_nanousd)
        books.held += e.hold_nanousd
        if e.compensates is not None and e.compensates not in books.compensable:
            self.fault("only what has happened is undone", run, e.compensates)

    def _check_approved(self, books: Books, run: RunId, e: ev.EffectIntended) -> None:
        """In a fork, somebody has approved what happens once, wherever the code asked for it then."""
        if not self.approvals.is_said(run, e.tool, e.request.value()):
            self.fault("what happens once is not done again in a fork without a word", run, e.call)

    def _check_unanswered(self, books: Books, run: RunId, e: ev.EffectIntended) -> None:
        """Nobody has answered in the tool's place, at this very place."""
        if (answers := _approvals(books, e)) and answers[-1].decision == "answer":
            self.fault("what a person has answered for is not called", run, e.call)

    def _outcome(self, books: Books, run: RunId, id_: CallId, event: ev.Event) -> Call:
        call = books.calls[id_]
        if call.closed or call.superseded or call.kind != "effect":
            self.fault("an effect has one outcome", run, f"{type(event).__name__} of {id_}")
        call.closed = True
        self._free(books, call)
        return call

    def _effect_completed(self, books: Books, run: RunId, e: ev.EffectCompleted) -> None:
        call = self._outcome(books, run, e.call, e)
        self._spend(books, call, call.hold)
        books.completed[call.key] = e.call
        if call.compensation is not None:
            books.compensable.append(e.call)
        if call.compensates is not None:
            books.undone.append(call.compensates)
        if e.by is None and not self.world.effects.get(call.key) and call.policy != "read":
            self.fault("what is recorded as done has happened", run, e.call)

    def _effect_failed(self, books: Books, run: RunId, e: ev.EffectFailed) -> None:
        call = self._outcome(books, run, e.call, e)
        if e.cost_nanousd not in (0, call.hold) or (e.cost_nanousd and call.policy != "read"):
            self.fault("what failed has cost nothing, or it was a look that nobody knows the end of", run, e.call)
        self._spend(books, call, e.cost_nanousd)
        self.approvals.came_to_nothing(run, call)

    def _effect_released(self, books: Books, run: RunId, e: ev.EffectReleased) -> None:
        self.approvals.came_to_nothing(run, self._outcome(books, run, e.call, e))

    def _effect_doubted(self, books: Books, run: RunId, e: ev.EffectInDoubt | ev.EffectUnanswered) -> None:
        call = books.calls[e.call]
        if call.closed or call.superseded:
            self.fault("what has an outcome is not doubted", run, e.call)
        self._doubt(books, call)

    def _effect_reopened(self, books: Books, run: RunId, e: ev.EffectReopened) -> None:
        call = books.calls[e.call]
        if call.closed or call.superseded:
            self.fault("what has an outcome is not reopened", run, e.call)
        if call.policy == "once" and e.by is None:
            self.fault("nobody but a person has a `once` effect called again", run, e.call)
        call.reopened = True
        self._doubt(books, call)

    def _orphaned(self, books: Books, run: RunId, e: ev.OutcomeOrphaned) -> None:
        if not books.calls[e.call].superseded:
            self.fault("an orphan's call has been given up", run, e.call)

    # --- Waiting ------------------------------------------------------------------------------------------------------

    def _timer_started(self, books: Books, run: RunId, e: ev.TimerStarted) -> None:
        self._check_may_begin(books, run, e.step, "a timer")
        books.timers[e.step, e.path] = (e.due_at_ms, self.loop.time(), e.due_at_ms - books.at_ms)
        books.called_off.discard((e.step, e.path))

    def _fired(self, books: Books, run: RunId, e: ev.TimerFired | ev.ValueRecorded) -> None:
        if (e.step, e.path) in books.fired:
            self.fault("a timer fires once", run, f"{e.step} {e.path}")
        if (e.step, e.path) in books.called_off:
            self.fault("what was called off has no other outcome", run, f"{e.step} {e.path}")
        books.fired.add((e.step, e.path))

    def _timer_fired(self, books: Books, run: RunId, e: ev.TimerFired) -> None:
        due_at_ms, since_s, wait_ms = books.timers[e.step, e.path]
        self._fired(books, run, e)
        if books.at_ms < due_at_ms:
            self.fault("no timer fires early", run, f"{e.step} {e.path}: at {books.at_ms}, due {due_at_ms}")
        for path, op in books.state.steps[node_of(e.step)].unsettled():
            if path != e.path and op.kind == SLEEP and op.due_at_ms is not None and op.due_at_ms < due_at_ms:
                told = f"{e.step} {path}: {op.due_at_ms}, {due_at_ms}"
                self.fault("timers fire in the order of their times", run, told)
        passed_ms = (self.loop.time() - since_s) * 1000
        # The event's time was read before the commit, so what passed before the timer's own commit does not count.
        if not self.clock_jumped and passed_ms + 65_000 < wait_ms:
            self.fault("no timer fires early", run, f"{e.step} {e.path}: after {passed_ms} ms instead of {wait_ms}")
        late_ms = books.at_ms - due_at_ms
        if not self.clock_jumped and late_ms > _LATE_MS and self._felt_until_s() * 1000 < due_at_ms:
            self.fault("no timer fires late", run, f"{e.step} {e.path}: {late_ms} ms after it was due")

    def _operation_called_off(self, books: Books, run: RunId, e: ev.OperationCalledOff) -> None:
        visit = books.steps.get(node_of(e.step))
        if visit is None or not visit.active:
            self.fault("only the current attempt speaks for its step", run, f"{e.path} of {e.step} is called off")
        for id_, gate in books.gates.items():
            if (gate.step, gate.path) == (e.step, e.path) and id_ not in books.closed_gates:
                self.fault("nobody is asked what was called off", run, id_)
        for id_, call in books.calls.items():
            is_open = not (call.closed or call.superseded or call.doubted)
            if (call.step, call.path) == (e.step, e.path) and is_open:
                self.fault("what was sent is not called off", run, id_)
        for name in [name for name, map_ in books.maps.items() if (map_.opened.step, map_.opened.path) == (e.step, e.path)]:
            self._forget_map(books, name)
        books.called_off.add((e.step, e.path))

    def _signal_awaited(self, books: Books, run: RunId, e: ev.SignalAwaited) -> None:
        books.called_off.discard((e.step, e.path))

    def _signal_received(self, books: Books, run: RunId, e: ev.SignalReceived) -> None:
        if e.number != len(books.signals) + 1:
            self.fault("signals are counted", run, str(e.number))
        books.signals[e.number] = e

    def _signal_delivered(self, books: Books, run: RunId, e: ev.SignalDelivered) -> None:
        if e.number in books.delivered or e.number not in books.signals:
            self.fault("a signal is delivered once", run, str(e.number))
        if (e.step, e.path) in books.called_off:
            self.fault("no signal is lost to a wait that was called off", run, f"{e.number} at {e.step} {e.path}")
        books.delivered.add(e.number)

    def _message_received(self, books: Books, run: RunId, e: ev.MessageReceived) -> None:
        if e.number <= books.latest_message:
            self.fault("a message is told once", run, str(e.number))
        books.latest_message = e.number
        books.messages.add(e.number)

    def _message_read(self, books: Books, run: RunId, e: ev.MessageRead) -> None:
        if e.number not in books.messages:
            self.fault("a message is read once", run, f"{e.number} at {e.path}")
        books.messages.discard(e.number)

    # --- People -------------------------------------------------------------------------------------------------------

    def _gate_opened(self, books: Books, run: RunId, e: ev.GateOpened) -> None:
        if e.gate in books.gates:
            self.fault("a gate is opened once", run, e.gate)
        if e.reason == "tool_approval":
            self.approvals.asked(books, run, e)
        books.gates[e.gate] = e
        if e.four_eyes and e.reviewers and {*e.reviewers} <= {e.requester, *books.contributors}:
            self.fault("a question that nobody can decide is not asked", run, f"{e.gate}: {e.reviewers}")

    def _gate_edited(self, books: Books, run: RunId, e: ev.GateEdited) -> None:
        gate = books.gates.get(e.gate)
        if gate is None or e.gate in books.closed_gates or not (gate.four_eyes or gate.quorum > 1):
            self.fault("only an open gate for another person is edited and asks again", run, e.gate)
            return
        self._check_is_another(books, run, gate, e.by)
        books.gates[e.gate] = msgspec.structs.replace(gate, filled=e.data, shown_hash=e.shown_hash)
        books.approvals[e.gate] = []
        books.edited.add((e.gate, e.by))

    def _gate_approved(self, books: Books, run: RunId, e: ev.GateApproved) -> None:
        gate, before = books.gates.get(e.gate), books.approvals.setdefault(e.gate, [])
        if gate is None or e.gate in books.closed_gates or len(before) + 1 >= gate.quorum:
            self.fault("only an open gate with a quorum is approved by several", run, e.gate)
            return
        if e.shown_hash != gate.shown_hash:
            self.fault("a decision is about what was shown", run, e.gate)
        self._check_is_another(books, run, gate, e.by)
        if gate.reviewers and {e.by, *e.roles}.isdisjoint(gate.reviewers):
            self.fault("only those who are asked decide", run, f"{e.gate}: {e.by} as {e.roles}")
        before.append(e)
        books.approved.add((e.gate, e.by))

    def _check_is_another(self, books: Books, run: RunId, gate: ev.GateOpened, by: str | None) -> None:
        before = [each.by for each in books.approvals.get(gate.gate, ())]
        if (gate.gate, by) in books.edited or (gate.quorum > 1 and by in (None, *before)):
            self.fault("a quorum is of different persons, none of whom edited", run, f"{gate.gate}: {by}")
        if not gate.four_eyes:
            return
        if gate.requester is None or by in (None, gate.requester):
            self.fault("four eyes are two people", run, gate.gate)
        if by in books.contributors or by in gate.contributors:
            self.fault("a contributor never decides a gate with four eyes", run, f"{gate.gate}: {by}")

    def _contributed(self, books: Books, event: ev.Event) -> None:
        """Note who contributed by an event that was judged."""
        names = [getattr(event, "by", None)] if isinstance(event, _CONTRIBUTIONS) else []
        if isinstance(event, ev.ContributorNamed):
            names = [event.name]
        elif isinstance(event, ev.ChildEnded):
            names = [*event.contributors]
        elif isinstance(event, ev.GateDecided) and (gate := books.gates.get(event.gate)) is not None:
            is_filled_in = event.decision == "approve" and (event.data.value() or {}) != (gate.filled.value() or {})
            names = [event.by] if gate.step is not None and (event.decision in ("edit", "answer") or is_filled_in) else []
        books.contributors.update((name, books.seq) for name in names if name not in (None, books.requester))
        for id_, approvals in books.approvals.items():
            if books.gates[id_].four_eyes:
                books.approvals[id_] = [each for each in approvals if each.by not in names]

    def _gate_decided(self, books: Books, run: RunId, e: ev.GateDecided) -> None:
        gate = books.gates.get(e.gate)
        if gate is None or e.gate in books.closed_gates:
            self.fault("each gate is decided once", run, e.gate)
            return
        if gate.expires_at_ms is not None and gate.expires_at_ms <= books.at_ms:
            self.fault("no answer counts that comes too late", run, e.gate)
        if e.decision not in gate.allowed:
            self.fault("a gate takes what it offers", run, f"{e.gate}: {e.decision}")
        if e.shown_hash != gate.shown_hash:
            self.fault("a decision is about what was shown", run, e.gate)
        self._check_who_decides(books, run, gate, e)
        if gate.reviewers and {e.by, *e.roles}.isdisjoint(gate.reviewers):
            self.fault("only those who are asked decide", run, f"{e.gate}: {e.by} as {e.roles}")
        if e.decision == "approve" and isinstance(filled := gate.filled.value(), dict):
            given = e.data.value()
            if any(given[name] != value for name, value in filled.items() if value is not None):
                self.fault("an approval is of what was shown", run, f"{e.gate}: {given} for {filled}")
        books.closed_gates[e.gate] = e
        if gate.reason == "tool_approval" and e.decision in ("approve", "edit"):
            self.approvals.approved(run, gate.shown.value()["tool"], e.data.value())
        if gate.reason == "compensation_failed" and e.decision == "answer":
            books.undoing_given_up = True

    def _check_who_decides(self, books: Books, run: RunId, gate: ev.GateOpened, e: ev.GateDecided) -> None:
        if e.decision == "approve":
            self._check_is_another(books, run, gate, e.by)
            if len(books.approvals.get(e.gate, ())) + 1 != gate.quorum:
                self.fault("a gate with a quorum has as many approvals", run, e.gate)
        elif gate.four_eyes and (e.by in (None, gate.requester) or e.by in books.contributors):
            self.fault("a contributor never decides a gate with four eyes", run, f"{e.gate}: {e.by}")
        if (gate.four_eyes or gate.quorum > 1) and e.decision == "edit":
            self.fault("what was edited is decided by another person", run, e.gate)

    def _gate_assigned(self, books: Books, run: RunId, e: ev.GateAssigned) -> None:
        gate = books.gates.get(e.gate)
        if gate is None or e.gate in books.closed_gates:
            self.fault("only an open gate is given to others", run, e.gate)
            return
        if e.delegated and ({e.by, *e.roles}.isdisjoint(gate.reviewers) or not {*gate.reviewers} < {*e.reviewers}):
            self.fault("who is asked hands on, and stays asked", run, f"{e.gate}: {e.by} of {gate.reviewers}")
        if gate.four_eyes and gate.requester in e.reviewers:
            self.fault("four eyes are two people", run, e.gate)
        if gate.four_eyes and not e.delegated and {*e.reviewers} & {*books.contributors, *gate.contributors}:
            self.fault("a contributor is not made a reviewer", run, f"{e.gate}: {e.reviewers}")
        books.gates[e.gate] = msgspec.structs.replace(gate, reviewers=e.reviewers)
        before = books.approvals.get(e.gate, [])
        books.approvals[e.gate] = [each for each in before if not {each.by, *each.roles}.isdisjoint(e.reviewers)]

    def _gate_expired(self, books: Books, run: RunId, e: ev.GateExpired) -> None:
        gate = books.gates.get(e.gate)
        if gate is None or e.gate in books.closed_gates:
            self.fault("only an open gate expires", run, e.gate)
        elif gate.expires_at_ms is None or books.at_ms < gate.expires_at_ms:
            self.fault("no gate expires early", run, f"{e.gate}: at {books.at_ms}, {gate.expires_at_ms}")
        books.closed_gates[e.gate] = None

    def _gate_withdrawn(self, books: Books, run: RunId, e: ev.GateWithdrawn) -> None:
        if e.gate not in books.gates or e.gate in books.closed_gates:
            self.fault("only an open gate is withdrawn", run, e.gate)
        books.closed_gates[e.gate] = None

    def _gate_reminded(self, books: Books, run: RunId, e: ev.GateReminded | ev.GateEscalated) -> None:
        if e.gate not in books.gates or e.gate in books.closed_gates:
            self.fault("nobody is reminded of a closed gate", run, e.gate)

    # --- What reaches the world ---------------------------------------------------------------------------------------

    def tool_called(self, process: Process, sending: Sending, before: Sequence[Sending]) -> None:
        found = [
            (run, books, call)
            for run, books in self.books.items()
            for call in books.calls.values()
            if call.kind == "effect" and call.key == sending.key and not call.closed and not call.superseded
        ]
        if not found:
            self.fault("nothing is called without a durable intent", "?", f"{sending.tool} {sending.key}")
            return
        run, books, call = found[-1]
        if call.tool != sending.tool or _encode(call.request) != _encode(sending.arguments):
            self.fault("what was intended is what is called", run, f"{sending} for {call}")
        books.sent_tools += call.compensates is None
        if books.most_tool_calls is not None and books.sent_tools > books.most_tool_calls and books.is_held:
            self.fault("no more tool calls than the cap", run, f"{books.sent_tools} of {books.most_tool_calls}")
        self._check_lease(process, run, f"{sending.tool} {sending.key[:12]}")
        if sending.key in books.completed and sending.policy != "read":
            self.fault("no call leaves after its completion", run, f"{sending.tool} {sending.key[:12]}")
        needed = self.approvals.needs_word(books, sending.tool, sending.arguments.get("item"))
        if needed and not self.approvals.is_approved(run, sending.tool, sending.arguments):
            self.fault("what needs approval was approved, exactly", run, f"{sending.tool} {sending.arguments}")
        if sending.policy == "once":
            again = [each for each in before if each.said != "no" and not each.excused]
            if again:
                self.fault("a `once` effect is not called again unasked", run, f"{sending} after {again}")
        if sending.policy == "verify":
            self._check_verified(run, sending, before)

    def _check_verified(self, run: str, sending: Sending, before: Sequence[Sending]) -> None:
        """A call of unknown outcome is made again only when its lookup has found nothing, late enough."""
        if self.clock_jumped:
            return  # a process that is started believes the machine's clock: the tool seems to have had its time
        looked = self.world.lookups.get(sending.key, ())
        for each in before:
            if each.said == "no" or each.excused or any(at_s >= each.at_s + SETTLES_S - 0.01 for at_s in looked):
                continue
            self.fault("a `verify` effect is looked up before it is called again", run, f"{sending} after {each}")

    def model_called(self, process: Process, run: str, request: ModelRequest | EmbeddingRequest, asking: Asking | None) -> None:
        books = self.books[run]
        self.answers.called(run, request, asking)
        books.sent_models += 1
        if books.sent_models > books.holds:
            self.fault("money is held before a model is called", run, f"{books.sent_models} calls, {books.holds} holds")
        open_ = [call for call in books.calls.values() if call.kind == "model" and not call.closed]
        if not any(call.tool == request.model for call in open_):
            self.fault("money is held for the model that is called", run, request.model)
        self._check_lease(process, run, request.model)

    def billed(self, run: str, nanousd: int) -> None:
        books = self.books[run]
        books.bill += nanousd
        books.bills += 1
        if books.most_model_calls is not None and books.bills > books.most_model_calls and books.is_held:
            self.fault("no more model calls than the cap", run, f"{books.bills} of {books.most_model_calls}")
        books.unsettled_bills[nanousd] += 1
        if books.limit is not None and books.bill > books.limit and books.is_held:
            self.fault("no bill exceeds its limit", run, f"{books.bill} of {books.limit}")

    def _check_lease(self, process: Process, run: str, what: str) -> None:
        mount, engine = process.mount, process.engine
        held = mount.leases if mount is not None else {}
        # While a process stops it has no engine to be asked, but what still runs may go on under its session.
        sessions = list(held) if engine is None else [engine.runtime.membership.session]
        leases = [held[session] for session in sessions if session in held]
        if not any(lease.lasts(self.loop.time()) for lease in leases):
            self.fault("nobody sends past his lease", run, f"{process.name}: {what}")

    def handler_began(
        self, process: Process, run: str, step: str, attempt: int, seen: dict[str, str], before: dict[str, str]
    ) -> None:
        books = self.books[run]
        visit = books.steps.get(node_of(StepId(step)))
        if visit is None or visit.id != step or attempt not in visit.starts:
            return  # it has been superseded since, and what it sees is of no consequence
        since = visit.starts[attempt]
        for name, shown in seen.items():
            gone = books.superseded.get(shown)
            if gone is not None and gone < since:
                self.fault("a superseded output is invisible", run, f"{step} sees {shown} as {name}")
        for name in {*books.previous, *before}:
            told = books.previous.get(name, [(0, None)])
            at_start = max(seq for seq, _ in told if seq < since)
            # It saw some moment since its attempt began: another branch may have gone back meanwhile.
            if before.get(name) not in {visit for seq, visit in told if seq >= at_start}:
                self.fault("the visit before is the one before", run, f"{step} sees {before.get(name)} of {told}")

    def embedded(self, run: str, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        self.answers.embedded(run, texts, vectors)

    def answered(self, asking: Asking, text: str) -> None:
        self.answers.answered(asking, text, clocks_agree=not self.clock_jumped)

    def code_changed(self, run: str, step: str) -> None:
        """Another version of its code goes on with a step."""
        self.books[run].changed.add(step)

    def script_began(self, process: Process, execution: Execution) -> None:
        assert self.jobs is not None
        self.jobs.script_began(self.books[execution.run], process, execution)

    def operation_gave(self, run: str, step: str, attempt: int, place: str, kind: str, value: Any) -> None:
        """A handler got a result: whoever asks at the same place again gets the same."""
        books = self.books[run]
        if kind == "say":
            books.said.setdefault((step, attempt), []).append(place)
            return
        visit = books.steps.get(node_of(StepId(step)))
        if kind in ("uuid", "version", "gather") and step in books.changed:
            return  # nothing is kept of it but its place, and where nothing follows that is kept, other code has another;
            # what was gathered is looked at one by one
        if kind in ("now", "think") or visit is None or visit.id != step or attempt != max(visit.starts, default=0):
            return  # the last two: it has been superseded since, and what it sees may have been dropped
        if not visit.active and step in books.changed:
            return  # a person has had its journal dropped while it still looked into its own copy
        told = books.told
        encoded = _encode(value)
        if told.setdefault((run, step, place), encoded) != encoded:
            before = told[run, step, place]
            self.fault("a replay sees what was seen", run, f"{step} {place}: {encoded!r}, before {before!r}")

    def flow_passed(self, run: str, attempt: int, number: int, what: Any, time_s: float) -> None:
        assert self.flows is not None
        is_new = self.flows.passed(run, attempt, number, what)
        if is_new and not self.clock_jumped:
            self.flows.waited(run, 0.0, time_s, self._wall_s(), self._felt_until_s())

    def flow_slept(self, run: str, asked_s: float, from_s: float, until_s: float) -> None:
        assert self.flows is not None
        if not self.clock_jumped:
            self.flows.waited(run, asked_s, from_s, until_s, self._felt_until_s())

    def _wall_s(self) -> float:
        return self.disk.wall_offset_ms / 1000 + self.loop.time()

    def _felt_until_s(self) -> float:
        return self.disk.wall_offset_ms / 1000 + self.world.faults.felt_until_s

    def function_began(self, run: str, number: int) -> None:
        assert self.flows is not None
        self.flows.began(run, number)

    # --- The end ------------------------------------------------------------------------------------------------------

    def close(self, *, over: bool) -> None:
        """Judge what only the whole tells; of what was to end, if it is `over`, nothing may be left."""
        if self.timetable is not None:
            self.timetable.close()
        for run_, books in self.books.items():
            run = RunId(run_)
            held = [id_ for id_, call in books.calls.items() if not (call.closed or call.doubted or call.superseded)]
            if over and books.ended and held:
                self.fault("every hold is settled, freed or in doubt", run, f"{held}")
            state, states = State(), {}
            wanted = {record.seq for owner, record in self.snapshots if owner == run}
            for recorded in self.disk.history(run):
                evolve(state, recorded.event, recorded.at_ms)
                if recorded.seq in wanted:
                    states[recorded.seq] = msgspec.json.decode(msgspec.json.encode(state), type=State)
            if state != books.state:
                self.fault("a history folds to the same state every time", run, _difference(state, books.state))
            for owner, record in self.snapshots:
                if owner != run or record.fold_version != FOLD_VERSION:
                    continue
                loaded = msgspec.json.decode(record.state, type=State)
                if loaded != states.get(record.seq):
                    self.fault("a snapshot is the state at its place", run, f"at {record.seq}")
        for key, happened in self.world.effects.items():
            sending = happened[0]
            times = len(happened)
            # With the clock set forward, a tool seems to have had its time to settle when it has not.
            only_once = sending.policy == "once" or (sending.policy == "verify" and not self.clock_jumped)
            if only_once and times > 1:
                self.fault("it happened once", "?", f"{sending.tool} {key[:12]} {times} times: {happened}")


def _follows(graph: Graph, edge: Edge, decisions: tuple[str, ...] | None) -> bool:
    """Whether an edge goes the way that its source decided."""
    if decisions is None:
        return edge.when is None
    if edge.when is not None:
        return edge.when in decisions
    if graph.nodes[edge.source].kind == "branch":
        return edge.target in decisions
    return any(decision in GOING_ON for decision in decisions)


def _difference(one: State, other: State) -> str:
    names = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    told = (f"{name}: {_encode(getattr(one, name))!r} against {_encode(getattr(other, name))!r}" for name in names)
    return "; ".join(told)[:4000]


def _decided(append: Append) -> dict[str, set[str]]:
    """The gates that an append decides, by the names of those who do."""
    found: dict[str, set[str]] = {}
    for event in (recorded.event for recorded in append.events):
        if isinstance(event, ev.GateDecided | ev.GateEdited | ev.GateApproved) and event.by is not None:
            found.setdefault(event.by, set()).add(event.gate)
    return found


def _approvals(books: Books, e: ev.EffectIntended) -> list[ev.GateDecided]:
    """What people have answered, in that order, who were asked about the call at this very place."""
    return [
        answer
        for gate, answer in books.closed_gates.items()
        if answer is not None and (books.gates[gate].step, books.gates[gate].path) == (e.step, f"{e.path}.approval")
    ]


_CONTRIBUTIONS: Final = (
    ev.RunReopened,
    ev.RunForked,
    ev.RunMigrated,
    ev.DeadLetterEdited,
    ev.StepReplayed,
    ev.EffectCompleted,
    ev.EffectFailed,
    ev.EffectReopened,
    ev.SignalReceived,
    ev.MessageReceived,
)
"""Events by which the person whom they name contributes to the run."""

_JUDGES: Final[dict[type[ev.Event], Callable[[Auditor, Books, RunId, Any], None]]] = {
    ev.RunStarted: Auditor._run_started,
    ev.RunAdmitted: Auditor._run_admitted,
    ev.AdmissionDeferred: Auditor._admission_deferred,
    ev.RunPaused: Auditor._run_paused,
    ev.RunResumed: Auditor._run_resumed,
    ev.RunFailing: Auditor._run_failing,
    ev.RunCancelling: Auditor._run_cancelling,
    ev.RunCompleted: Auditor._run_ended,
    ev.RunFailed: Auditor._run_ended,
    ev.RunCancelled: Auditor._run_ended,
    ev.RunReopened: Auditor._run_reopened,
    ev.RunForked: Auditor._run_forked,
    ev.TreeOpened: Auditor._tree_opened,
    ev.ChildRequested: Auditor._child_requested,
    ev.ChildEnded: Auditor._child_ended,
    ev.ChildUndone: Auditor._child_undone,
    ev.StepInherited: Auditor._step_inherited,
    ev.OperationInherited: Auditor._operation_inherited,
    ev.RunMigrated: Auditor._run_migrated,
    ev.LimitRaised: Auditor._limit_raised,
    ev.StepReady: Auditor._step_ready,
    ev.StepStarted: Auditor._step_started,
    ev.StepSuspended: Auditor._step_left,
    ev.StepStopped: Auditor._step_stopped,
    ev.OperationReused: Auditor._operation_reused,
    ev.JournalDropped: Auditor._journal_dropped,
    ev.AttemptFailed: Auditor._step_left,
    ev.AttemptLost: Auditor._attempt_lost,
    ev.StepCompleted: Auditor._step_completed,
    ev.StateConflicted: Auditor._state_conflicted,
    ev.StepFailed: Auditor._step_failed,
    ev.StepReplayed: Auditor._step_replayed,
    ev.StepSkipped: Auditor._step_skipped,
    ev.StepCancelling: Auditor._step_cancelling,
    ev.StepCancelled: Auditor._step_cancelled,
    ev.LoopTaken: Auditor._loop_taken,
    ev.ItemsMapped: Auditor._items_mapped,
    ev.MapEnded: Auditor._map_ended,
    ev.MapReopened: Auditor._map_reopened,
    ev.ValueRecorded: Auditor._value_recorded,
    ev.GuardJudged: Auditor._guard_judged,
    ev.JoinTimedOut: Auditor._join_timed_out,
    ev.ModelCallHeld: Auditor._model_call_held,
    ev.ModelCallSettled: Auditor._model_call_settled,
    ev.ModelCallFailed: Auditor._model_call_failed,
    ev.ModelCallInDoubt: Auditor._model_call_in_doubt,
    ev.ModelCallReconciled: Auditor._model_call_reconciled,
    ev.EffectIntended: Auditor._effect_intended,
    ev.EffectCompleted: Auditor._effect_completed,
    ev.EffectFailed: Auditor._effect_failed,
    ev.EffectReleased: Auditor._effect_released,
    ev.EffectInDoubt: Auditor._effect_doubted,
    ev.EffectUnanswered: Auditor._effect_doubted,
    ev.EffectReopened: Auditor._effect_reopened,
    ev.OutcomeOrphaned: Auditor._orphaned,
    ev.TimerStarted: Auditor._timer_started,
    ev.TimerFired: Auditor._timer_fired,
    ev.OperationCalledOff: Auditor._operation_called_off,
    ev.SignalAwaited: Auditor._signal_awaited,
    ev.SignalReceived: Auditor._signal_received,
    ev.SignalDelivered: Auditor._signal_delivered,
    ev.MessageReceived: Auditor._message_received,
    ev.MessageRead: Auditor._message_read,
    ev.GateOpened: Auditor._gate_opened,
    ev.GateApproved: Auditor._gate_approved,
    ev.GateEdited: Auditor._gate_edited,
    ev.GateAssigned: Auditor._gate_assigned,
    ev.GateReminded: Auditor._gate_reminded,
    ev.GateEscalated: Auditor._gate_reminded,
    ev.GateDecided: Auditor._gate_decided,
    ev.GateExpired: Auditor._gate_expired,
    ev.GateWithdrawn: Auditor._gate_withdrawn,
}
