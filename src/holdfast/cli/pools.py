"""`holdfast pools`: what steps ask amounts of before they are placed, how much of it there is, and who has it.

Never here: what a pool lends to whom.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend, is_there, located, opened, server, typed
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import Column
from holdfast.errors import StoreError, UsageError
from holdfast.service import query

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from holdfast.settings import Settings


app = typer.Typer(help="See and say how much there is of what steps ask for before they are placed.", no_args_is_help=True)

POOLS: Final = (Column("pool", 12), Column("limit"), Column("burst", goes=1), Column("counts", 8, goes=2))
SHARES: Final = (
    Column("holder", 12),
    Column("life"),
    Column("granted"),
    Column("used"),
    Column("wanted"),
    Column("session", 8, goes=1),
)
ESTIMATES: Final = (Column("workflow", 8), Column("node", 8), Column("amount"), Column("samples", goes=1))


class Period(StrEnum):
    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def per_s(self) -> int:
        return {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}[self.value]


class Counts(StrEnum):
    REQUESTS = "requests"
    TOKENS = "tokens"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The pool's name, as steps ask for it: OPENAI_RPS.")]


@app.command("list")
def list_(as_json: AsJson = False, store: Store = None) -> None:
    """List all pools."""
    found = asyncio.run(_list(store))
    if as_json:
        terminal.emit(found)
        return
    lines = [(each["name"], _limit(each), _burst(each), _counts(each)) for each in found]
    table.show(POOLS, lines)


@app.command()
def show(name: Name, as_json: AsJson = False, store: Store = None) -> None:
    """Show a pool: its limit, who has how much of it, and what steps are known to take of it."""
    _tell(asyncio.run(_show(name, store)), as_json)


@app.command("set")
def set_(
    name: Name,
    slots: Annotated[int | None, typer.Option("--slots", metavar="N", help="So many at a time.")] = None,
    rate: Annotated[int | None, typer.Option("--rate", metavar="N", help="So many in each period (--per).")] = None,
    per: Annotated[Period | None, typer.Option("--per", help="The period of --rate.")] = None,
    burst: Annotated[
        int | None, typer.Option("--burst", metavar="N", help="Of a rate, so many at once after a pause; a tenth unless said.")
    ] = None,
    counts: Annotated[
        Counts | None, typer.Option("--counts", metavar="WHAT", help=f"What a unit is at the provider: {', '.join(Counts)}.")
    ] = None,
    of: Annotated[str | None, typer.Option("--of", metavar="NAME", help="Whose, with --counts: a model or a provider.")] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Declare a pool, or replace what was said of it. It holds within seconds, for every process on the store.

    What is in use above a smaller limit stays so until the steps that use it end.
    """
    if (slots is None) == (rate is None):
        raise UsageError(f"Say what {name} is: --slots N for so many at a time, or --rate N --per minute.")
    if slots is not None and (per is not None or burst is not None):
        raise UsageError("--per and --burst belong to --rate; slots are so many at a time.")
    if rate is not None and per is None:
        raise UsageError(f"--rate {rate} in which time? Add --per second, minute, hour or day.")
    how = {
        "slots": slots,
        "rate": rate,
        "per_s": None if per is None else per.per_s,
        "burst": burst,
        "counts": None if counts is None else counts.value,
        "of": of,
    }
    _tell(asyncio.run(_set(name, how, store)), as_json)


@app.command()
def remove(name: Name, as_json: AsJson = False, store: Store = None) -> None:
    """Remove a pool. Steps that ask for it wait until it is declared again."""
    asyncio.run(_remove(name, store))
    if as_json:
        terminal.emit({"name": name, "removed": True})
    else:
        terminal.say(f"There is no pool {name} any more.")


async def undeclared(pools: Collection[str], known: Settings, store: str | None) -> list[str]:
    """A warning for each of these pools that neither holdfast.toml nor the store, where there is one, declares. What a server's
    store declares is not known here: then none."""
    from holdfast.compose.from_settings import pools_of

    if not pools or server(store) is not None:
        return []
    declared = {pool.name for pool in pools_of(known)}
    if is_there(located(store)[0]):
        try:
            async with opened(store) as found:
                declared |= {pool.name for pool in await found.lending.pools()}
        except StoreError:  # a store that is away may have declared any pool
            return []
    declared |= {name.partition("@")[0] for name in declared}  # a tenant's own
    return [
        f"No pool {name} is declared here: {typed('pools', 'set', name, '--slots', 'N', store=store)}"
        for name in sorted({*pools} - declared)
    ]


async def _list(store: str | None) -> list[dict[str, Any]]:
    async with backend(store, who(None)) as service:
        return await service.rows(query.Pools())


async def _show(name: str, store: str | None) -> dict[str, Any]:
    async with backend(store, who(None)) as service:
        return await service.row(query.Pool(name))


async def _set(name: str, how: dict[str, Any], store: str | None) -> dict[str, Any]:
    from holdfast.service.command import SetPool

    async with backend(store, who(None), make=True) as service:  # pools come before runs
        await service.tell(SetPool(name=name, **how))
        return await service.row(query.Pool(name))


async def _remove(name: str, store: str | None) -> None:
    from holdfast.service.command import RemovePool

    async with backend(store, who(None)) as service:
        await service.tell(RemovePool(name))


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet(
        [
            ("Pool", found["name"]),
            ("Limit", _limit(found)),
            *([("Burst", _burst(found))] if found["kind"] == "rate" else []),
            *([("Counts", _counts(found))] if found["counts"] else []),
            ("Lent", f"{found['granted']}"),
        ]
    )
    if found["shares"]:
        terminal.show("\nWho has it")
        _table(SHARES, found["shares"])
    if found["estimates"]:
        terminal.show("\nWhat steps are thought to take")
        _table(ESTIMATES, found["estimates"])


def _table(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> None:
    table.show(columns, [[str(row[column.name]) for column in columns] for row in rows])


def _limit(pool: dict[str, Any]) -> str:
    if pool["kind"] == "slots":
        return f"{pool['limit']} at a time"
    names = {period.per_s: str(period) for period in Period}
    return f"{pool['limit']} per {names.get(pool['per_s']) or str(pool['per_s']) + ' s'}"


def _burst(pool: dict[str, Any]) -> str:
    return str(pool["burst"]) if pool["kind"] == "rate" else ""


def _counts(pool: dict[str, Any]) -> str:
    return f"{pool['counts']} of {pool['of']}" if pool["counts"] else ""
