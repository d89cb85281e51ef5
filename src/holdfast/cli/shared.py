"""`holdfast shared`: what the runs and agents of a tenant know together.

Never here: what becomes of a write.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final

import typer

from holdfast.cli import page, table, terminal
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store, Tenant, Who
from holdfast.cli.table import Column
from holdfast.service import query
from holdfast.service.command import ForgetCachedAnswer, WriteSharedValue

app = typer.Typer(help="See what runs and agents know together, and write it.", no_args_is_help=True)

COLUMNS: Final = (
    Column("space", 10),
    Column("key", 12),
    Column("version", goes=2),
    Column("by", 10, goes=1),
    Column("at", goes=3),
    Column("value", 20),
)
VERSIONS: Final = (Column("version"), Column("by", 10), Column("at", goes=1), Column("value", 20))

Space = Annotated[str, typer.Argument(metavar="SPACE", help="The space of the value.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Its key in the space.")]


@app.command("list")
def list_(
    space: Annotated[str | None, typer.Argument(metavar="SPACE", help="Only those of one space.")] = None,
    tenant: page.OfTenant = None,
    after: page.After = None,
    limit: page.Limit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the shared values, each as it is now."""
    found = asyncio.run(_ask(query.SharedValues(space=space, tenant=tenant, cursor=after, limit=limit), store))
    page.show(
        found,
        COLUMNS,
        lambda row: (row["space"], row["key"], *_line(row)),
        "shared",
        "list",
        *filter(None, [space]),
        tenant=tenant,
        as_json=as_json,
        store=store,
    )


@app.command()
def show(space: Space, key: Key, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Show the versions of a value that are kept, the latest last."""
    rows = asyncio.run(_ask(query.SharedVersions(space, key, tenant), store)).rows
    if as_json:
        terminal.emit(rows)
    else:
        table.show(VERSIONS, [_line(each) for each in rows])


@app.command()
def write(
    space: Space,
    key: Key,
    given: Annotated[str, typer.Option("--value", metavar="JSON", help="The value: JSON, @FILE of it, or @- for stdin.")],
    expected: Annotated[
        int | None,
        typer.Option("--expected-version", metavar="N", min=0, help="Only in the place of this one; 0: if there is none."),
    ] = None,
    tenant: Tenant = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Write a version of a value. Steps that wait for it go on within seconds, where a process works on the store."""
    value = json_value(given, "--value")
    command = WriteSharedValue(space=space, key=key, value=value, expected_version=expected, tenant=tenant)
    row = asyncio.run(_write(command, by, store))
    if as_json:
        terminal.emit(row)
    else:
        terminal.say(f"{key} of {space} is at version {row['version']}.")


@app.command()
def forget(space: Space, key: Key, tenant: Tenant = None, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Take an answer out of a semantic cache: the next question that means the same is asked again.

    Its space, which begins with !cache/, and its key stand in the history of each run that was given it.
    """
    asyncio.run(_forget(ForgetCachedAnswer(space, key, tenant), by, store))
    if as_json:
        terminal.emit({"space": space, "key": key, "forgotten": True})
    else:
        terminal.say(f"{key} of {space} is forgotten.")


async def _forget(command: ForgetCachedAnswer, by: str | None, store: str | None) -> None:
    async with backend(store, who(by)) as service:
        await service.tell(command)


async def _ask(asked: query.SharedValues | query.SharedVersions, store: str | None) -> query.Page:
    async with backend(store, who(None)) as service:
        return await service.ask(asked)


async def _write(command: WriteSharedValue, by: str | None, store: str | None) -> query.View:
    async with backend(store, who(by), make=True) as service:
        await service.tell(command)
        asked = query.SharedVersions(command.space, command.key, command.tenant)
        return (await service.ask(asked)).rows[-1]


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    """A version: its number, by whom, when, and what it says."""
    at = row["at"]
    return str(row["version"]), row["by"], f"{at[:10]} {at[11:19]}Z", json.dumps(row["value"], ensure_ascii=False)
