"""Questions about runs: their rows, gates and effects, what they wait for, what they have cost.

Never here: answering in words (cli), changing anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, get_args

import msgspec

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.page import rows_after
from holdfast.core.views.selection import LetterCriteria
from holdfast.core.views.status import Status, WaitKind
from holdfast.errors import InvalidInput, NotFound
from holdfast.platform.own_loop import OfLoop, OwnLoop
from holdfast.ports import (
    ANY_YAML,
    MAX_LISTED,
    CostFilter,
    EffectFilter,
    GateFilter,
    Letter,
    LetterCount,
    LetterState,
    LogPiece,
    LogPlace,
    Report,
    RunFilter,
    ScoreFilter,
    Store,
    WorkflowRecord,
)
from holdfast.service.control.naming import DEFAULT_TENANT, call_named, gate_named, run_named

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.core.facts.costs import Cost
    from holdfast.core.facts.graph import Graph
    from holdfast.core.nouns.labels import Pair
    from holdfast.core.nouns.scores import Score, ScoreMean
    from holdfast.core.values.scopes import ScopeWaiter
    from holdfast.core.views.attempts import AttemptRow
    from holdfast.core.views.model_calls import ModelCallRow
    from holdfast.core.views.operations import OperationRow
    from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
    from holdfast.core.views.read_model import ReadModel
    from holdfast.core.views.span_parts import Span
    from holdfast.core.views.spending import SpendingRow
    from holdfast.core.views.trajectory import RunPath, TraceEvent, Trajectory
    from holdfast.engine.background.stuck import StuckRun
    from holdfast.engine.capacity.diagnosis import WaitReason
    from holdfast.engine.runs.read_models import ReadModels
    from holdfast.engine.runs.stored_workflow import StoredWorkflow
    from holdfast.service.control.tree import Tree


class RunReader(OfLoop, called="engine"):
    """Answered from what the store says: a caller that only asks needs no engine, and does not wait for one to be loaded."""

    def __init__(self, store: Store, loop: OwnLoop | None = None, read_models: ReadModels | None = None) -> None:
        """`loop`: the one that the store belongs to, if not the one that runs; `read_models`: those of the process."""
        self.store = store
        self._read_models = read_models
        self._loop = OwnLoop() if loop is None else loop

    def now_ms(self) -> int:
        """Return the store's time, in Unix milliseconds."""
        return self.store.clock.now_ms()

    async def find(self, run_id: str) -> RunRow:
        """Return a run's row.

        Raises:
            NotFound: The run does not exist.
        """
        row = await self.store.views.run(run_named(run_id))
        if row is None:
            raise no_run(run_id)
        return row

    async def workflow(self, name: str, version: int | None = None, *, tenant: str = DEFAULT_TENANT) -> StoredWorkflow:
        """Return a workflow as it was loaded last: code, or else the file that the tenant submitted.

        Args:
            name: Name of the workflow.
            version: Version; by default the highest.
            tenant: Tenant whose submitted files count.

        Raises:
            NotFound: No such workflow is known.
        """
        from holdfast.engine.runs.stored_workflow import StoredWorkflow  # noqa: PLC0415 - who asks about runs needs no graph

        record = await self.store.graphs.workflow(name, version, tenant=tenant)
        return StoredWorkflow.of(record, await self.graph_of(record.graph_hash))

    async def workflows(
        self, *, tenant: str = DEFAULT_TENANT, after: tuple[str, int] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[WorkflowRecord]:
        """Return the workflows whose code was loaded, and those whose files the tenant submitted, by name, the highest version
        first.

        Args:
            after: Name and version of the last row of the page before.
        """
        return await self.store.graphs.workflows(tenant=tenant, after=after, limit=limit)

    async def graph_of(self, graph_hash: str) -> Graph:
        """Return a graph.

        Args:
            graph_hash: Hash of the graph.

        Raises:
            NotFound: The graph does not exist.
        """
        from holdfast.core.facts.graph import Definition, Graph  # noqa: PLC0415 - as above

        definition = msgspec.json.decode(await self.store.graphs.graph(graph_hash), type=Definition)
        return Graph(definition, is_accepted=True)

    async def trajectory(self, run_id: str) -> Trajectory:
        """Return the path of a run so far.

        Raises:
            NotFound: The run does not exist.
        """
        return (await self._path(run_id)).trajectory()

    async def trace(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[TraceEvent]:
        """Return the trace events of a run: what happened at its nodes, without data.

        Args:
            after: Only those of events after this one.
            limit: Maximum number; all of the last one's event are returned.

        Raises:
            NotFound: The run does not exist.
        """
        return rows_after((await self._path(run_id)).lines, after, limit)

    async def spans(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Span]:
        """Return the spans of a run in the order in which they ended, and those that are open, with the last of them.

        Args:
            after: Only those that ended after this event.
            limit: Maximum number; all that ended with the last one's event are returned.

        Raises:
            NotFound: The run does not exist.
        """
        from holdfast.core.views.spans import RunSpans  # noqa: PLC0415 - as above

        row = await self.find(run_id)
        return (await self._models().of(self.store.log, row.run, RunSpans)).after(after, limit)

    async def operations(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[OperationRow]:
        """Return what the steps of a run did and wait for, in the order in which it began.

        Args:
            after: Only those that began after this event.
            limit: Maximum number; all that began with the last one's event are returned.

        Raises:
            NotFound: The run does not exist.
        """
        return (await self._read_model(run_id)).operations.after(after, limit)

    async def attempts(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[AttemptRow]:
        """Return the attempts of a run's steps, in the order in which they began.

        Args:
            after: Only those that began after this event.
            limit: Maximum number.

        Raises:
            NotFound: The run does not exist.
        """
        found = rows_after((await self._read_model(run_id)).attempts.rows, after, limit)
        return [msgspec.structs.replace(row) for row in found]

    async def model_calls(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[ModelCallRow]:
        """Return the model calls of a run, in the order in which they left.

        Args:
            after: Only those that left after this event.
            limit: Maximum number.

        Raises:
            NotFound: The run does not exist.
        """
        found = rows_after((await self._read_model(run_id)).model_calls.rows, after, limit)
        return [msgspec.structs.replace(row) for row in found]

    async def spending(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[SpendingRow]:
        """Return the money of a run over time: what is spent, held, in doubt and the limit after each event that changes one.

        Args:
            after: Only changes after this event.
            limit: Maximum number.

        Raises:
            NotFound: The run does not exist.
        """
        return rows_after((await self._read_model(run_id)).spending.rows, after, limit)

    async def _read_model(self, run_id: str) -> ReadModel:
        from holdfast.core.views.read_model import ReadModel  # noqa: PLC0415 - as above

        row = await self.find(run_id)  # as the store of this caller shows it
        return await self._models().of(self.store.log, row.run, ReadModel)

    async def _path(self, run_id: str) -> RunPath:
        from holdfast.core.views.trajectory import RunPath  # noqa: PLC0415 - as above

        row = await self.find(run_id)
        graph = await self.graph_of(row.graph_hash)
        return await self._models().of(self.store.log, row.run, lambda: RunPath(graph))

    def _models(self) -> ReadModels:
        from holdfast.engine.runs.read_models import ReadModels  # noqa: PLC0415 - as above

        if self._read_models is None:
            self._read_models = ReadModels()
        return self._read_models

    async def workers_of(self, workflow: Workflow | StoredWorkflow) -> int:
        """Return the number of living processes that can run exactly this workflow. For one in YAML, those count that take any.

        Args:
            workflow: The workflow.
        """
        return await self.store.sessions.able([workflow.hash, *[ANY_YAML] * workflow.graph.has_scripts])

    async def reports(self) -> Sequence[Report]:
        """Return the reports of living processes that execute steps."""
        from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - as below

        return await diagnosis.living(self.store.sessions)

    async def runs(self, **filters: Unpack[RunFilter]) -> Sequence[RunRow]:
        """Return runs that match the criteria, newest first."""
        expect_criteria(filters, RunFilter)
        expect_known("status", _several(filters.get("status")), get_args(Status))
        expect_known("wait", _several(filters.get("waiting_for")), get_args(WaitKind))
        return await self.store.views.runs(**filters)

    async def labels_of(self, rows: Sequence[RunRow]) -> Mapping[RunId, Sequence[Pair]]:
        """Return the labels of runs that have any. A tag is a label with an empty key.

        Args:
            rows: Rows of the runs.
        """
        return await self.store.views.labels([row.run for row in rows]) if rows else {}

    async def tree(self, run_id: str) -> Tree:
        """Return a run with all runs below it, and what they have cost.

        Raises:
            NotFound: The run does not exist.
        """
        from holdfast.service.control.tree import tree_of  # noqa: PLC0415 - who lists runs needs none

        return await tree_of(self.store, run_named(run_id))

    async def scores(self, run_id: str, *, every: bool = False) -> Sequence[Score]:
        """Return the scores of a run: the latest of each name and author, by name.

        Args:
            every: True to return every score, in the order in which they were given.
        """
        from holdfast.core.nouns.scores import counting  # noqa: PLC0415 - who lists runs needs none

        given = await self.store.scores.of_run(run_named(run_id))
        return given if every else counting(given)

    async def score_means(self, **filters: Unpack[ScoreFilter]) -> Sequence[ScoreMean]:
        """Return the mean scores of runs by version of their workflow: count, mean and time of the newest. It reads all scores;
        300,000 take a second."""
        expect_criteria(filters, ScoreFilter)
        return await self.store.scores.means(**filters)

    async def job_logs(self, run: RunId) -> Sequence[LogPiece]:
        """Return the pieces of the kept output of a run's jobs.

        Args:
            run: Id of the run.
        """
        return await self.store.job_logs.pieces(run)

    async def job_log(self, place: LogPlace) -> bytes:
        """Return one piece of a job's output, in UTF-8.

        Args:
            place: Place of the piece, as `job_logs` returns it.
        """
        return await self.store.job_logs.read(place)

    async def gates(
        self, run_id: str | None = None, **filters: Unpack[GateFilter]
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        """Return gates, each with its latest change.

        Args:
            run_id: Only gates of this run; by default of all.
            below: True to return the gates of its child runs too.
            open_only: False to return decided, expired and withdrawn gates too.
            order: `opened`: oldest first, as by default. `due`: by deadline. `closed`: only those that are no longer open,
                closed last first.
            after: Id of the last gate of the page before.
            risk_levels: Only gates with one of these risk levels.
        """
        expect_criteria(filters, GateFilter)
        if (after := filters.get("after")) is not None:
            filters["after"] = gate_named(after)
        return await self.store.views.gates(run=None if not run_id else run_named(run_id), **filters)

    async def effects(
        self, run_id: str | None = None, **filters: Unpack[EffectFilter]
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        """Return tool calls, oldest first, each with its latest change.

        Args:
            run_id: Only calls of this run; by default of all.
            state: Only calls in this state: intended, completed, failed, released, in_doubt, repeated or orphaned.
            after: Id of the last call of the page before.
        """
        expect_criteria(filters, EffectFilter)
        if (after := filters.get("after")) is not None:
            filters["after"] = call_named(after)
        return await self.store.views.effects(run=None if not run_id else run_named(run_id), **filters)

    async def dead_letters(self, *, state: LetterState | None = "open", **criteria: Unpack[LetterCriteria]) -> Sequence[Letter]:
        """Return dead letters that match the criteria: steps that have failed for good. Those of the oldest run come first.

        Args:
            run_id: Only dead letters of this run; by default of all.
            state: `open`, `resolved`, or None for both.
            after: Last dead letter of the page before, `RUN:STEP`.
        """
        expect_criteria(criteria, LetterCriteria)
        run_id, after = criteria.get("run_id"), criteria.get("after")
        run, _, step = (after or "").partition(":")
        rest: Any = {name: value for name, value in criteria.items() if name not in ("run_id", "after")}
        return await self.store.dead_letters.letters(
            run=None if run_id is None else run_named(run_id),
            state=state,
            after=None if after is None else (RunId(run), StepId(step)),
            **rest,
        )

    async def dead_letter_counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        """Return the numbers of dead letters by workflow, node and error class. Those with the oldest open one come first."""
        return await self.store.dead_letters.counts(tenant)

    async def stuck_runs(self) -> tuple[Sequence[StuckRun], int]:
        """Find runs that wait for nothing, which only a fault in Holdfast can cause. Return them, and how many histories were
        read."""
        from holdfast.engine.background import stuck  # noqa: PLC0415 - as above

        return await stuck.check(self.store)

    async def why(self, run_id: str, step: str | None = None) -> Sequence[WaitReason]:
        """Return what the steps of a run wait for before they can start.

        Args:
            step: Only this step, like `draft#1`.

        Raises:
            NotFound: The run does not exist.
        """
        from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - the same
        from holdfast.engine.capacity.forecast import Forecaster  # noqa: PLC0415 - the same

        row = await self.find(run_id)
        store, one = self.store, None if step is None else StepId(step)
        now_ms = store.clock.now_ms()
        waits = await diagnosis.waits_of(store.views, store.lending, store.sessions, now_ms, row.run, one)
        forecaster = Forecaster(store, now_ms)
        return [each._replace(starts=await forecaster.of(each)) for each in waits]

    async def waiting(self, scopes: Sequence[str]) -> Sequence[ScopeWaiter]:
        """Return the runs that wait for room in scopes, longest first.

        Args:
            scopes: Names of the scopes.
        """
        return await self.store.scopes.waiting(scopes, MAX_LISTED)

    async def costs(self, first_day: str, last_day: str, **filters: Unpack[CostFilter]) -> Sequence[Cost]:
        """Return the cost of model calls by day, as of the last roll-up.

        Args:
            after: Key of the last row of the page before.
            limit: Maximum number of rows; by default all.
        """
        expect_criteria(filters, CostFilter)
        return await self.store.costs.rollup(first_day, last_day, **filters)


def _several(values: str | Sequence[str] | None) -> Sequence[str]:
    return () if values is None else (values,) if isinstance(values, str) else values


def no_run(run_id: str) -> NotFound:
    """Return the refusal for a run that is not there, or is hidden from the caller."""
    return NotFound(f"There is no run {run_id} in this store; `holdfast runs list` shows those that are.")


def no_call(call: str) -> NotFound:
    """Return the refusal for a call that is not there, or is hidden from the caller."""
    return NotFound(f"There is no call {call:.300} in this store.")


def expect_known(noun: str, words: Iterable[str], names: Sequence[str]) -> None:
    """Raise InvalidInput for a word that is none of `names`."""
    if (wrong := next((each for each in words if each not in names), None)) is not None:
        raise InvalidInput(f"There is no {noun} {wrong!r:.80}; there are {', '.join(names)}.")


def expect_criteria(arguments: Mapping[str, Any], criteria: type) -> None:
    """Raise TypeError for a keyword that is no criterion: ignored, it would select more than was meant."""
    if unknown := sorted(arguments.keys() - criteria.__annotations__.keys()):
        raise TypeError(
            f"There is no criterion {unknown[0]!r}; there are {', '.join(criteria.__annotations__)}. Nothing was done."
        )
