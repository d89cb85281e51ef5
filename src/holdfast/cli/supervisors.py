"""`holdfast supervisors`: how much they have to do, and how their workers stand.

Never here: who takes a task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, unquote

import typer

from holdfast.cli import page, table, terminal
from holdfast.cli.opening import asking
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import Column
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.supervision import Dashboard, Supervisor, WorkerView
    from holdfast.service.query import Page

app = typer.Typer(help="See how much supervisors have to do, and how their workers stand.", no_args_is_help=True)

COLUMNS: Final = (Column("supervisor", 12), Column("tenant", 8, goes=1), Column("load"), Column("waiting"))
WORKERS: Final = (
    Column("worker", 12), Column("state"), Column("at work"), Column("waiting", goes=2), Column("done"), Column("errors"),
    Column("average", goes=1),
)  # fmt: skip

Name = Annotated[str, typer.Argument(metavar="NAME", help="The supervisor's name.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose it is.")]


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
        asyncio.run(_list(tenant, after, limit, store)), COLUMNS, _line, "supervisors", "list",
        tenant=tenant, as_json=as_json, store=store,
    )  # fmt: skip


@app.command()
def show(name: Name, tenant: Tenant = "default", as_json: AsJson = False, store: Store = None) -> None:
    """Show a supervisor: its load, its queue, and how each of its workers stands."""
    found = asyncio.run(_show(name, tenant, store))
    if as_json:
        import msgspec

        terminal.emit({"name": name, "tenant": tenant, **msgspec.to_builtins(found)})
        return
    terminal.sheet([
        ("Supervisor", name),
        ("Tenant", tenant),
        ("Load", f"{found.system_load:.0%}"),
        ("Waiting", f"{found.queue_size} of {found.max_queue}"),
    ])  # fmt: skip
    table.show(WORKERS, [_line_of_worker(worker, view) for worker, view in found.workers.items()])


async def _list(tenant: str | None, after: str | None, limit: int, store: str | None) -> Page:
    from holdfast.service.query import Page

    place = None if after is None else _place(after)
    async with asking(store) as engine:
        found = await engine.supervisors(tenant, after=place, limit=limit + 1)
    rows = [
        {
            "name": each.name, "tenant": each.tenant, "system_load": round(each.load, 3),
            "queue_size": len(each.queue), "max_queue": each.max_queue,
            "workers": [worker.name for worker in each.workers],
        }
        for each in found[:limit]
    ]  # fmt: skip
    return Page(rows, _cursor(found[limit - 1]) if len(found) > limit else None)


async def _show(name: str, tenant: str, store: str | None) -> Dashboard:
    async with asking(store) as engine:
        return await engine.supervisor(name, tenant=tenant).dashboard()


def _cursor(last: Supervisor) -> str:
    return f"{quote(last.tenant, safe='')}/{quote(last.name, safe='')}"


def _place(cursor: str) -> tuple[str, str]:
    tenant, slash, name = cursor.partition("/")
    if not slash:
        raise UsageError(f"{cursor!r:.100} is no cursor; --after takes what the page before ended with.")
    return unquote(tenant), unquote(name)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return row["name"], row["tenant"], f"{row['system_load']:.0%}", f"{row['queue_size']} of {row['max_queue']}"


def _line_of_worker(name: str, worker: WorkerView) -> tuple[str, ...]:
    return (
        name, worker.state, f"{worker.active} of {worker.max_concurrent}", str(worker.queued), str(worker.completed),
        str(worker.errors), f"{worker.avg_ms:.0f} ms",
    )  # fmt: skip
