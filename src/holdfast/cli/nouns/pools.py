"""`holdfast pools`: what steps ask amounts of before they are placed, how much of it there is, and who has it.

Never here: what a pool lends to whom.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.connect import backend
from holdfast.cli.noun import ArgumentSpec, Caller, Noun
from holdfast.cli.page import table, terminal
from holdfast.cli.page.moment import clock, ms
from holdfast.cli.page.table import ID, Column
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.command import SetPool
    from holdfast.service.declarations.query import View

SHARES: Final = (
    Column("holder", 12),
    Column("life"),
    Column("granted"),
    Column("used"),
    Column("wanted"),
    Column("session", 8, goes=1),
)
WAITING: Final = (
    Column("run", ID),
    Column("step", 12),
    Column("model", 12, goes=1),
    Column("amount"),
    Column("starts", 10, of=lambda row: clock(ms(row["starts_at"])) if row["starts_at"] else ""),
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


def _limit(pool: View) -> str:
    if pool["kind"] == "slots":
        return f"{pool['limit']} at a time"
    names = {period.per_s: str(period) for period in Period}
    return f"{pool['limit']} per {names.get(pool['per_s']) or str(pool['per_s']) + ' s'}"


def _burst(pool: View) -> str:
    return str(pool["burst"]) if pool["kind"] == "rate" else ""


def _counts(pool: View) -> str:
    return f"{pool['counts']} of {pool['of']}" if pool["counts"] else ""


def _sheet(row: View) -> None:
    terminal.sheet(
        [
            ("Pool", row["name"]),
            ("Limit", _limit(row)),
            *([("Burst", _burst(row))] if row["kind"] == "rate" else []),
            *([("Counts", _counts(row))] if row["counts"] else []),
            ("Lent", f"{row['granted']}"),
        ]
    )
    if row["shares"]:
        terminal.show("\nHolders")
        table.show_rows(SHARES, row["shares"])
    if row["waiting"]:
        terminal.show("\nWaiting")
        table.show_rows(WAITING, row["waiting"])
    if row["estimates"]:
        terminal.show("\nEstimated use by steps")
        table.show_rows(ESTIMATES, row["estimates"])


def _per_s(period: Any) -> int:
    return Period(period).per_s


async def _set(message: SetPool, caller: Caller) -> View:
    if (message.slots is None) == (message.rate is None):
        raise UsageError(f"Pass --slots N or --rate N for {message.name}, like --slots 4 or --rate 60 --per minute.")
    if message.slots is not None and (message.per_s is not None or message.burst is not None):
        raise UsageError("--per and --burst require --rate; slots have no period.")
    if message.rate is not None and message.per_s is None:
        raise UsageError(f"--rate {message.rate} requires a period: add --per second, minute, hour or day.")
    async with backend(caller.store, caller.by, make=True) as service:  # pools come before runs
        await service.execute(message)
        return await service.row(query.Pool(message.name))


POOLS: Final = Noun("pools", query.Pool, _sheet)
app = POOLS.app

POOLS.list(
    query.Pools,
    Column("pool", 12, of="name"),
    Column("limit", of=_limit),
    Column("burst", goes=1, of=_burst),
    Column("counts", 8, goes=2, of=_counts),
    every=True,
)
POOLS.show()
POOLS.verb(
    "set",
    command.SetPool,
    words={"per_s": ArgumentSpec("--per", kind=Period, read=_per_s, help="Period of the rate."), "counts": "--counts WHAT"},
    deed=_set,
)
POOLS.verb("remove", command.RemovePool, done="removed", says="Removed pool {name}. Steps that ask for it wait.")


EXAMPLES: Final = {"list": "", "show": "GPU", "set": "GPU --slots 4", "remove": "GPU"}
