"""`holdfast workflows`: which workflows the store knows, what each is started with, and who can run it.

Never here: the code of one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import form, moment, table, terminal
from holdfast.cli.opening import looking, typed
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import Column

if TYPE_CHECKING:
    from holdfast.engine.stored_workflow import StoredWorkflow

app = typer.Typer(help="See which workflows the store knows, and what each is started with.", no_args_is_help=True)

COLUMNS: Final = (
    Column("workflow", 12), Column("version"), Column("graph", goes=2), Column("loaded", goes=1), Column("processes"),
)  # fmt: skip
NODES: Final = (Column("node", 12), Column("kind"), Column("after", 8, goes=1))
_SHORT_HASH: Final = 12
"""Of a hash's characters, as many as tell two definitions apart."""
_MOST_LISTED: Final = 10_000
_BEFORE_NONE: Final = -(2**63)
"""No version is lower: what comes after it is of another name."""


@app.command("list")
def list_(
    after: Annotated[str | None, typer.Option("--after", metavar="NAME", help="Only those that come after it.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=_MOST_LISTED, help="At most so many.")] = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the workflows whose code some process has loaded, and how many living processes can run each."""
    asyncio.run(_list(after, limit, as_json, store))


async def _list(after: str | None, limit: int, as_json: bool, store: str | None) -> None:
    from holdfast.service import view

    async with looking(store) as inquiries:
        place = None if after is None else (after, _BEFORE_NONE)
        rows = [
            (each, await inquiries.able(each.graph_hash))
            for each in await inquiries.workflows(after=place, limit=limit)
        ]
        now_ms = inquiries.now_ms()
    if as_json:
        terminal.emit([view.of_workflow(*each) for each in rows])
        return
    table.show(COLUMNS, [
        (row.name, str(row.version), row.graph_hash[:_SHORT_HASH], moment.ago(row.loaded_at_ms, now_ms), str(able))
        for row, able in rows
    ])  # fmt: skip
    if len(rows) == limit:
        terminal.say(f"There may be more: {typed('workflows', 'list', '--after', rows[-1][0].name, store=store)}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workflow's name.")],
    version: Annotated[
        int | None, typer.Option("--version", min=1, max=2**31 - 1, metavar="N", help="By default the highest.")
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show what a workflow is started with, its nodes, and how many living processes can run it."""
    asyncio.run(_show(name, version, as_json, store))


async def _show(name: str, version: int | None, as_json: bool, store: str | None) -> None:
    from holdfast.service import view

    async with looking(store) as inquiries:
        found = await inquiries.workflow(name, version)
        able = await inquiries.workers_of(found)
        now_ms = inquiries.now_ms()
    if as_json:
        terminal.emit(view.of_workflow_whole(found, able))
    else:
        _print(found, able, now_ms)


def _print(found: StoredWorkflow, able: int, now_ms: int) -> None:
    loaded = "-" if found.loaded_at_ms is None else moment.around(found.loaded_at_ms, now_ms)
    terminal.sheet([
        ("Workflow", f"{found.name} {found.version}"), ("Graph", found.hash), ("Loaded", loaded),
        ("Processes", f"{able} alive can run it"),
    ])  # fmt: skip
    terminal.show("\nInput")
    if found.input_schema is None:
        terminal.show("  anything: it declares none")
    else:
        form.show(found.input_schema, form.defaults(found.input_schema), form.DEFAULTS)
    terminal.show("\nNodes")
    graph = found.graph
    table.show(NODES, [
        (name, graph.nodes[name].kind, ", ".join(dict.fromkeys(edge.source for edge in graph.incoming[name])) or "-")
        for name in graph.order
    ])  # fmt: skip
