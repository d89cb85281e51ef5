"""`holdfast workflows`: which workflows the store knows, what each is started with, and who can run it.

Never here: the code of one.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from holdfast.cli.noun import MANY, ArgumentSpec, Noun
from holdfast.cli.page import form, moment, table, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import Column
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


def _place(text: str) -> str:
    """Return the cursor after a workflow of that name, or the cursor that a page before has ended with."""
    return text if text.startswith("[") else json.dumps((text, _BEFORE_NONE))


WORKFLOWS.list(
    query.Workflows,
    *COLUMNS,
    words={
        "cursor": ArgumentSpec("--after NAME", read=_place, help="Only workflows after this name, or this cursor."),
        "limit": MANY,
    },
    about="List workflows that a process has loaded, and how many live processes can run each.",
)
WORKFLOWS.show(words={"version": ArgumentSpec("--version N", 1, 2**31 - 1)})


EXAMPLES: Final = {"list": "", "show": "refund"}
