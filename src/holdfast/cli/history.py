"""`holdfast runs events`: the history of a run, one event a line.

Never here: what an event means (telling).
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

import typer

from holdfast.cli import moment, reference, table, terminal
from holdfast.cli.exit_code import INTERRUPTED
from holdfast.cli.interruption import Interruption
from holdfast.cli.opening import asking
from holdfast.cli.table import Column

if TYPE_CHECKING:
    from holdfast.core.events import Recorded

ITEMS: Final = (
    Column("item", 12), Column("status"), Column("attempts", goes=1), Column("ended", goes=2), Column("detail", 12),
)  # fmt: skip
_PAGE: Final = 1000
"""Events in memory at once: a history may be long."""


def show(run: str, after: int, *, follow: bool, as_json: bool, store: str | None) -> None:
    """Print the events of a run after the event `after`; with `follow` those to come as well, until it has ended."""
    with Interruption(lambda: "Interrupted.") as interruption:
        try:
            asyncio.run(_show(run, after, follow, as_json, store, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None


def show_items(run: str, map_: str, after: int, limit: int, *, as_json: bool, store: str | None) -> None:
    """Print how items of a map have ended, those after the event `after`."""
    asyncio.run(_show_items(run, map_, after, limit, as_json, store))


async def _show_items(run: str, map_: str, after: int, limit: int, as_json: bool, store: str | None) -> None:
    from holdfast.core.content import labelled
    from holdfast.service import view

    async with asking(store) as engine:
        row = await reference.run(engine, run)
        found = await engine.run(row.run).items(map_, after, limit)
        rows = [await view.of_item(engine, each, row.tenant) for each in found.ends]
    if as_json:
        terminal.emit({"items": rows, "after": found.after})
        return
    if not rows:
        terminal.say(
            f"No item of {map_!r} has ended{' after that' if after else ''}; `runs show` names the maps of a run."
        )
        return
    told = [
        each["error"]["message"]
        if each["error"]
        else each["reason"] or json.dumps(labelled(each["output"]), ensure_ascii=False)
        for each in rows
    ]
    table.show(ITEMS, [
        (each["item"], each["status"], str(each["attempts"]), each["ended_at"], what)
        for each, what in zip(rows, told, strict=True)
    ])  # fmt: skip
    if found.after is not None:
        terminal.say(f"There may be more: say the same with --after {found.after}")


async def _show(
    given: str, after: int, follow: bool, as_json: bool, store: str | None, interruption: Interruption
) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with asking(store) as engine:
        row = await reference.run(engine, given)
        run = engine.run(row.run)
        while True:
            while page := await run.events(after, _PAGE):
                for recorded in page:
                    _print(recorded, row.started_at_ms, as_json=as_json)
                after = page[-1].seq
            terminal.hand_over()
            if not follow or terminal.is_unread():
                break
            state = await run.until(lambda state: state.seq > after or bool(state.ended))  # noqa: B023 - asked at once
            if state.ended and state.seq <= after:
                break
    interruption.over()


def _print(recorded: Recorded, began_ms: int, *, as_json: bool) -> None:
    from holdfast.cli.telling import gist
    from holdfast.service import view

    if as_json:
        terminal.emit_line(view.of_event(recorded))
        return
    name = type(recorded.event).__name__
    since = f"+{moment.span(recorded.at_ms - began_ms)}"
    line = f"{recorded.seq:>5}  {moment.clock(recorded.at_ms)}  {since:>8}  {name:<18}  {gist(recorded.event)}"
    terminal.show(table.cut(terminal.line(line), terminal.width()))
