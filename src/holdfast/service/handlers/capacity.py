"""Handlers of what a fleet has room for: pools, active runs, workers, and the queue."""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.values.demand import Demand
from holdfast.service import view
from holdfast.service.control import process
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.view import AdmissionRow, PoolRow, PoolWhole, QueueReasonRow, QueueRow, WorkerCountRow, WorkerRow


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
async def set_pool(request: Request, command: cmd.SetPool) -> None:
    await request.engine.set_pool(**msgspec.structs.asdict(command))


@handles
async def remove_pool(request: Request, command: cmd.RemovePool) -> None:
    await request.engine.remove_pool(command.name)


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
    control, tenant = request.engine, request.whose
    if query.run is not None:
        return Rows([view.of_wait(each) for each in await control.why(query.run, query.step)], None)
    line = await process.waiting_steps(control.store)
    placed = sum(each.demand != Demand() for each in line)
    ahead = [*range(placed), *range(len(line) - placed)]  # those that wait for a slot come last
    return Rows([view.of_placed(each, n) for each, n in zip(line, ahead, strict=True) if tenant in (None, each.tenant)], None)
