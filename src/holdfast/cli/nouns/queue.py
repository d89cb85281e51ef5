"""`holdfast queue`: which steps wait for a slot or a place, and why.

Never here: placing them, finding out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.noun import Noun
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.moment import ms, span
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.page.waiting import words
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

QUEUE: Final = Noun("queue")
app = QUEUE.app
QUEUE.list(
    query.Queue,
    Column("run", ID),
    Column("step", 12),
    Column("demands", 12),
    Column("workflow", 8, goes=2),
    Column("tenant", 8, goes=1),
    words={"run": "", "step": "", "demands": ""},
    every=True,
    about="List steps that wait for a slot, a worker or a pool, longest first.",
)


@app.command()
def why(
    job: Annotated[
        str, typer.Argument(metavar="RUN[/STEP]", help="Id of a run, or one of its steps as `queue list` names it.")
    ],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Explain what a step waits for: a slot, a pool or a label, its place in line, and the steps that hold it."""
    found, others = asyncio.run(_explain_waits(job, store))
    if as_json:
        terminal.emit(found)
    elif not found:
        for line in others or [f"No step of {job} waits. `holdfast runs show` shows what the run does."]:
            terminal.show(line)
    for each in () if as_json else found:
        terminal.show(each["words"])


async def _explain_waits(job: str, store: str | None) -> tuple[list[View], list[str]]:
    """Return why the steps wait for slots, places and pools; if none does, what else the run waits for, in lines."""
    from holdfast.cli import next_steps

    run, _, step = job.partition("/")
    async with backend(store, resolve_actor(None)) as service:
        run = await reference.run_id(service, run)
        now_ms = service.now_ms()
        found = await service.rows(query.Queue(run, step or None))
        held = await _held(service, {holder for each in found for holder in each["holders"]}, now_ms)
        row = await service.row(query.Run(run)) if not found else None
        mine = [each for each in row["waiting_for"] if step in ("", each.get("step"))] if row is not None else []
        others = await next_steps.of_run(service, {**row, "waiting_for": mine}, store) if row is not None else []
    return [{**each, "words": words(each, now_ms, held)} for each in found], others


async def _held(asking: QueryBackend, holders: set[str], now_ms: int) -> dict[str, str]:
    """Return which steps hold something, and since when: ` at ada:4711 for 5m`. Steps that are over are left out."""
    found = {}
    for holder in holders:
        run, _, name = holder.partition("/")
        for step in await asking.rows(query.Steps(run)):
            if step["step"] == name and step["worker"] is not None and step["began_at"] is not None:
                found[holder] = f" at {step['worker']} for {span(now_ms - ms(step['began_at']))}"
    return found


EXAMPLES: Final = {"list": "", "why": "019aa8b2"}
