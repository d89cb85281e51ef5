"""`holdfast keys`: keys with which services come to a port.

Never here: what a key may be (service.key), how it is known (service.identity).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import typer

from holdfast.cli import page, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store, Who
from holdfast.cli.table import Column

app = typer.Typer(help="Make keys with which services call this store's ports, and take them back.", no_args_is_help=True)

COLUMNS: Final = (
    Column("name", 10),
    Column("tenant", 8),
    Column("may", 8),
    Column("workflows", 10, goes=2),
    Column("made", goes=1),
    Column("state"),
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called: a name means one key of a tenant for good.")]
Whose = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Whose key, where several tenants have one of the name.")
]


@app.command()
def create(
    name: Name,
    may: Annotated[
        list[str] | None,
        typer.Option("--may", metavar="GRANT", help="viewer, operator, reviewer, author or admin; several times for more."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="For whom it acts; without it for everybody.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role in which it decides.")] = None,
    team: Annotated[list[str] | None, typer.Option("--team", metavar="TEAM", help="A team of which it is.")] = None,
    workflow: Annotated[
        list[str] | None, typer.Option("--workflow", metavar="PATTERN", help="Only workflows of such names: order*.")
    ] = None,
    tool: Annotated[list[str] | None, typer.Option("--tool", metavar="PATTERN", help="Only tools of such names.")] = None,
    life_days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, max=3650, help="It is over after so many days.")
    ] = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Make a key and show it, once: the store keeps only its hash."""
    from holdfast.service.command import MakeKey

    asked: dict[str, Any] = {
        "may": may or ["viewer"],
        "roles": role or [],
        "teams": team or [],
        "workflows": workflow or ["*"],
        "tools": tool or ["*"],
    }
    fields = {field: tuple(words) for field, words in asked.items()}
    life_s = None if life_days is None else life_days * 86_400
    _tell(MakeKey(name=name, tenant=tenant, life_s=life_s, **fields), by, as_json, store, make=True)


@app.command("list")
def list_(
    tenant: page.OfTenant = None,
    after: page.After = None,
    limit: page.Limit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the keys, also those that were taken back; of none what it is."""
    from holdfast.service import query

    found = asyncio.run(_ask(query.Keys(tenant=tenant, cursor=after, limit=limit), store))
    page.show(found, COLUMNS, _line, "keys", "list", tenant=tenant, as_json=as_json, store=store)


@app.command()
def rotate(name: Name, tenant: Whose = None, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Give a key another secret and show it, once; the one before is over at once."""
    from holdfast.service.command import RotateKey

    _tell(RotateKey(name, tenant), by, as_json, store)


@app.command()
def revoke(name: Name, tenant: Whose = None, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Take a key back, for good and at once."""
    from holdfast.service.command import RevokeKey

    _tell(RevokeKey(name, tenant), by, as_json, store)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    state = "revoked" if row["revoked_at"] else f"until {row['expires_at'][:10]}" if row["expires_at"] else "open"
    words = (", ".join(row[field]) for field in ("may", "workflows"))
    return row["name"], row["tenant"] or "everybody", *words, row["made_at"][:10], state


async def _ask(asked: Any, store: str | None) -> Any:
    async with backend(store, who(None)) as service:
        return await service.ask(asked)


def _tell(told: Any, by: str | None, as_json: bool, store: str | None, *, make: bool = False) -> None:
    async def work() -> dict[str, Any]:
        async with backend(store, who(by), make=make) as service:
            return await service.tell(told) or {}

    found = asyncio.run(work())
    if as_json:
        terminal.emit(found)
    elif "key" in found:
        terminal.say(f"The key {found['name']}, shown this once; the store keeps only its hash:")
        terminal.show(found["key"])
    else:
        terminal.say(f"The key {found['name']} is revoked: nothing is answered to it any more.")
