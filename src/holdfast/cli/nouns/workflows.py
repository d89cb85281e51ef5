"""`holdfast workflows`: which workflows the store knows, what each is started with, and who can run it.

Never here: the code of one.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Final

import msgspec
import typer

from holdfast.cli.connect import backend, typed
from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import form, moment, table, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import who
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

COLUMNS: Final = (
    Column("workflow", 12),
    Column("version"),
    Column("graph", goes=2, of=lambda row: row["graph_hash"][:_SHORT_HASH]),
    Column("loaded", goes=1, of=lambda row: moment.age(row["loaded_at"])),
    Column("processes"),
)
NODES: Final = (Column("node", 12), Column("kind"), Column("after", 8, goes=1))
_SHORT_HASH: Final = 12
"""Of a hash's characters, as many as tell two definitions apart."""
_MAX_LISTED: Final = 10_000
_BEFORE_NONE: Final = -(2**63)
"""No version is lower: what comes after it is of another name."""


def _sheet(row: View) -> None:
    from holdfast.core.facts.graph import Definition, Graph

    loaded = "-" if row["loaded_at"] is None else moment.around(moment.ms(row["loaded_at"]), moment.now_ms())
    terminal.sheet(
        [
            ("Workflow", f"{row['workflow']} {row['version']}"),
            ("Graph", row["graph_hash"]),
            ("Loaded", loaded),
            ("Processes", f"{counted(row['processes'], 'live process', 'live processes')} can run it"),
        ]
    )
    terminal.show("\nInput")
    if (schema := row["input_schema"]) is None:
        terminal.show("  anything: it declares none")
    else:
        form.show(schema, form.defaults(schema), form.DEFAULTS)
    terminal.show("\nNodes")
    graph = Graph(msgspec.convert(row["definition"], Definition), is_accepted=True)
    table.show(
        NODES,
        [
            (name, graph.nodes[name].kind, ", ".join(dict.fromkeys(edge.source for edge in graph.incoming[name])) or "-")
            for name in graph.order
        ],
    )


WORKFLOWS: Final = Noun("workflows", query.Workflow, _sheet)
app = WORKFLOWS.app


@app.command("list")
def list_(
    after: Annotated[str | None, typer.Option("--after", metavar="NAME", help="Only workflows after this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=_MAX_LISTED, help="Maximum number of rows.")] = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List workflows that a process has loaded, and how many live processes can run each."""
    asyncio.run(_list(after, limit, as_json, store))


async def _list(after: str | None, limit: int, as_json: bool, store: str | None) -> None:
    place = None if after is None else json.dumps((after, _BEFORE_NONE))
    async with backend(store, who(None)) as service:
        rows = await service.rows(query.Workflows(cursor=place), limit)
    if as_json:
        terminal.emit(rows)
        return
    table.show_rows(COLUMNS, rows)
    if len(rows) == limit:
        terminal.say(f"There may be more: {typed('workflows', 'list', '--after', rows[-1]['workflow'], store=store)}")


WORKFLOWS.show(words={"version": ArgumentSpec("--version N", 1, 2**31 - 1)})


EXAMPLES: Final = {"list": "", "show": "refund"}
