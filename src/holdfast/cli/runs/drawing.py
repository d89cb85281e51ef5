"""`holdfast runs graph`: the nodes of a run with their states, or the operations of a flow. Never here: finding them."""

from __future__ import annotations

from typing import Final

from holdfast.cli.page import table
from holdfast.cli.page.table import Column
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


def show(row: View) -> None:
    """Print a graph as a table of its nodes, or of a flow's operations."""
    if row["operations"]:
        table.show(_OPERATIONS, [_operation(each) for each in row["operations"]])
    else:
        table.show(_NODES, [_node(each, row["edges"]) for each in row["nodes"]])


def _node(node: View, edges: list[View]) -> tuple[str, ...]:
    taken = [edge["target"] for edge in edges if edge["source"] == node["node"] and edge["state"] == "taken"]
    status = node["status"] or "not begun"
    return node["node"], node["kind"], status, str(node["visits"]), f"${node['cost_usd']}", ", ".join(taken)


def _operation(row: View) -> tuple[str, ...]:
    after = ", ".join(each.rpartition("/")[2] for each in row["after"])
    return row["id"], row["kind"], row["name"], row["status"], f"${row['cost_usd']}", after
