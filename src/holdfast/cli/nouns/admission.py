"""`holdfast admission`: how many runs may be active at once, of a tenant or of all together.

Never here: what becomes of a run beyond that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import table, terminal
from holdfast.cli.page.table import Column
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

RUNS: Final = (Column("run"),)


def _sheet(row: View) -> None:
    terminal.sheet(
        [
            ("Scope", row["scope"]),
            ("Active", str(row["active"])),
            ("Cap", str(row["cap"]) if row["cap"] is not None else "none"),
        ]
    )
    if row["waiting"]:
        terminal.show("\nRuns that wait for a place, longest first")
        table.show(RUNS, [(run,) for run in row["waiting"]])


ADMISSION: Final = Noun("admission", query.Admission, _sheet)
app = ADMISSION.app

_TENANT: Final = ArgumentSpec("--tenant NAME", help="Runs of this tenant.", absent=("--fleet", "Runs of all tenants together."))
ADMISSION.show(words={"tenant": _TENANT})
ADMISSION.verb(
    "set",
    command.SetAdmission,
    words={
        "runs": ArgumentSpec(
            "--runs N", least=0, help="Maximum number of active runs.", absent=("--none", "Remove the limit.")
        ),
        "tenant": _TENANT,
    },
    about="Limit how many runs may be active at once. Runs that are active already stay so.\n\n"
    "A run is active from its admission to its end, also while it waits for people. Starts beyond the limit are refused, or"
    " queued with `holdfast run --queue`.",
    make=True,
)


EXAMPLES: Final = {"show": "--fleet", "set": "--tenant acme --runs 20"}
