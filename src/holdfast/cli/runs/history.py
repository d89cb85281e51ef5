"""`holdfast runs events`: the history of a run, one event a line.

Never here: what an event means (telling).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend, typed
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.exit_code import INTERRUPTED
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend
    from holdfast.cli.page.event_format import EventFormatter

ITEMS: Final = (Column("item", 12), Column("status"), Column("attempts", goes=1), Column("ended", goes=2), Column("detail", 12))

_ROOM_FOR_CLOCK: Final = 110
"""Cells of a line in which the time of an event stands besides its age."""
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
    from holdfast.core.values.content import labelled

    async with backend(store, resolve_actor(None)) as service:
        named = await reference.run_id(service, run)
        rows, cursor = await service.query(query.Items(run=named, map=map_, cursor=str(after), limit=limit))
    if as_json:
        terminal.emit({"items": rows, "after": None if cursor is None else int(cursor)})
        return
    if not rows:
        terminal.say(f"No item of {map_!r} has ended{' after that' if after else ''}; `runs show` names the maps of a run.")
        return
    told = [
        each["error"]["message"]
        if each["error"]
        else each["reason"] or json.dumps(labelled(each["output"]), ensure_ascii=False)
        for each in rows
    ]
    table.show(
        ITEMS,
        [
            (each["item"], each["status"], str(each["attempts"]), each["ended_at"], what)
            for each, what in zip(rows, told, strict=True)
        ],
    )
    if cursor is not None:
        more = typed("runs", "items", named, map_, "--after", cursor, store=store)
        terminal.say(f"There may be more: {more}")


async def _show(text: str, after: int, follow: bool, as_json: bool, store: str | None, interruption: Interruption) -> None:
    from holdfast.cli.page.event_format import EventFormatter

    task, words = asyncio.current_task(), EventFormatter()
    assert task is not None
    interruption.stops(task)
    async with backend(store, resolve_actor(None)) as service:
        run = await reference.run(service, text)
        async with aclosing(_events(service, run["run_id"], after, follow)) as telling:
            async for page in telling:
                for event in page:
                    _print(event, words, moment.ms(run["started_at"]), as_json=as_json)
                terminal.hand_over()
                if follow and terminal.is_unread():
                    break
    interruption.over()


async def _events(service: Backend, run: str, after: int, follow: bool) -> AsyncGenerator[list[View], None]:
    """The events that there are, page by page; with `follow` those to come as well."""
    cursor: str | None = str(after)
    while cursor is not None:
        page = await service.query(query.Events(run=run, cursor=cursor, limit=_PAGE))
        yield page.rows
        after, cursor = page.rows[-1]["seq"] if page.rows else after, page.cursor
    if follow:
        async with aclosing(service.watch(run, after)) as watching:
            async for event in watching:
                yield [event]


def _print(event: View, words: EventFormatter, began_ms: int, *, as_json: bool) -> None:
    if as_json:
        terminal.emit_line(event)
        return
    at_ms, room = moment.ms(event["at"]), terminal.width()
    place = f"{event['seq']:>5}  +{moment.span(at_ms - began_ms):<7}"
    if room is None or room >= _ROOM_FOR_CLOCK:
        place = f"{place}  {moment.clock(at_ms)}"
    for number, line in enumerate(table.wrapped(terminal.line(words.sentence_of_row(event)), room and room - len(place) - 2)):
        terminal.show(f"{place if not number else ' ' * len(place)}  {line}")
