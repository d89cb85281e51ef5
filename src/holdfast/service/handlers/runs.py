"""Handlers of runs: how they stand, and what is done to one or to many. Never here: starting one (starting)."""

from __future__ import annotations

from asyncio import timeout
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, cast

import msgspec

from holdfast.core.facts.graph import FLOW
from holdfast.core.facts.streams import StreamEvent
from holdfast.core.nouns.labels import BEFORE_ALL_COUNTS
from holdfast.core.rules.forking import Fork as Plan
from holdfast.core.values.ids import RunId, node_of
from holdfast.errors import InvalidInput, NotFound
from holdfast.service import listing, view
from holdfast.service.control import process
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import key_of, keyed_page, seq_of, seq_page, since_of
from holdfast.service.preview import preview
from holdfast.service.subscription import AGAIN_S
from holdfast.service.view import (
    AttemptRow,
    ComparisonRow,
    DrawingRow,
    EvaluationRow,
    EvaluationVersionRow,
    EvaluationWhole,
    EventRow,
    ExplanationRow,
    ItemRow,
    LabelRow,
    LogRow,
    ModelCallRow,
    NodeCostRow,
    OperationRow,
    OutcomeRow,
    RecordRow,
    RunBudgetRow,
    RunQuoteRow,
    RunRow,
    RunWhole,
    ScoreMeanRow,
    ScoreRow,
    SpanRow,
    StepRow,
    StreamRow,
    TailRow,
    TraceRow,
    TreeRow,
)

_BY_LABEL: Final = msgspec.json.Decoder(tuple[str, str, str, str])
MAX_WAIT_S: Final = 30.0
"""For what comes of a stream: connections that say nothing for longer are cut by many that stand between."""

# --- One run ----------------------------------------------------------------------------------------------------------


@handles
async def run(request: Request, query: ask.Run) -> RunWhole:
    return await view.of_run_whole(request.control, await request.control.run(query.run).state())


@handles
async def explanation(request: Request, query: ask.Explanation) -> ExplanationRow:
    from holdfast.service.explanation import explain  # noqa: PLC0415 - few callers ask for it

    return await explain(request.control, query.run, names_workers=request.who.tenant is None)


@handles
async def steps(request: Request, query: ask.Steps) -> Rows[StepRow]:
    state = await request.control.run(query.run).state()
    sessions = {step.worker for step in state.steps.values() if step.worker is not None}
    workers = await process.names(request.control.store, sessions)
    return Rows([view.of_step(step, workers) for step in state.steps.values()], None)


@handles
async def operations(request: Request, query: ask.Operations) -> Rows[OperationRow]:
    """It is read again for each page: an operation that began long ago may have ended since the last."""
    found = await request.control.operations(query.run, after=seq_of(query.cursor), limit=query.limit + 1)
    rows, cursor = seq_page(found, query.limit)
    return Rows([view.of_operation(each) for each in rows], cursor)


@handles
async def attempts(request: Request, query: ask.Attempts) -> Rows[AttemptRow]:
    """It is read again for each page, as operations are."""
    found = await request.control.attempts(query.run, after=seq_of(query.cursor), limit=query.limit + 1)
    rows, cursor = seq_page(found, query.limit)
    workers = await process.names(request.control.store, {each.session for each in rows})
    return Rows([view.of_attempt(each, workers) for each in rows], cursor)


@handles
async def model_calls(request: Request, query: ask.ModelCalls) -> Rows[ModelCallRow]:
    """It is read again for each page, as operations are. Only what the page shows is fetched from where large payloads are."""
    control = request.control
    tenant = (await control.find(query.run)).tenant
    found, cursor = seq_page(
        await control.model_calls(query.run, after=seq_of(query.cursor), limit=query.limit + 1), query.limit
    )
    rows = []
    for each in found:
        kept = (each.request, each.reply)
        asked, reply = [None if part is None else await control.payloads.value(part, tenant) for part in kept]
        rows.append(view.of_model_call(each, asked, reply))
    return Rows(rows, cursor)


@handles
async def run_costs(request: Request, query: ask.RunCosts) -> Rows[NodeCostRow]:
    return Rows(view.of_node_costs(await request.control.run(query.run).state()), None)


@handles
async def run_budget(request: Request, query: ask.RunBudget) -> RunBudgetRow:
    return view.of_budget(await request.control.run(query.run).state())


@handles
async def drawing(request: Request, query: ask.Drawing) -> DrawingRow:
    state = await request.control.run(query.run).state()
    graph = await request.control.graph_of(state.graph_hash)
    if FLOW not in graph.nodes:
        return view.of_drawing(graph, state)
    found = await request.control.operations(query.run)
    return view.of_drawing(graph, state, [row for row in found if row.path is not None and node_of(row.step) == FLOW])


@handles
async def trace(request: Request, query: ask.Trace) -> Rows[TraceRow]:
    found = await request.control.trace(query.run, after=seq_of(query.cursor), limit=query.limit + 1)
    rows, cursor = seq_page(found, query.limit)
    return Rows([view.of_trace(each) for each in rows], cursor)


@handles
async def spans(request: Request, query: ask.Spans) -> Rows[SpanRow]:
    run = await request.control.find(query.run)
    found = await request.control.spans(run.run, after=seq_of(query.cursor), limit=query.limit + 1)
    rows, cursor = seq_page(found, query.limit)
    return Rows([view.of_span(each, run) for each in rows], cursor)


@handles
async def logs(request: Request, query: ask.Logs) -> Rows[LogRow]:
    return await listing.logs(request.control, query)


@handles
async def events(request: Request, query: ask.Events) -> Rows[EventRow]:
    return await listing.events(request.control, query)


@handles
async def event(request: Request, query: ask.Event) -> EventRow:
    tenant = (await request.control.find(query.run)).tenant
    found = await request.control.store.log.events(RunId(query.run), max(0, query.seq - 1), 1)
    if not found or found[0].seq != query.seq:
        raise NotFound(f"The run {query.run} has no event {query.seq}.")
    return await view.of_whole_event(request.control, found[0], tenant)


@handles
async def tree(request: Request, query: ask.Tree) -> TreeRow:
    return view.of_tree(await request.control.tree(query.run))


@handles
async def items(request: Request, query: ask.Items) -> Rows[ItemRow]:
    row = await request.control.find(query.run)
    found = await request.control.run(query.run).items(query.map, seq_of(query.cursor), query.limit)
    rows = [await view.of_item(request.control, each, row.tenant) for each in found.ends]
    return Rows(rows, None if found.after is None else str(found.after))


@handles
async def streams(request: Request, query: ask.Streams) -> Rows[StreamRow]:
    if not 0 <= query.wait_s <= MAX_WAIT_S:
        raise InvalidInput(f"wait_s is {query.wait_s:g}; a page is waited for 0 to {MAX_WAIT_S:g} seconds.")
    ended = (await request.control.find(query.run)).ended_at_ms is not None  # asked first: what comes after it is sent
    since = since_of(query.cursor)
    told = await _read_events(request, query, since, follow=False)
    if not told and query.wait_s and not ended:
        told = await _read_events(request, query, since, follow=True)
    cursor = told[-1].cursor if told else str(since)
    return Rows([view.of_told(each) for each in told], None if ended and len(told) < query.limit else cursor)


async def _read_events(request: Request, query: ask.Streams, since: str | int, *, follow: bool) -> list[StreamEvent]:
    """Return what there is; with `follow` the first that comes. It is waited for no longer than a caller is trusted without
    a look whether the key still holds."""
    told: list[StreamEvent] = []
    telling = request.control.watch_stream(query.run, query.name, since=since, follow=follow)
    with suppress(TimeoutError):
        async with timeout(min(query.wait_s, AGAIN_S) if follow else None), aclosing(telling):
            async for each in telling:
                told.append(each)
                if follow or len(told) == query.limit:
                    break
    return told


@handles
async def comparison(request: Request, query: ask.Comparison) -> ComparisonRow:
    from holdfast.core.views.comparison import beside, compare  # noqa: PLC0415 - few callers compare runs

    control, both = request.control, (query.run, query.other)
    rows = [await control.find(each) for each in both]
    first, second = [await control.trajectory(each) for each in both]
    operations = [await control.operations(each) for each in both]
    costs = [row.settled_nanousd for row in rows]
    return view.of_comparison(compare(first, second), [row.status for row in rows], costs, beside(*operations))


@handles
async def run_quote(request: Request, query: ask.RunQuote) -> RunQuoteRow:
    return await preview(request.control, query, request.by)


@handles
async def run_labels(request: Request, query: ask.RunLabels) -> Rows[LabelRow]:
    after = key_of(query.cursor, _BY_LABEL) or BEFORE_ALL_COUNTS
    found = await request.control.store.views.label_counts(
        key=query.key, tenant=request.whose, workflow=query.workflow, after=after, limit=query.limit + 1
    )
    return keyed_page([cast("LabelRow", each._asdict()) for each in found], [each[:4] for each in found], query.limit)


@handles
async def export_run(request: Request, command: cmd.ExportRun) -> RecordRow:
    return {"run_id": command.run, "record": msgspec.Raw(await request.records.record(request.control, command))}


# --- Many runs --------------------------------------------------------------------------------------------------------


@handles
async def runs(request: Request, query: ask.Runs) -> Rows[RunRow]:
    return await listing.runs(request.control, query, request.whose)


@handles
async def tail(request: Request, query: ask.Tail) -> Rows[TailRow]:
    seen = partial(request.permission.reached, request.who, query)
    return await listing.tail(request.control, query, request.whose, seen)


@handles
async def bulk(request: Request, command: cmd.Bulk) -> Rows[OutcomeRow]:
    listing.expect_statuses(command.status)
    if command.cursor is not None:  # where another's run stands among one's own would tell when that began
        await request.permission.expect(request.who, ask.Run(command.cursor))
    found = await request.control.bulk(
        command.action,
        step=command.step,
        fork_key=command.fork_key,
        reason=command.reason,
        repeat_effects=command.repeat_effects,
        dry_run=command.dry_run,
        by=request.by,
        **listing.build_filter(command, request.whose, command.limit),
    )
    rows = [view.of_outcome(each) for each in found]
    if command.dry_run:
        rows = [await _quoted(request, row, command, each.plan) for row, each in zip(rows, found, strict=True)]
    return Rows(rows, found[-1].run if len(found) == command.limit else None)


async def _quoted(request: Request, row: OutcomeRow, command: cmd.Bulk, plan: Plan | None) -> OutcomeRow:
    """Return the row of a dry run with the quote of the command; a fork that is refused or was made before has none."""
    fields = {}
    if command.action == "fork":
        if plan is None:
            return row
        fields = {"step": command.step, "repeat_effects": command.repeat_effects}
    asked = ask.RunQuote(run=row["run_id"], action=command.action, fields=fields)
    quote = await preview(request.control, asked, request.by, plan)
    return {**row, "refused": quote["refused"], "quote": quote}


# --- What runs were worth ---------------------------------------------------------------------------------------------


@handles
async def scores(request: Request, query: ask.Scores) -> Rows[ScoreRow]:
    return Rows([view.of_score(each) for each in await request.control.scores(query.run, every=query.all)], None)


@handles
async def score_means(request: Request, query: ask.ScoreMeans) -> Rows[ScoreMeanRow]:
    found = await request.control.score_means(
        tenant=request.whose, name=query.name, workflow=query.workflow, since_ms=query.since_ms, limit=query.limit
    )
    return Rows([view.of_mean(each) for each in found], None)


@handles
async def evaluations(request: Request, query: ask.Evaluations) -> Rows[EvaluationRow]:
    found = await request.control.evaluations(
        tenant=request.whose, workflow=query.workflow, before=query.cursor, limit=query.limit + 1
    )
    return listing.page([view.of_evaluation(each) for each in found], query.limit, "evaluation_id")


@handles
async def evaluation_versions(request: Request, query: ask.EvaluationVersions) -> Rows[EvaluationVersionRow]:
    found = await request.control.evaluation_versions(
        tenant=request.whose, workflow=query.workflow, suite=query.suite, limit=query.limit
    )
    return Rows([view.of_version_result(each) for each in found], None)


@handles
async def evaluation(request: Request, query: ask.Evaluation) -> EvaluationWhole:
    found, results = await request.control.evaluation(query.evaluation)
    return view.of_evaluation(found, results)
