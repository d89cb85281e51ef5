"""`holdfast runs score`, `holdfast scores`: scores a run, and shows mean scores.

Never here: which scores count (core.nouns.scores).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, Literal

import msgspec
import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.filter import Workflow
from holdfast.cli.noun import Caller, Signed
from holdfast.cli.option import MAX_LISTED, AsJson, ListLimit, OfTenant, RunArgument, Store
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import who
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

MEANS: Final = (
    Column("workflow", 8),
    Column("version"),
    Column("name", 8),
    Column("mean", 8, of=lambda row: f"{row['mean']:.4g}"),
    Column("scores"),
    Column("newest", goes=1, of=lambda row: moment.age(row["newest_at"])),
)


def score(
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the score, like helpful.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Value: a number, true (1) or false (0).")],
    comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Comment, kept with the score.")] = "",
    source: Annotated[
        Literal["person", "code"], typer.Option("--source", help="Kind of author: a person or a program.")
    ] = "person",
    *,
    caller: Signed,
) -> None:
    """Score a run, during the run or after its end. The latest score of each name and author counts."""
    asyncio.run(_score(command.GiveScore(run, name, _number(value), source, comment), caller))


def scores(
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only scores of this name.")] = None,
    workflow: Workflow = None,
    tenant: OfTenant = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only scores given since this time: 3d, 2026-11-21.")
    ] = None,
    limit: ListLimit = MAX_LISTED,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show mean run scores by workflow version."""
    asyncio.run(_scores(name, workflow, tenant, since, limit, as_json, store))


async def _scores(
    name: str | None, workflow: str | None, tenant: str | None, since: str | None, limit: int, as_json: bool, store: str | None
) -> None:
    async with backend(store, who(None)) as service:
        since_ms = 0 if since is None else moment.given(since, "--since", service.now_ms())
        asked = query.ScoreMeans(tenant=tenant, name=name, workflow=workflow, since_ms=since_ms)
        found = await service.rows(asked, limit + 1)
    means = found[:limit]
    if len(found) > limit or len(found) == query.MOST:
        terminal.say(f"There are more than {limit}: add --name or --workflow, or raise --limit.")
    if as_json:
        terminal.emit(means)
        return
    table.show_rows(MEANS, means)


async def _score(wish: command.GiveScore, caller: Caller) -> None:
    async with backend(caller.store, caller.by) as service:
        named, name = await reference.run_id(service, wish.run), wish.name
        await service.execute(msgspec.structs.replace(wish, run=named))
        *_, given = [each for each in await service.rows(query.Scores(named, all=True)) if each["name"] == name]
    if caller.as_json:
        terminal.emit({"run_id": named, **given})
    else:
        terminal.say(f"Run {named}: {name} is {given['value']:g}, by {given['by']}.")


def _number(text: str) -> float:
    """The value that was typed. Raises UsageError."""
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r:.80} is not a number, true or false. Nothing was scored.") from None


EXAMPLES: Final = {"scores": "--name helpful --since 3d"}
