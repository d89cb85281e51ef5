"""`holdfast audit`: what was done from outside, by whom, and whether the log is as it was written.

Never here: how entries are chained (core.audit).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import typer

from holdfast.cli import page, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import Column
from holdfast.errors import Conflict

app = typer.Typer(help="See who did what from outside, and check that nothing of it was changed.", no_args_is_help=True)

COLUMNS: Final = (
    Column("number", 6), Column("at", goes=1), Column("who", 10), Column("deed", 8), Column("about", 12, goes=3),
    Column("outcome", 8), Column("from", goes=2),
)  # fmt: skip


@app.command("list")
def list_(
    tenant: page.OfTenant = None, after: page.After = None, limit: page.Limit = 100, as_json: AsJson = False,
    store: Store = None,
) -> None:  # fmt: skip
    """List the entries of the audit log, oldest first."""
    from holdfast.service import query

    async def ask() -> Any:
        async with backend(store, who(None)) as service:
            return await service.ask(query.Audit(tenant=tenant, cursor=after, limit=limit))

    page.show(asyncio.run(ask()), COLUMNS, _line, "audit", "list", tenant=tenant, as_json=as_json, store=store)


@app.command()
def verify(
    known: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="A hash that was noted before: it must still be that of an entry."),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Follow the chain of hashes from the first entry to the last; exit with 4 where it is broken.

    One who can write the store can write the whole chain anew: note its last hash elsewhere, and say it with --hash later.
    """
    count, last = asyncio.run(_verify(known, store))
    if as_json:
        terminal.emit({"entries": count, "hash": last})
    else:
        terminal.say(f"{count} entries, each as it was written; the last hash is {last}.")


@app.command()
def export(as_json: AsJson = False, store: Store = None) -> None:
    """Print all entries, one a line, each with its hash."""
    asyncio.run(_export(as_json, store))


async def _verify(known: str | None, store: str | None) -> tuple[int, str]:
    from holdfast.core.audit import FIRST, broken
    from holdfast.service.view import link_of

    last, number, seen = FIRST, 0, known is None
    async for rows in _pages(store):
        links = [link_of(row) for row in rows]
        if links[0].number != number + 1 or (wrong := broken(links, last)) is not None:
            place = number + 1 if links[0].number != number + 1 else wrong
            raise Conflict(f"The audit log is not as it was written from entry {place} on.")
        seen = seen or any(each.hash == known for each in links)
        number, last = links[-1].number, links[-1].hash
    if not seen:
        raise Conflict(
            f"No entry has the hash {known}: the audit log was written anew, or it is that of another store."
        )
    return number, last


async def _export(as_json: bool, store: str | None) -> None:
    async for rows in _pages(store):
        for row in rows:
            if as_json:
                terminal.emit_line(row)
            else:
                terminal.show(terminal.line("  ".join((*_line(row), row["hash"]))))


async def _pages(store: str | None) -> AsyncIterator[list[dict[str, Any]]]:
    """All entries, page by page."""
    from holdfast.service import query

    asked = query.Audit(limit=query.MOST)
    async with backend(store, who(None)) as service:
        while (page := await service.ask(asked)).rows:
            yield page.rows
            if page.cursor is None:
                return
            asked = query.Audit(limit=query.MOST, cursor=page.cursor)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    name = row["name"] or row["os_user"] or "somebody unnamed"
    at = row["at"]
    return (
        str(row["number"]), f"{at[:10]} {at[11:19]}Z", name if row["verified"] else f"{name} (unverified)", row["deed"],
        row["about"] or "", row["outcome"], row["origin"] or row["os_user"] or "",
    )  # fmt: skip
