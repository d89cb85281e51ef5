"""Handlers of what a fleet has room for: pools, active runs, workers, and the queue."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.service import view
from holdfast.service.control import process
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import key_of, seq_of
from holdfast.service.view import (
    AdmissionRow,
    PoolRow,
    PoolWhole,
    QueueCountRow,
    QueueReasonRow,
    QueueRow,
    WorkerCountRow,
    WorkerRow,
)

if TYPE_CHECKING:
    from holdfast.engine.capacity.diagnosis import StepInLine


@handles
async def pools(request: Request, query: ask.Pools) -> Rows[PoolRow]:
    control = request.control
    return Rows([view.of_pool(pool, await control.pool_shares(pool.name)) for pool in await control.pools()], None)


@handles
async def pool(request: Request, query: ask.Pool) -> PoolWhole:
    row = await view.of_pool_in_use(request.control, query.name)
    if request.who.tenant is None:
        return row
    return view.of_pool_for_one(row, request.who.tenant, partial(request.permission.is_startable, request.who))


@handles
async def admission(request: Request, query: ask.Admission) -> AdmissionRow:
    return await view.of_admission(request.control, request.whose)


@handles
async def set_admission(request: Request, command: cmd.SetAdmission) -> None:
    await request.engine.set_admission(command.runs, tenant=command.tenant)


@handles
async def workers(request: Request, query: ask.Workers) -> Rows[WorkerRow | WorkerCountRow]:
    reports = await request.control.reports()
    if request.whose is not None:
        return Rows([view.of_workers(reports)], None)
    lost = await process.lost_reports(request.control.store)
    names = await process.names(request.control.store, {each.worker for each in (*reports, *(report for report, _ in lost))})
    rows = [view.of_worker(each, names.get(each.worker)) for each in reports]
    return Rows([*rows, *(view.of_worker(each, names.get(each.worker), at_ms) for each, at_ms in lost)], None)


@handles
async def queue(request: Request, query: ask.Queue) -> Rows[QueueRow | QueueReasonRow]:
    """List the waiting steps of all tenants: the reason why a step waits is in those before it. The row of its run is one's
    own."""
    if query.run is not None:
        after = seq_of(query.cursor)
        waits = await request.engine.why(query.run, query.step)
        more = str(after + query.limit) if len(waits) > after + query.limit else None
        return Rows([view.of_wait(each) for each in waits[after : after + query.limit]], more)
    rows: list[QueueRow | QueueReasonRow] = []
    last = None
    async with aclosing(_line(request, query.cursor)) as line:
        async for each in line:
            if query.demands is not None and view.demanded(each.step.demand) != query.demands:
                continue
            if len(rows) == query.limit:
                return Rows(rows, msgspec.json.encode(last).decode())
            rows.append(view.of_placed(each))
            last = each.after
    return Rows(rows, None)


@handles
async def queue_summary(request: Request, query: ask.QueueSummary) -> Rows[QueueCountRow]:
    counts: dict[str, int] = {}
    async with aclosing(_line(request, None)) as line:
        async for each in line:
            if request.who.access.reaches(each.step.workflow):
                demands = view.demanded(each.step.demand)
                counts[demands] = counts.get(demands, 0) + 1
    largest = sorted(counts.items(), key=lambda kind: (-kind[1], kind[0]))
    after = seq_of(query.cursor)
    more = str(after + query.limit) if len(largest) > after + query.limit else None
    return Rows([{"demands": each, "steps": steps} for each, steps in largest[after : after + query.limit]], more)


async def _line(request: Request, cursor: str | None) -> AsyncGenerator[StepInLine]:
    """The steps in line that a caller may know of, from a cursor on."""
    from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - it places steps as an engine would, with all that takes

    store, tenant = request.control.store, request.whose
    place = key_of(cursor, msgspec.json.Decoder(diagnosis.LinePlace))
    async for each in diagnosis.line(store.views, store.clock.now_ms(), place):
        if tenant in (None, each.step.tenant):
            yield each
