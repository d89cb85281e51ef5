"""`holdfast admission`: how many runs may be active at once, of a tenant or of all together.

Never here: what becomes of a run beyond that.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import typer

from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import table, terminal
from holdfast.cli.page.given import who
from holdfast.cli.page.table import Column
from holdfast.errors import UsageError
from holdfast.service.declarations import query

app = typer.Typer(no_args_is_help=True)

RUNS: Final = (Column("run"),)
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Runs of this tenant.")]
Fleet = Annotated[bool, typer.Option("--fleet", help="Runs of all tenants together.")]


@app.command()
def show(tenant: Tenant = None, fleet: Fleet = False, as_json: AsJson = False, store: Store = None) -> None:
    """Show how many runs are active, their limit, and which runs wait for a place."""
    _expect_one(tenant, fleet)
    _tell(asyncio.run(_show(tenant, store)), as_json)


@app.command("set")
def set_(
    tenant: Tenant = None,
    fleet: Fleet = False,
    runs: Annotated[int | None, typer.Option("--runs", metavar="N", min=0, help="Maximum number of active runs.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove the limit.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Limit how many runs may be active at once. Runs that are active already stay so.

    A run is active from its admission to its end, also while it waits for people. Starts beyond the limit are refused, or
    queued with `holdfast run --queue`.
    """
    _expect_one(tenant, fleet)
    if none == (runs is not None):
        raise UsageError("Pass a limit, --runs N, or --none to remove it.")
    _tell(asyncio.run(_set(tenant, runs, store)), as_json)


def _expect_one(tenant: str | None, fleet: bool) -> None:
    if (tenant is None) != fleet:
        raise UsageError("Pass --tenant NAME, or --fleet for all tenants together.")


async def _show(tenant: str | None, store: str | None) -> dict[str, Any]:
    async with backend(store, who(None)) as service:
        return await service.row(query.Admission(tenant))


async def _set(tenant: str | None, runs: int | None, store: str | None) -> dict[str, Any]:
    from holdfast.service.declarations.command import SetAdmission

    async with backend(store, who(None), make=True) as service:  # caps come before runs
        await service.tell(SetAdmission(runs, tenant))
        return await service.row(query.Admission(tenant))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet(
        [
            ("Scope", found["scope"]),
            ("Active", str(found["active"])),
            ("Cap", str(found["cap"]) if found["cap"] is not None else "none"),
        ]
    )
    if found["waiting"]:
        terminal.show("\nRuns that wait for a place, longest first")
        table.show(RUNS, [(run,) for run in found["waiting"]])


EXAMPLES: Final = {"show": "--fleet", "set": "--tenant acme --runs 20"}
