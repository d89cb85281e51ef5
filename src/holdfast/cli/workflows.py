"""`holdfast workflows`: which workflows the store knows, what each is started with, and who can run it.

Never here: the code of one.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Final

import msgspec
import typer

from holdfast.cli import form, moment, table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend, typed
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import Column
from holdfast.service import query
from holdfast.service.query import View

app = typer.Typer(help="See which workflows the store knows, and what each is started with.", no_args_is_help=True)

COLUMNS: Final = (
    Column("workflow", 12),
    Column("version"),
    Column("graph", goes=2),
    Column("loaded", goes=1),
    Column("processes"),
)
NODES: Final = (Column("node", 12), Column("kind"), Column("after", 8, goes=1))
_SHORT_HASH: Final = 12
"""Of a hash's characters, as many as tell two definitions apart."""
_MOST_LISTED: Final = 10_000
_BEFORE_NONE: Final = -(2**63)
"""No version is lower: what comes after it is of another name."""


@app.command("list")
def list_(
    after: Annotated[str | None, typer.Option("--after", metavar="NAME", help="Only those that come after it.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=_MOST_LISTED, help="Maximum number of rows.")] = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the workflows whose code some process has loaded, and how many living processes can run each."""
    asyncio.run(_list(after, limit, as_json, store))


async def _list(after: str | None, limit: int, as_json: bool, store: str | None) -> None:
    place = None if after is None else json.dumps((after, _BEFORE_NONE))
    async with backend(store, who(None)) as service:
        rows = await service.rows(query.Workflows(cursor=place), limit)
        now_ms = service.now_ms()
    if as_json:
        terminal.emit(rows)
        return
    table.show(
        COLUMNS,
        [
            (
                row["workflow"],
                str(row["version"]),
                row["graph_hash"][:_SHORT_HASH],
                moment.ago(moment.maybe_ms(row["loaded_at"]), now_ms),
                str(row["processes"]),
            )
            for row in rows
        ],
    )
    if len(rows) == limit:
        terminal.say(f"There may be more: {typed('workflows', 'list', '--after', rows[-1]['workflow'], store=store)}")


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
    async with backend(store, who(None)) as service:
        found = await service.row(query.Workflow(name, version))
        now_ms = service.now_ms()
    if as_json:
        terminal.emit(found)
    else:
        _print(found, now_ms)


def _print(found: View, now_ms: int) -> None:
    from holdfast.core.facts.graph import Definition, Graph

    loaded = "-" if found["loaded_at"] is None else moment.around(moment.ms(found["loaded_at"]), now_ms)
    terminal.sheet(
        [
            ("Workflow", f"{found['workflow']} {found['version']}"),
            ("Graph", found["graph_hash"]),
            ("Loaded", loaded),
            ("Processes", f"{found['processes']} alive can run it"),
        ]
    )
    terminal.show("\nInput")
    if (schema := found["input_schema"]) is None:
        terminal.show("  anything: it declares none")
    else:
        form.show(schema, form.defaults(schema), form.DEFAULTS)
    terminal.show("\nNodes")
    graph = Graph(msgspec.convert(found["definition"], Definition), is_accepted=True)
    table.show(
        NODES,
        [
            (name, graph.nodes[name].kind, ", ".join(dict.fromkeys(edge.source for edge in graph.incoming[name])) or "-")
            for name in graph.order
        ],
    )
