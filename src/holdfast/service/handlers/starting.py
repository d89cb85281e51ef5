"""Handlers that begin a run: of a workflow, of a workflow file, or with the history of another run; and which workflows
there are."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.core.values.ids import RunId
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.service import view
from holdfast.service.control import process
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles, optional_value
from holdfast.service.listing import key_of, keyed_page
from holdfast.service.view import WorkflowRow, WorkflowWhole

_BY_VERSION: Final = msgspec.json.Decoder(tuple[str, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]])


@handles
async def start(request: Request, command: cmd.Start) -> RunId:
    startable = request.startable
    if not command.yaml:
        meant = await startable.named(request.who, command.workflow, command.version, request.tenant)
        return await _begin(request, meant, command)
    workflow = await startable.read(request.who, command.yaml)
    async with request.engine.executor.borrow(workflow):
        return await _begin(request, await startable.submit(workflow, request.tenant), command)


async def _begin(request: Request, workflow: Workflow | StoredWorkflow, command: cmd.Start) -> RunId:
    options = msgspec.structs.asdict(command) | {"tenant": request.tenant}
    for name in ("workflow", "version", "yaml"):
        del options[name]
    run = await request.engine.start(workflow, options.pop("input"), **options, by=request.by)
    return RunId(run.id)


@handles
async def fork(request: Request, command: cmd.Fork) -> RunId:
    options = msgspec.structs.asdict(command)
    options |= {"input": optional_value(command.input), "output": optional_value(command.output)}
    run = await request.engine.fork(options.pop("run"), options.pop("step"), **options, by=request.by)
    return RunId(run.id)


@handles
async def migrate(request: Request, command: cmd.Migrate) -> RunId:
    row = await request.engine.find(command.run)
    meant = await request.startable.named(request.who, row.workflow, command.version, row.tenant)
    await request.engine.migrate(command.run, meant, by=request.by)
    return RunId(command.run)


@handles
async def workflows(request: Request, query: ask.Workflows) -> Rows[WorkflowRow]:
    control = request.control
    after = key_of(query.cursor, _BY_VERSION)
    found = await control.workflows(tenant=request.tenant, after=after, limit=query.limit + 1)
    rows = [view.of_workflow(each, await process.capable(control.store, each.graph_hash)) for each in found[: query.limit]]
    return keyed_page(rows, [(each.name, each.version) for each in found], query.limit)


@handles
async def workflow(request: Request, query: ask.Workflow) -> WorkflowWhole:
    stored = await request.control.workflow(query.name, query.version, tenant=request.tenant)
    return view.of_workflow_whole(stored, await process.capable(request.control.store, stored.hash))
