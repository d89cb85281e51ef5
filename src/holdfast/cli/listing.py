"""`holdfast runs list`: a line for each run, once or again whenever it changes.

Never here: which runs (filter).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from holdfast.cli import moment, reference, table, terminal
from holdfast.cli.exit_code import INTERRUPTED
from holdfast.cli.interruption import Interruption
from holdfast.cli.opening import looking, typed
from holdfast.cli.table import ID, Column

if TYPE_CHECKING:
    from holdfast.cli.filter import Asked
    from holdfast.control.inquiry import Inquiries
    from holdfast.core.projection import RunRow
    from holdfast.ports import RunFilter

COLUMNS: Final = (
    Column("run", ID), Column("workflow", 8), Column("status"), Column("changed"), Column("age", goes=4),
    Column("cost", goes=3), Column("limit", goes=1), Column("key", 8, goes=2),
)  # fmt: skip
_LOOK_EVERY_S: Final = 1.0


def show(asked: Asked, before: str | None, limit: int, *, follow: bool, as_json: bool, store: str | None) -> None:
    """Print the runs that are asked for, newest first."""
    if not follow:
        asyncio.run(_show(asked, before, limit, as_json, store))
        return
    with Interruption(lambda: "Interrupted.") as interruption:
        try:
            asyncio.run(_follow(asked, limit, as_json, store, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None


async def _show(asked: Asked, before: str | None, limit: int, as_json: bool, store: str | None) -> None:
    from holdfast.service import view

    async with looking(store) as inquiries:
        now_ms = inquiries.now_ms()
        sought = (await _named(inquiries, asked)).of(now_ms, limit + 1)
        if before is not None:
            sought["before"] = (await reference.run(inquiries, before)).run
        rows = await inquiries.runs(**sought)
        rows, more = rows[:limit], len(rows) > limit
        missing = [row for row in rows if await inquiries.missing_since_ms(row) is not None]
    if as_json:
        terminal.emit([view.of_row(row) for row in rows])
    else:
        table.show(COLUMNS, [line(row, now_ms) for row in rows])
    if more:
        terminal.say(f"There are more: say the same with --before {rows[-1].run}")
    if missing and not as_json:
        names = ", ".join(dict.fromkeys(f"{row.workflow} {row.version}" for row in missing))
        terminal.say(
            f"No process that lives has the workflow of {len(missing)} of them that could go on ({names}):"
            f" {typed('runs', 'show', missing[0].run, store=store)}"
        )


async def _follow(asked: Asked, limit: int, as_json: bool, store: str | None, interruption: Interruption) -> None:
    """Print each run when it is first seen and whenever it has changed, until somebody interrupts or nobody reads."""
    from holdfast.service import view

    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    seen: dict[str, int] = {}
    async with looking(store) as inquiries:
        sought = (await _named(inquiries, asked)).of(inquiries.now_ms(), limit)
        while not terminal.is_unread():
            rows = await _changed(inquiries, sought, seen)
            now_ms = inquiries.now_ms()
            for row in rows if as_json else ():
                terminal.emit_line(view.of_row(row))
            if rows and not as_json:
                table.show(COLUMNS, [line(row, now_ms) for row in rows])
            terminal.hand_over()
            await inquiries.store.watch.changed(_LOOK_EVERY_S)
            await asyncio.sleep(_LOOK_EVERY_S / 5)  # what follows at once is told together


async def _named(inquiries: Inquiries, asked: Asked) -> Asked:
    """The same, with the whole id of the run that is named by its beginning."""
    return asked if asked.parent is None else asked._replace(parent=(await reference.run(inquiries, asked.parent)).run)


async def _changed(inquiries: Inquiries, sought: RunFilter, seen: dict[str, int]) -> Sequence[RunRow]:
    rows = [row for row in await inquiries.runs(**sought) if seen.get(row.run) != row.seq]
    seen.update((row.run, row.seq) for row in rows)
    return rows


def line(row: RunRow, now_ms: int) -> tuple[str, ...]:
    """A run in the columns of a list."""
    from holdfast.core.money import usd

    spent = row.settled_nanousd + row.held_nanousd + row.in_doubt_nanousd
    return (
        row.run, f"{row.workflow} {row.version}", row.status, moment.ago(row.updated_at_ms, now_ms),
        moment.ago(row.started_at_ms, now_ms), f"${usd(spent)}",
        f"${usd(row.limit_nanousd)}" if row.limit_nanousd is not None else "-", row.key or "-",
    )  # fmt: skip
