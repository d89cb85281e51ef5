"""`holdfast runs list`: a line for each run, once or again whenever it changes.

Never here: which runs (filter).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from holdfast.cli import connect, reference
from holdfast.cli.connect import typed
from holdfast.cli.page import moment, table, terminal, waiting
from holdfast.cli.page.exit_code import INTERRUPTED
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.cli.filter import ListOptions
    from holdfast.service.declarations.query import Runs, View

_LOOK_EVERY_S: Final = 1.0


def show(
    filters: ListOptions, named: Mapping[str, str | None], limit: int, *, follow: bool, as_json: bool, store: str | None
) -> None:
    """Print the runs that are asked for, newest first. `named` are the fields of the query that name a run."""
    if not follow:
        asyncio.run(_show(filters, named, limit, as_json, store))
        return
    with Interruption(lambda: "Interrupted.") as interruption:
        try:
            asyncio.run(_follow(filters, {**named, "cursor": None}, limit, as_json, store, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None


async def _show(filters: ListOptions, named: Mapping[str, str | None], limit: int, as_json: bool, store: str | None) -> None:
    async with connect.listing(store, resolve_actor(None)) as asking:
        now_ms = asking.now_ms()
        rows = await asking.rows(await _build_query(asking, filters, named), limit + 1)
    rows, more = rows[:limit], len(rows) > limit
    missing = [row for row in rows if row["workflow_missing_since"] is not None]
    if as_json:
        terminal.emit(rows)
    else:
        table.show_rows(_columns(now_ms), rows)
    if more:
        terminal.say(f"There are more: repeat with --before {rows[-1]['run_id']}")
    if missing and not as_json:
        names = ", ".join(dict.fromkeys(f"{row['workflow']} {row['version']}" for row in missing))
        terminal.say(
            f"No live process has the workflow of {len(missing)} of them ({names}):"
            f" {typed('runs', 'show', missing[0]['run_id'], store=store)}"
        )


async def _follow(
    filters: ListOptions,
    named: Mapping[str, str | None],
    limit: int,
    as_json: bool,
    store: str | None,
    interruption: Interruption,
) -> None:
    """Print each run when it is first seen and whenever it has changed, until it is interrupted or has no reader."""
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    seen: dict[str, View] = {}
    async with connect.listing(store, resolve_actor(None)) as asking:
        sought = await _build_query(asking, filters, named)
        while not terminal.is_unread():
            rows = [row for row in await asking.rows(sought, limit) if seen.get(row["run_id"]) != row]
            seen.update((row["run_id"], row) for row in rows)
            now_ms = asking.now_ms()
            for row in rows if as_json else ():
                terminal.emit_line(row)
            if rows and not as_json:
                table.show_rows(_columns(now_ms), rows)
            terminal.hand_over()
            await asking.changed(_LOOK_EVERY_S)
            await asyncio.sleep(_LOOK_EVERY_S / 5)  # what follows at once is sent together


async def _build_query(asking: QueryBackend, filters: ListOptions, named: Mapping[str, str | None]) -> Runs:
    """Return the query, with the whole ids of the runs that are named by their beginnings."""
    ids = {name: await reference.run_id(asking, run) for name, run in named.items() if run is not None}
    return msgspec.structs.replace(filters.query(asking.now_ms()), **ids)


def _status(row: View) -> str:
    """A run's status, and whether it is stuck."""
    from holdfast.core.views.status import NOTHING

    stuck = any(wait["kind"] == NOTHING for wait in row["waiting_for"])
    return f"{row['status']} for nothing" if stuck else str(row["status"])


def _waits(row: View) -> str | None:
    """Return what a run waits for, in a few words, each kind once."""
    return ", ".join(dict.fromkeys(waiting.short(each) for each in row["waiting_for"])) or None


def _columns(now_ms: int) -> Sequence[Column]:
    """Return the columns of a list at that time."""
    from holdfast.core.values.money import nanousd, usd

    return (
        Column("run", ID, of="run_id"),
        Column("workflow", 8, of=lambda row: f"{row['workflow']} {row['version']}"),
        Column("status", of=_status),
        Column("changed", of=lambda row: moment.ago(moment.ms(row["updated_at"]), now_ms)),
        Column("age", goes=4, of=lambda row: moment.ago(moment.ms(row["started_at"]), now_ms)),
        Column("cost", goes=3, of=lambda row: f"${usd(nanousd(row['cost_usd']) + nanousd(row['held_usd']))}"),
        Column("limit", goes=1, of=lambda row: None if row["limit_usd"] is None else f"${row['limit_usd']}"),
        Column("key", 8, goes=2, of=lambda row: row["key"] or None),
        Column("waits for", 8, goes=2, of=_waits),
    )
