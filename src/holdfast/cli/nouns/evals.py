"""`holdfast evals`: what suites of scenarios came to, as `holdfast eval --keep` kept it.

Never here: judging anything (evaluation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import ID, Column
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

RUNS: Final = (
    Column("scenario", 12),
    Column("run", ID, goes=1, of="run_id"),
    Column("passed", of=lambda row: "yes" if row["passed"] else "no"),
    Column("misses", 20, of=lambda row: " ".join(row["misses"])),
)


def _passed(row: View) -> str:
    return f"{row['passed']} of {row['scenarios']}"


def _by(row: View) -> str:
    return row["by"] or row["by_os_user"] or "unknown"


def _sheet(row: View) -> None:
    terminal.sheet(
        [
            ("Evaluation", row["evaluation_id"]),
            ("Suite", row["suite"]),
            ("Workflow", f"{row['workflow']} {row['version']}"),
            ("Passed", f"{_passed(row)}, {'enough' if row['met'] else 'too few'} for {row['min_passed']:.0%}"),
            ("Replayed", str(row["replayed"])),
            ("Cost", f"${row['cost_usd']}"),
            ("Kept", f"{moment.second(row['at'])} by {_by(row)}, for tenant {row['tenant']}"),
        ]
    )
    table.show_rows(RUNS, row["results"])


EVALS: Final = Noun("evals", query.Evaluation, _sheet)
app = EVALS.app

EVALS.list(
    query.Evaluations,
    Column("evaluation", ID, of="evaluation_id"),
    Column("at", goes=2, of=lambda row: moment.second(row["at"])),
    Column("suite", 12, goes=1),
    Column("workflow", 8),
    Column("version"),
    Column("passed", of=_passed),
    Column("met", of=lambda row: "yes" if row["met"] else "no"),
    Column("cost", goes=3, of=lambda row: f"${row['cost_usd']}"),
    Column("by", goes=4, of=_by),
)
EVALS.list(
    query.EvaluationVersions,
    Column("version"),
    Column("suite", 12, goes=1),
    Column("passed", of=_passed),
    Column("rate", of=lambda row: f"{row['pass_rate']:.0%}"),
    Column("change", of=lambda row: "" if row["change"] is None else f"{row['change']:+.0%}"),
    Column("met", of=lambda row: "yes" if row["met"] else "no"),
    Column("results", goes=4, of="evaluations"),
    Column("cost", goes=3, of=lambda row: f"${row['cost_usd']}"),
    Column("at", goes=2, of=lambda row: moment.second(row["at"])),
    name="history",
    words={"workflow": ArgumentSpec("WORKFLOW", needed=True, help="Name of the workflow.")},
    about="List the results of a workflow's suites by version, the highest version first.",
)
EVALS.show()


EXAMPLES: Final = {"list": "--workflow refund", "history": "refund", "show": "019aa8b2"}
