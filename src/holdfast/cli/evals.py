"""`holdfast evals`: what suites of scenarios came to, as `holdfast eval --keep` kept it.

Never here: judging anything (evaluation).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import page, reference, table, terminal
from holdfast.cli.filter import Workflow
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import ID, Column

if TYPE_CHECKING:
    from holdfast.service.query import Page

app = typer.Typer(help="See what suites of scenarios came to, as `eval --keep` kept it.", no_args_is_help=True)

COLUMNS: Final = (
    Column("evaluation", ID),
    Column("at", goes=2),
    Column("suite", 12, goes=1),
    Column("workflow", 8),
    Column("version"),
    Column("passed"),
    Column("met"),
    Column("cost", goes=3),
    Column("by", goes=4),
)
RUNS: Final = (Column("scenario", 12), Column("run", ID, goes=1), Column("passed"), Column("misses", 20))


@app.command("list")
def list_(
    workflow: Workflow = None,
    tenant: page.OfTenant = None,
    after: page.After = None,
    limit: page.Limit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the evaluations that were kept, newest first."""
    found = asyncio.run(_list(workflow, tenant, after, limit, store))
    of = () if workflow is None else ("--workflow", workflow)
    page.show(found, COLUMNS, _line, "evals", "list", *of, tenant=tenant, as_json=as_json, store=store)


@app.command()
def show(
    evaluation: Annotated[str, typer.Argument(metavar="EVALUATION", help="Its id or the beginning of it.")],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show an evaluation, with what each of its runs missed."""
    found = asyncio.run(_show(evaluation, store))
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet(
        [
            ("Evaluation", found["evaluation_id"]),
            ("Suite", found["suite"]),
            ("Workflow", f"{found['workflow']} {found['version']}"),
            ("Passed", f"{_passed(found)}, {'enough' if found['met'] else 'too few'} for {found['min_passed']:.0%}"),
            ("Replayed", str(found["replayed"])),
            ("Cost", f"${found['cost_usd']}"),
            ("Kept", f"{_moment(found)} by {_by(found)}, for tenant {found['tenant']}"),
        ]
    )
    table.show(
        RUNS,
        [
            (each["scenario"], each["run_id"], "yes" if each["passed"] else "no", " ".join(each["misses"]))
            for each in found["judged"]
        ],
    )


async def _list(workflow: str | None, tenant: str | None, after: str | None, limit: int, store: str | None) -> Page:
    from holdfast.service import query

    async with backend(store, who(None)) as service:
        return await service.ask(query.Evaluations(tenant=tenant, workflow=workflow, cursor=after, limit=limit))


async def _show(given: str, store: str | None) -> dict[str, Any]:
    from holdfast.service import query

    async with backend(store, who(None)) as service:
        return await service.row(query.Evaluation(await reference.evaluation(service, given)))


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["evaluation_id"],
        _moment(row),
        row["suite"],
        row["workflow"],
        str(row["version"]),
        _passed(row),
        "yes" if row["met"] else "no",
        f"${row['cost_usd']}",
        _by(row),
    )


def _moment(row: dict[str, Any]) -> str:
    return f"{row['at'][:10]} {row['at'][11:19]}Z"


def _passed(row: dict[str, Any]) -> str:
    return f"{row['passed']} of {row['scenarios']}"


def _by(row: dict[str, Any]) -> str:
    return row["by"] or row["by_os_user"] or "somebody unnamed"
