"""`holdfast supervisors`: how much they have to do, and how their workers stand.

Never here: who takes a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import Noun
from holdfast.cli.page import table, terminal
from holdfast.cli.page.table import Column
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

WORKERS: Final = (
    Column("worker", 12),
    Column("state"),
    Column("at work", of=lambda row: f"{row['active']} of {row['max_concurrent']}"),
    Column("waiting", goes=2, of="queued"),
    Column("done", of="completed"),
    Column("errors"),
    Column("average", goes=1, of=lambda row: f"{row['avg_ms']:.0f} ms"),
)


def _load(row: View) -> str:
    return f"{row['system_load']:.0%}"


def _waiting(row: View) -> str:
    return f"{row['queue_size']} of {row['max_queue']}"


def _sheet(row: View) -> None:
    terminal.sheet([("Supervisor", row["name"]), ("Tenant", row["tenant"]), ("Load", _load(row)), ("Waiting", _waiting(row))])
    table.show_rows(WORKERS, [{"worker": name, **each} for name, each in row["workers"].items()])


SUPERVISORS: Final = Noun("supervisors", query.Supervisor, _sheet)
app = SUPERVISORS.app

SUPERVISORS.list(
    query.Supervisors,
    Column("supervisor", 12, of="name"),
    Column("tenant", 8, goes=1),
    Column("load", of=_load),
    Column("waiting", of=_waiting),
)
SUPERVISORS.show()


EXAMPLES: Final = {"list": "", "show": "desk"}
