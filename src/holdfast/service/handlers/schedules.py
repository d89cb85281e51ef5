"""Handlers of schedules, and of supervisors."""

from __future__ import annotations

import msgspec

from holdfast.service import view
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import OF_TENANTS, key_of, keyed_page
from holdfast.service.view import BackfilledRow, ScheduleRow, SupervisorRow, SupervisorWhole


@handles
async def schedules(request: Request, query: ask.Schedules) -> Rows[ScheduleRow]:
    after = key_of(query.cursor, OF_TENANTS)
    found = await request.control.schedules(request.whose, after=after, limit=query.limit + 1)
    rows = [await view.of_schedule(request.control, each) for each in found[: query.limit]]
    return keyed_page(rows, [(each.tenant, each.name) for each in found], query.limit)


@handles
async def schedule(request: Request, query: ask.Schedule) -> ScheduleRow:
    found = request.read.get("name") or await request.control.schedule(query.name, tenant=request.tenant)
    return await view.of_schedule(request.control, found)


@handles
async def set_schedule(request: Request, command: cmd.SetSchedule) -> None:
    workflow = await request.startable.named(request.who, command.workflow, command.version or 0, request.tenant)
    # By its name, so that a later version is taken up.
    options = msgspec.structs.asdict(command) | {"tenant": request.tenant, "workflow": workflow.name}
    await request.engine.set_schedule(**options, by=request.by)


@handles
async def backfill(request: Request, command: cmd.Backfill) -> Rows[BackfilledRow]:
    until_ms = request.engine.now_ms() if command.until_ms is None else command.until_ms
    found = await request.engine.backfill_schedule(
        command.name, command.since_ms, until_ms, tenant=request.tenant, by=request.by
    )
    return Rows([view.of_backfilled(each) for each in found], None)


# --- Supervisors ------------------------------------------------------------------------------------------------------


@handles
async def supervisors(request: Request, query: ask.Supervisors) -> Rows[SupervisorRow]:
    after = key_of(query.cursor, OF_TENANTS)
    found = await request.control.supervisors(request.whose, after=after, limit=query.limit + 1)
    rows = [view.of_supervisor(each) for each in found]
    return keyed_page(rows, [(each.tenant, each.name) for each in found], query.limit)


@handles
async def supervisor(request: Request, query: ask.Supervisor) -> SupervisorWhole:
    found = await request.control.supervisor(query.name, tenant=request.tenant).declaration()
    return view.of_dashboard(found, request.control.now_ms())
