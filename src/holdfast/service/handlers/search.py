"""The handler of a search: what an id that a person pastes is, or what has a text in its name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.projection import RunRow
from holdfast.errors import InvalidInput, NotFound
from holdfast.service.access.permission import Person, is_own
from holdfast.service.control.base import word
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.view import FoundKind, SearchRow

_ID: Final = re.compile(r"[0-9a-fA-F-]{4,36}\Z")
_MAX_NAMES: Final = 1000
"""Things of a kind that are looked at."""


@handles
async def search(request: Request, query: ask.Search) -> Rows[SearchRow]:
    text = word("text to search for", query.q.strip())
    if not text:
        raise InvalidInput("Give a text to search for, or an id.", field="q")
    rows = [row async for row in _by_id(request, text)]
    if not rows:
        rows = [row async for row in _by_prefix(request, text, query.limit)]
    if not rows:
        rows = [row async for row in _by_name(request, text, query.limit)]
    return Rows(rows[: query.limit], None)


async def _by_id(request: Request, text: str) -> AsyncIterator[SearchRow]:
    """Yield what a whole id names: `RUN`, `RUN/STEP`, `RUN/EVENT`, `RUN:STEP` (dead letter, or the step), or the id of a gate
    or a call."""
    found = re.match(r"[0-9a-fA-F-]{8,36}(?=[:/]|\Z)", text)
    run = None if found is None else await _run(request, found[0].lower())
    if run is None or found is None:
        return
    rest = text[found.end() :]
    if not rest:
        yield _row("run", run.run, run, run.workflow)
    elif rest[0] == "/":
        async for row in _in_run(request, run, rest[1:]):
            yield row
    else:
        async for row in _of_colons(request, run, f"{run.run}{rest}", rest[1:]):
            yield row


async def _run(request: Request, run: str) -> RunRow | None:
    """Return the row of a run of the tenant that is meant."""
    try:
        row = await request.control.find(run)
    except NotFound:
        return None
    return row if request.whose in (None, row.tenant) else None


async def _in_run(request: Request, run: RunRow, rest: str) -> AsyncIterator[SearchRow]:
    """Yield a step or an event of a run."""
    if rest.isdecimal() and len(rest) < 16:
        if events := await request.control.store.log.events(RunId(run.run), max(0, int(rest) - 1), 1):
            yield _row("event", f"{run.run}/{events[0].seq}", run, type(events[0].event).__name__)
    elif (step := (await request.control.run(run.run).state()).step(StepId(rest))) is not None:
        yield _row("step", f"{run.run}/{step.id}", run, step.id, step.status)


async def _of_colons(request: Request, run: RunRow, id_: str, rest: str) -> AsyncIterator[SearchRow]:
    """Yield the gate, the call, the dead letter or the step that an id with colons names."""
    gates = await request.control.gates(run.run, open_only=False, limit=_MAX_NAMES)
    if (gate := next((each for each in gates if each[0].gate == id_), None)) is not None:
        yield _row("gate", id_, run, gate[0].reason, gate[1].state if gate[1] is not None else "open")
        return
    calls = await request.control.effects(run.run, limit=_MAX_NAMES)
    if (call := next((each for each in calls if each[0].call == id_), None)) is not None:
        yield _row("effect", id_, run, call[0].tool)
        return
    letters = await request.control.dead_letters(run_id=run.run, state=None, limit=_MAX_NAMES)
    if (letter := next((each for each in letters if each.id == id_), None)) is not None:
        yield _row("dead_letter", id_, run, letter.letter.step, "open" if letter.resolved_at_ms is None else "resolved")
        return
    if any(each.call == id_ for each in await request.control.model_calls(run.run)):
        yield _row("model_call", id_, run, rest)
        return
    async for row in _in_run(request, run, rest):
        yield row


async def _by_prefix(request: Request, text: str, limit: int) -> AsyncIterator[SearchRow]:
    """Yield the runs whose ids begin so."""
    if _ID.match(text):
        for run in await request.control.runs(tenant=request.whose, prefix=text.lower(), limit=limit):
            yield _row("run", run.run, run, run.workflow)


async def _by_name(request: Request, text: str, limit: int) -> AsyncIterator[SearchRow]:
    """Yield what has the text in its name, and the runs that have it in theirs, their key, a label or who started them."""
    control, sought = request.control, text.casefold()
    for workflow in await control.workflows(tenant=request.tenant, limit=_MAX_NAMES):
        is_theirs = workflow.tenant is not None or request.permission.is_startable(request.who, workflow.name)
        if sought in workflow.name.casefold() and is_theirs:
            yield _named("workflow", workflow.name, workflow.tenant, workflow.name)
    for talk in await control.conversations(tenant=request.whose, limit=_MAX_NAMES):
        if sought in talk.id.casefold() and (not talk.is_private or is_own(request.who, Person(talk.by, talk.client))):
            yield _named("conversation", talk.id, talk.tenant, talk.workflow)
    for schedule in await control.schedules(request.whose, limit=_MAX_NAMES):
        if sought in schedule.name.casefold():
            yield _named("schedule", schedule.name, schedule.tenant, schedule.workflow)
    for run in await control.runs(tenant=request.whose, text=text, limit=limit):
        yield _row("run", run.run, run, run.workflow)


def _row(kind: FoundKind, id_: str, run: RunRow, title: str, status: str | None = None) -> SearchRow:
    found = run.status if status is None and kind == "run" else status
    return {
        "kind": kind,
        "id": id_,
        "run_id": run.run,
        "title": title,
        "status": found,
        "workflow": run.workflow,
        "tenant": run.tenant,
    }


def _named(kind: FoundKind, name: str, tenant: str | None, workflow: str) -> SearchRow:
    return {"kind": kind, "id": name, "run_id": None, "title": name, "status": None, "workflow": workflow, "tenant": tenant}
