"""Replays recorded runs: the workflow as it is now, in a store of its own, answered from the record of each run.

Graph, guards, branches, checks, prompts and the code of flows are run; models, tools, steps of flows and tasks are answered,
and people decide as recorded. Time leaps to what is waited for. Never here: reading or writing a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path as File
from typing import Final

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine
from holdfast.compose.engine import Environment
from holdfast.core.capacity.lending import MAX_LIMIT
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import NOTED, Gate, Operation, Question, State
from holdfast.core.values.demand import MAX_AMOUNT, Resources
from holdfast.core.values.ids import GateId, Path, RunId, StepId, node_of, root_of
from holdfast.core.values.money import nanousd, usd
from holdfast.core.values.remainder import ScopeLeft
from holdfast.core.views.comparison import Comparison, compare
from holdfast.core.views.status import status, waiting_for
from holdfast.core.views.trajectory import Trajectory
from holdfast.core.views.transcript import TurnChange, changes
from holdfast.errors import HoldfastError, InvalidInput, NotRecorded, UsageError
from holdfast.evaluation.offline import offline
from holdfast.evaluation.record import RecordedAnswer, RecordedAnswers, RunRecord, costs, jobs
from holdfast.platform.machine import LeapingTime, RandomIds
from holdfast.platform.redaction import Blank
from holdfast.ports import Model, Recall, RecordedAttempt, RecordedCall, ReplayRequest
from holdfast.service.control.handle import Run
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore

AT_ONCE: Final = 50
"""Runs that are replayed beside one another."""
TIMEOUT_S: Final = 60.0
"""For those, before they are told as they stand."""
_MAX_LEAPS: Final = 10_000
"""Of their time."""
_MAX_MISSING: Final = 20
_LOOKED_AT: Final = NOTED | {"message", "shared_lock"}
"""Kinds that a step may have more of than its record: they go nowhere outside."""
_ELSEWHERE: Final = frozenset({"worker", "pool", "child"})
"""What is waited for that is not in a replay's store."""
_TIMED: Final = frozenset({"timer", "retry", "signal", "shared_value"})


class Live(msgspec.Struct, frozen=True):
    """A permission to make model calls that a record has no answer for.

    Args:
        max_cost_usd: Maximum cost of these calls in dollars.
    """

    max_cost_usd: str | int | float

    def __post_init__(self) -> None:
        """Raises UsageError for what is no amount."""
        try:
            nanousd(self.max_cost_usd)
        except ValueError as problem:
            raise UsageError(f"What may be spent live: {problem}. Nothing was replayed.") from None


class RequestChange(msgspec.Struct, frozen=True):
    """A request to a model that differs from the recorded one at its place, as far as that was kept.

    Args:
        step: Id of the step, `NODE#VISIT`.
        path: Place in the code of the step.
        model: Name of the model that the code asks.
        changes: The parts that differ, in their order.
    """

    step: str
    path: str
    model: str
    changes: tuple[TurnChange, ...]


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of replaying a recorded run.

    Args:
        run: Id of the recorded run.
        path: Its path with the current code.
        comparison: The differences from the recorded path.
        missing: Requests that the record has no answer for.
        live_calls: Number of model calls that were made.
        live_nanousd: Cost of these calls in nano-dollars.
        requests: Requests to models that differ from the recorded ones, with the turns that differ.
    """

    run: str
    path: Trajectory
    comparison: Comparison
    missing: tuple[str, ...] = ()
    live_calls: int = 0
    live_nanousd: int = 0
    requests: tuple[RequestChange, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the run went the same way, and its record had every answer that it asked for."""
        return self.comparison.same_way and not self.missing


class Quote(msgspec.Struct, frozen=True):
    """An estimate of the model calls that a replay would have to make.

    Args:
        runs: Number of records.
        changed: Number of runs that request something that was not recorded.
        first_calls_nanousd: Maximum cost of the first such call of each run, in nano-dollars.
        recorded_nanousd: Cost of the recorded calls from there on, in nano-dollars.
    """

    runs: int
    changed: int
    first_calls_nanousd: int
    recorded_nanousd: int


class _Answers:
    """Keeps ports.StandIn for all records that are replayed."""

    def __init__(self, records: Sequence[RunRecord], workflows: Sequence[Workflow], live: Live | None) -> None:
        self.recorded = {record.run: RecordedAnswers(record) for record in records}
        self._jobs = {workflow.name: jobs(workflow.graph.definition) for workflow in workflows}
        self.missing: dict[RunId, list[str]] = {run: [] for run in self.recorded}
        self.changed: dict[RunId, list[RequestChange]] = {run: [] for run in self.recorded}
        self._blank = Blank()
        self.live: dict[RunId, dict[tuple[StepId, Path], int]] = {run: {} for run in self.recorded}
        """The calls that were really made, and what was set aside for each."""
        self.first: dict[RunId, tuple[StepId, int]] = {}
        """The first model call of a run for which there was no answer, and the most that it could cost."""
        self.left_nanousd = None if live is None else nanousd(live.max_cost_usd)

    def call(self, request: ReplayRequest, hold_nanousd: int = 0) -> Recall | None:
        found = self.recorded[request.run].find(request.step, request.path, request.kind, request.name, request.args_hash)
        if found is not None:
            return Recall(found.value.value() if found.error is None else None, found.error)
        if request.kind == "model":
            self.first.setdefault(request.run, (request.step, hold_nanousd))
            self._compare(request)
            if self.left_nanousd is not None:
                self._let_through(request, hold_nanousd, self.left_nanousd)
                return None
        raise self.not_recorded(request.run, f"{request.step} asks for {request.kind} {request.name!r} at {request.path}")

    def _compare(self, request: ReplayRequest) -> None:
        """Note in what a request differs from the one that was recorded at its place."""
        was, changed = self.recorded[request.run].asked_at(request.step, request.path), self.changed[request.run]
        if was is not None and request.asked is not None and len(changed) < _MAX_MISSING:
            found = changes(was, request.asked, self._blank.data)
            changed.append(RequestChange(request.step, request.path, request.name, found))

    def _let_through(self, request: ReplayRequest, hold_nanousd: int, left_nanousd: int) -> None:
        if hold_nanousd > left_nanousd:
            what = f"{request.step} asks {request.name!r} something new, for ${usd(hold_nanousd)} at most"
            raise self.not_recorded(request.run, f"{what}, and ${usd(left_nanousd)} of what may be spent is left")
        self.left_nanousd = left_nanousd - hold_nanousd
        self.live[request.run][request.step, request.path] = hold_nanousd

    def operation(self, request: ReplayRequest) -> Operation | None:
        op = self.recorded[request.run].operations.get((request.step, request.path))
        if op is not None and (op.kind, op.name) == (request.kind, request.name) and self._is_same(op, request):
            return msgspec.structs.replace(op, args_hash=request.args_hash)
        if request.kind in _LOOKED_AT:
            return None
        raise self.not_recorded(request.run, f"{request.step} asks for {request.kind} {request.name!r} at {request.path}")

    def approval(self, request: ReplayRequest) -> Operation | None:
        op = self.recorded[request.run].operations.get((request.step, request.path))
        if op is not None and not self._is_same(op, request):
            what = f"{request.step} asks for another call of {request.name!r} than a standing approval was used for"
            raise self.not_recorded(request.run, what)
        return op

    def _is_same(self, op: Operation, request: ReplayRequest) -> bool:
        """Return True if the same was asked for, as far as a redacted record shows."""
        return self.recorded[request.run].record.redacted or op.args_hash in ("", request.args_hash)

    def above(self, run: RunId, question: Question) -> tuple[ScopeLeft, ...]:
        shown = self.recorded[run].above.get((question.step, question.target, question.guard))
        return shown.popleft() if shown else ()

    def step(self, run: RunId, step: StepId) -> RecordedAttempt | None:
        told = self.recorded[run]
        if step in told.composed:
            return None
        if not (tries := told.tries.get(step)):
            raise self.not_recorded(run, f"{step} begins")
        node = root_of(node_of(step))
        if told.jobs.get(node) != self._jobs[told.record.began.workflow].get(node):
            raise self.not_recorded(run, f"{step} begins, whose job is another than the one that was recorded")
        tried = tries.popleft()
        trace = None if tried.trace is None else tried.trace.value()
        calls = tuple(
            RecordedCall(
                each.path, each.name, each.policy, each.args_hash, each.request.value(), each.value.value(), each.error
            )
            for each in tried.calls
        )
        # A composed step was answered call by call; of a job the calls are those of its steps that run once.
        return RecordedAttempt(tried.output.value(), tried.decisions, trace, tried.error, calls)

    def not_recorded(self, run: RunId, name: str) -> NotRecorded:
        missing = self.missing[run]
        if len(missing) < _MAX_MISSING:
            missing.append(name)
        return NotRecorded(f"{name}, and the record of run {run} has no answer. Nothing was called.")

    def settle(self, run: RunId, events: Sequence[ev.Recorded]) -> int:
        """Return the cost of a run's live calls; the unused part of their holds becomes available to others."""
        live = self.live[run]
        spent = sum(cost for step, path, cost in costs(events) if (step, path) in live)
        if self.left_nanousd is not None:
            self.left_nanousd += sum(live.values()) - spent
        return spent


class _Ids(RandomIds):
    """Names as ever, but that a run is called what its record is: keys and UUIDs follow from that."""

    def __init__(self) -> None:
        super().__init__()
        self.next: RunId | None = None

    def run(self, now_ms: int) -> RunId:
        return super().run(now_ms) if self.next is None else self.next


async def replay(
    records: Sequence[RunRecord],
    workflows: Sequence[Workflow],
    *,
    live: Live | None = None,
    model: Model | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[ReplayResult]:
    """Replay recorded runs with the current code, and yield the result of each.

    The process calls nothing outside meanwhile, except model calls that `live` permits.

    Args:
        records: The recorded runs, from `load_records` or `recorded`.
        workflows: The workflows with the current code.
        live: Permission for model calls without a recorded answer; by default none are made.
        model: Model that answers live calls; by default the providers.
        settings: The settings; by default those of no file.

    Raises:
        UsageError: A record belongs to another workflow.
    """
    async for replayed in _replay_all(records, workflows, _Answers(records, workflows, live), model, settings or Settings()):
        yield replayed


async def quote(records: Sequence[RunRecord], workflows: Sequence[Workflow], settings: Settings | None = None) -> Quote:
    """Return the cost of the model calls that a replay would have to make. It calls nothing and spends nothing.

    Args:
        records: The recorded runs, from `load_records` or `recorded`.
        workflows: The workflows with the current code.
        settings: The settings; by default those of no file.

    Raises:
        UsageError: A record belongs to another workflow.
    """
    answers = _Answers(records, workflows, None)
    async for _ in _replay_all(records, workflows, answers, None, settings or Settings()):
        pass
    return Quote(
        len(records),
        len(answers.first),
        sum(hold_nanousd for _, hold_nanousd in answers.first.values()),
        sum(answers.recorded[run].paid_from(step) for run, (step, _) in answers.first.items()),
    )


async def _replay_all(
    records: Sequence[RunRecord], workflows: Sequence[Workflow], answers: _Answers, model: Model | None, settings: Settings
) -> AsyncGenerator[ReplayResult, None]:
    known = {workflow.name: workflow for workflow in workflows}
    for record in records:
        if (name := record.began.workflow) not in known:
            given = ", ".join(known) or "none"
            raise UsageError(f"Run {record.run} is one of the workflow {name!r}, which is not given; given are: {given}.")
    async with contextlib.AsyncExitStack() as around:
        folder = around.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-replay-"))
        if answers.left_nanousd is None:
            around.enter_context(offline())
        clock, ids = LeapingTime(), _Ids()
        store = await SqliteStore.connect(File(folder) / "replay.db", machine_ms=clock)
        around.push_async_callback(store.aclose)
        labels, resources = _requirements_of(workflows)
        machine = Environment.of_machine(AT_ONCE, settings.models)
        environment = machine._replace(ids=ids, stand_in=answers, resources=resources)
        engine = await around.enter_async_context(
            Engine.open(
                store,
                workflows=workflows,
                model=model,
                environment=environment,
                settings=Settings(models=settings.models),
                slots=AT_ONCE,
                labels=labels,
            )
        )
        for pool in {pool for workflow in workflows for each in workflow.graph.demands for pool in each.pools}:
            await engine.set_pool(pool, slots=MAX_LIMIT)
        for first in range(0, len(records), AT_ONCE):
            stage = _Stage(engine, answers, clock, ids, known)
            for replayed in await stage.play(records[first : first + AT_ONCE]):
                yield replayed


def _requirements_of(workflows: Sequence[Workflow]) -> tuple[set[str], Resources]:
    """The labels that steps ask for, and enough of all else: where a run went is no part of its path."""
    demands = [demand for workflow in workflows for demand in workflow.graph.demands]
    labels = {label for workflow in workflows for label in workflow.graph.definition.runs_on}
    tags = {tag for demand in demands for tag in demand.tags}
    plenty = Resources(tags=tuple(tags), cpu_m=MAX_AMOUNT, memory_mb=MAX_AMOUNT, gpus=MAX_AMOUNT)
    return labels.union(*(demand.labels for demand in demands)), plenty


class _Stage:
    """Plays some runs beside one another. Time leaps once none of them has anything left to do without it."""

    def __init__(
        self, engine: Engine, answers: _Answers, clock: LeapingTime, ids: _Ids, workflows: Mapping[str, Workflow]
    ) -> None:
        self._engine = engine
        self._answers = answers
        self._clock = clock
        self._ids = ids
        self._workflows = workflows
        self._unanswered: set[GateId] = set()
        """The open gates that nobody answers before they expire."""

    async def play(self, records: Sequence[RunRecord]) -> list[ReplayResult]:
        runs = {record.run: await self._start(record) for record in records}
        with contextlib.suppress(TimeoutError):  # how far they have come is reported
            async with asyncio.timeout(TIMEOUT_S):
                await self._to_their_ends([run for run in runs.values() if run is not None])
        for run in runs.values():
            if run is not None:
                self._say_what_stopped(await run.state())
        return [await self._report(record) for record in records]

    async def _start(self, record: RunRecord) -> Run | None:
        """The run, begun as its record was, with the limits that people have given it since."""
        began, workflow = record.began, self._workflows[record.began.workflow]
        limits = {
            "cost": began.limit_nanousd,
            "tokens": began.max_tokens,
            "model_calls": began.max_model_calls,
            "tool_calls": began.max_tool_calls,
            "wall": began.max_wall_s,
        }
        raised = (each.event for each in record.events if isinstance(each.event, ev.LimitRaised))
        limits.update({event.limit: event.value for event in raised if limits.get(event.limit) is not None})
        cost, tokens, model_calls, tool_calls, wall_s = [*limits.values()][:5]
        self._ids.next = record.run
        try:
            return await self._engine.start(
                workflow,
                began.input.value(),
                tenant=began.tenant,
                by=began.by,
                cost_limit_usd=None if cost is None else usd(int(cost)),
                **began.terms()
                | {
                    "agent": None,
                    "on_end": None,
                    "max_tokens": _as_int(tokens),
                    "max_model_calls": _as_int(model_calls),
                    "max_tool_calls": _as_int(tool_calls),
                    "max_wall_s": wall_s,
                },
            )
        except HoldfastError as problem:
            self._answers.missing[record.run].append(f"it does not begin: {problem}")
            return None
        finally:
            self._ids.next = None

    async def _to_their_ends(self, runs: Sequence[Run]) -> None:
        for run in runs:
            for name, data in self._answers.recorded[RunId(run.id)].signals:
                await self._engine.runtime.runs.send(RunId(run.id), cmd.SendSignal(name, data))
        waiting = list(runs)
        for _ in range(_MAX_LEAPS):
            states = await asyncio.gather(*(self._at_rest(run) for run in waiting))
            due = {state.run: min(moments) for state in states if not state.ended and (moments := self._due(state))}
            if not due:
                return
            soonest_ms = min(due.values())
            self._clock.reach(soonest_ms)
            reached = {state.run: state.seq for state in states if due.get(state.run) == soonest_ms}
            waiting = [run for run in waiting if run.id in due]
            await asyncio.gather(*(self._note_move(run, reached[RunId(run.id)]) for run in waiting if run.id in reached))

    async def _note_move(self, run: Run, seq: int) -> None:
        await run.until(lambda state: state.seq > seq)

    async def _at_rest(self, run: Run) -> State:
        """The run when it has nothing left to do, and nobody has anything left to say to it."""
        while True:
            state = await run.until(lambda state: status(state) != "running" and not _is_placed_soon(state))
            if not await self._decide(state):
                return state

    async def _decide(self, state: State) -> bool:
        """Decide the open gates as people did, and return True if there were any to decide."""
        decisions, any_said = self._answers.recorded[state.run].decisions, False
        for wait in waiting_for(state):
            left = decisions.get(node_of(StepId(wait.step)) if wait.step is not None else "")
            if wait.kind != "gate" or not left or wait.id in self._unanswered:
                continue
            said, gate = left.popleft(), state.gates[GateId(wait.id)]
            if _comes_too_late(said, gate):
                self._unanswered.add(GateId(wait.id))
                continue
            if said.expired:
                self._answers.not_recorded(state.run, f"{wait.step} asks at a gate that had expired, and now stays open")
                continue
            roles = {*said.roles, *gate.opened.reviewers}
            data = {} if said.decision == "approve" or said.data is None else {"data": said.data}
            try:
                await self._engine.decide(wait.id, said.decision, by=said.by, roles=sorted(roles), reason=said.reason, **data)
            except InvalidInput as problem:
                self._answers.missing[state.run].append(f"what was decided is not taken any more: {problem}")
            any_said = True
        return any_said

    def _due(self, state: State) -> list[int]:
        """The moments at which the run goes on by itself."""
        waits = [wait.due_at_ms for wait in waiting_for(state) if wait.kind in _TIMED]
        maps = [map_.due_at_ms for map_ in state.maps.values()]
        gates = [gate.opened.expires_at_ms for id_, gate in state.gates.items() if id_ in self._unanswered]
        return [due for due in (*waits, *maps, *gates, *state.joins.values()) if due is not None]

    def _say_what_stopped(self, state: State) -> None:
        """Of a run that has not come to its end, and waits for nobody who could have said more."""
        if status(state) == "running" or self._due(state):
            self._answers.not_recorded(state.run, f"it is not at its end after {TIMEOUT_S:g} s")
        for wait in waiting_for(state):
            if wait.kind in _ELSEWHERE:
                self._answers.not_recorded(state.run, f"{wait.step} waits for a {wait.kind}, which a replay does not have")

    async def _report(self, record: RunRecord) -> ReplayResult:
        run, recorded = record.run, record.path()
        missing = self._answers.missing[run]
        if missing and missing[0].startswith("it does not begin"):
            return ReplayResult(run, recorded, compare(recorded, recorded), tuple(missing))
        path = await self._engine.trajectory(run)
        spent = self._answers.settle(run, await self._engine.store.log.events(run))
        found = compare(recorded, path)
        found.totals.pop("duration_ms", None)  # time leaps
        return ReplayResult(
            run, path, found, tuple(missing), len(self._answers.live[run]), spent, tuple(self._answers.changed[run])
        )


def _as_int(number: float | None) -> int | None:
    return None if number is None else int(number)


def _is_placed_soon(state: State) -> bool:
    """Return True if a step of the run is about to be placed; steps of connected workers never are."""
    return any(wait.demand is not None and not wait.demand.is_remote for wait in waiting_for(state))


def _comes_too_late(decision: RecordedAnswer, gate: Gate) -> bool:
    """Return True if a gate has expired by the time at which its answer comes, if any comes."""
    expires_at_ms = gate.opened.expires_at_ms
    return expires_at_ms is not None and (decision.expired or gate.at_ms + decision.after_ms >= expires_at_ms)
