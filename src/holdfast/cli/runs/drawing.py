"""`holdfast runs graph`: the nodes of a run with their states, or the operations of a flow. Never here: finding them."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import table, terminal
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import who
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

_NODES: Final = (
    Column("node", 12),
    Column("kind", goes=2),
    Column("status"),
    Column("visits", goes=1),
    Column("cost"),
    Column("to"),
)
_OPERATIONS: Final = (
    Column("operation", 14),
    Column("kind", goes=1),
    Column("name", 12),
    Column("status"),
    Column("cost"),
    Column("after", 8),
)


def graph(run: RunArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show the graph of a run: its nodes with status and cost, and the edges that it took. Of a flow, its operations."""
    row = asyncio.run(_drawing(run, store))
    if as_json:
        terminal.emit(row)
    elif row["operations"]:
        table.show(_OPERATIONS, [_operation(each) for each in row["operations"]])
    else:
        table.show(_NODES, [_node(each, row["edges"]) for each in row["nodes"]])


async def _drawing(run: str, store: str | None) -> View:
    async with backend(store, who(None)) as service:
        return await service.row(query.Drawing(await reference.run_id(service, run)))


def _node(node: View, edges: list[View]) -> tuple[str, ...]:
    taken = [edge["target"] for edge in edges if edge["source"] == node["node"] and edge["state"] == "taken"]
    status = node["status"] or "not begun"
    return node["node"], node["kind"], status, str(node["visits"]), f"${node['cost_usd']}", ", ".join(taken)


def _operation(row: View) -> tuple[str, ...]:
    after = ", ".join(each.rpartition("/")[2] for each in row["after"])
    return row["id"], row["kind"], row["name"], row["status"], f"${row['cost_usd']}", after
