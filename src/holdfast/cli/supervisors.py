"""`holdfast supervisors`: how much they have to do, and how their workers stand.

Never here: who takes a task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import page, table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store, Tenant
from holdfast.cli.table import Column
from holdfast.service import query

if TYPE_CHECKING:
    from holdfast.service.query import Page, View

app = typer.Typer(help="See how much supervisors have to do, and how their workers stand.", no_args_is_help=True)

COLUMNS: Final = (Column("supervisor", 12), Column("tenant", 8, goes=1), Column("load"), Column("waiting"))
WORKERS: Final = (
    Column("worker", 12),
    Column("state"),
    Column("at work"),
    Column("waiting", goes=2),
    Column("done"),
    Column("errors"),
    Column("average", goes=1),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The supervisor's name.")]


@app.command("list")
def list_(
    tenant: page.OfTenant = None,
    after: page.After = None,
    limit: page.Limit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the supervisors, with their load and how many tasks wait."""
    page.show(
        asyncio.run(_list(tenant, after, limit, store)),
        COLUMNS,
        _line,
        "supervisors",
        "list",
        tenant=tenant,
        as_json=as_json,
        store=store,
    )


@app.command()
def show(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Show a supervisor: its load, its queue, and how each of its workers stands."""
    found = asyncio.run(_show(name, tenant, store))
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet(
        [
            ("Supervisor", name),
            ("Tenant", found["tenant"]),
            ("Load", f"{found['system_load']:.0%}"),
            ("Waiting", f"{found['queue_size']} of {found['max_queue']}"),
        ]
    )
    table.show(WORKERS, [_line_of_worker(*each) for each in found["workers"].items()])


async def _list(tenant: str | None, after: str | None, limit: int, store: str | None) -> Page:
    async with backend(store, who(None)) as service:
        return await service.ask(query.Supervisors(tenant=tenant, cursor=after, limit=limit))


async def _show(name: str, tenant: str | None, store: str | None) -> View:
    async with backend(store, who(None)) as service:
        return await service.row(query.Supervisor(name, tenant))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return row["name"], row["tenant"], f"{row['system_load']:.0%}", f"{row['queue_size']} of {row['max_queue']}"


def _line_of_worker(name: str, worker: View) -> tuple[str, ...]:
    return (
        name,
        worker["state"],
        f"{worker['active']} of {worker['max_concurrent']}",
        str(worker["queued"]),
        str(worker["completed"]),
        str(worker["errors"]),
        f"{worker['avg_ms']:.0f} ms",
    )
