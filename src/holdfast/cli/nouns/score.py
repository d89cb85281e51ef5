"""`holdfast runs score`, `holdfast scores`: scores a run, and shows mean scores.

Never here: which scores count (core.nouns.scores).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.filter import Workflow
from holdfast.cli.noun import Caller
from holdfast.cli.option import MAX_LISTED, AsJson, ListLimit, OfTenant, Store
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query
from holdfast.service.declarations.query import View

MEANS: Final = (
    Column("workflow", 8),
    Column("version"),
    Column("name", 8),
    Column("mean", 8, of=lambda row: f"{row['mean']:.4g}"),
    Column("scores"),
    Column("newest", goes=1, of=lambda row: moment.age(row["newest_at"])),
)


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
    async with backend(store, resolve_actor(None)) as service:
        since_ms = 0 if since is None else moment.parse_time(since, "--since", service.now_ms())
        asked = query.ScoreMeans(tenant=tenant, name=name, workflow=workflow, since_ms=since_ms)
        found = await service.rows(asked, limit + 1)
    means = found[:limit]
    if len(found) > limit or len(found) == query.MOST:
        terminal.say(f"There are more than {limit}: add --name or --workflow, or raise --limit.")
    if as_json:
        terminal.emit(means)
        return
    table.show_rows(MEANS, means)


async def give(wish: command.GiveScore, caller: Caller) -> View:
    """Give a score, and return its row."""
    async with backend(caller.store, caller.by) as service:
        named, name = await reference.run_id(service, wish.run), wish.name
        await service.execute(msgspec.structs.replace(wish, run=named))
        *_, given = [each for each in await service.rows(query.Scores(named, all=True)) if each["name"] == name]
    return {"run_id": named, **given}


def number(text: str) -> float:
    """Return the value of a score as it was typed. Raises UsageError."""
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r:.80} is not a number, true or false. Nothing was scored.") from None


EXAMPLES: Final = {"scores": "--name helpful --since 3d"}
