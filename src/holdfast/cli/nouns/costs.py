"""`holdfast costs`: what models have cost by any field, the costliest runs, forecasts, and costs that could be avoided.

Never here: adding anything up but a total.
"""

from __future__ import annotations

import asyncio
import calendar
import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.connect import backend, typed
from holdfast.cli.noun import Caller, Noun
from holdfast.cli.option import AsJson, OfTenant, Store
from holdfast.cli.page import table, terminal
from holdfast.cli.page.moment import second
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View


_ROLL_UP_S: Final = 0.2
"""Longest time in seconds that a request for costs waits until they are up to date."""
COLUMNS: Final = (
    Column("day"),
    Column("tenant", 6, goes=4),
    Column("workflow", 8),
    Column("node", 8, goes=5),
    Column("model", 12),
    Column("calls", goes=3),
    Column("tokens in", goes=1, of="input_tokens"),
    Column("tokens out", goes=2, of="output_tokens"),
    Column("cost", of=lambda row: f"${row['cost_usd']}"),
)


async def _roll_up(wish: command.RollUpCosts, caller: Caller) -> View:
    async with backend(caller.store, caller.by) as service:
        while (found := await service.execute(wish)) is not None and not found["up_to_date"]:
            terminal.say("Still counting.")
    return {"up_to_date": True}


COSTS: Final = Noun("costs")
app = COSTS.app
COSTS.verb(
    "rollup",
    command.RollUpCosts,
    about="Update the cost totals now. Workers do so every few minutes.",
    says="The costs are up to date.",
    deed=_roll_up,
)


@app.command()
def show(
    day: Annotated[str | None, typer.Option("--day", metavar="2026-11-21", help="Only this day (UTC).")] = None,
    month: Annotated[str | None, typer.Option("--month", metavar="2026-11", help="Only this month (UTC).")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show the costs of model calls, by day, workflow, node and model. A call counts on the day it was made."""
    from holdfast.core.values.money import nanousd, usd

    first, last = _days(day, month)
    found = asyncio.run(_costs(first, last, tenant, store))
    if as_json:
        terminal.emit(found)
        return
    table.show_rows(COLUMNS, found)
    terminal.say(f"In all ${usd(sum(nanousd(each['cost_usd']) for each in found))}.")


def _days(day: str | None, month: str | None) -> tuple[str, str]:
    """The first and the last day meant; without any, all there are. Raises UsageError."""
    if day is not None and month is not None:
        raise UsageError("Pass either --day or --month.")
    if day is None and month is None:
        return "0000-01-01", "9999-12-31"
    try:
        first = datetime.date.fromisoformat(day if day is not None else f"{month}-01")
    except ValueError:
        raise UsageError(f"{day or month!r} is no {'day' if day else 'month'}; write it like 2026-11-21 or 2026-11.") from None
    if day is not None:
        return first.isoformat(), first.isoformat()
    return first.isoformat(), first.replace(day=calendar.monthrange(first.year, first.month)[1]).isoformat()


async def _costs(first: str, last: str, tenant: str | None, store: str | None) -> list[View]:
    from holdfast.cli.backend import LocalBackend

    async with backend(store, resolve_actor(None)) as service:
        if isinstance(service, LocalBackend) and not await service.service.control.roll_up_costs(_ROLL_UP_S):
            rollup = typed("costs", "rollup", store=store)
            terminal.say(
                f"The costs are incomplete: counting the rest takes more than {_ROLL_UP_S:g} s. To count it:\n  {rollup}"
            )
        return await service.rows(query.Costs(first_day=first, last_day=last, tenant=tenant))


_DAYS: Final = {"first_day": "--first-day DAY", "last_day": "--last-day DAY"}
_COST: Final = Column("cost", of=lambda row: f"${row['cost_usd']}")
_IN_DOUBT: Final = Column("in doubt", goes=2, of=lambda row: f"${row['in_doubt_usd']}")
_CALLS: Final = (Column("calls", goes=3), Column("tokens in", goes=1, of="input_tokens"))

COSTS.list(
    query.CostSummary,
    Column("month"),
    Column("day"),
    Column("hour"),
    Column("tenant", 6),
    Column("team", 6, of=lambda row: row["team"] if row["team"] != "" else "(none)"),
    Column("workflow", 8),
    Column("node", 6),
    Column("model", 12),
    Column("rest", of=lambda row: "the rest" if row["rest"] else None),
    *_CALLS,
    Column("tokens out", goes=2, of="output_tokens"),
    _COST,
    name="summary",
    words={"by": "--by FIELD", **_DAYS},
    sparse=True,
    without="No costs are known of these days.",
)
COSTS.list(
    query.LabelCosts, Column("value", 12), Column("runs"), _IN_DOUBT, _COST, name="labels", words={"key": "--key KEY", **_DAYS}
)
COSTS.list(
    query.CostliestRuns,
    Column("run", ID, of="run_id"),
    Column("tenant", 6, goes=3),
    Column("workflow", 8),
    Column("status", goes=4),
    Column("started", goes=1, of=lambda row: second(row["started_at"])),
    _IN_DOUBT,
    _COST,
    name="runs",
    words=_DAYS,
)
COSTS.list(
    query.ExtraCosts,
    Column("cause"),
    Column("day"),
    Column("tenant", 6),
    Column("team", 6, of=lambda row: row["team"] if row["team"] != "" else "(none)"),
    Column("workflow", 8),
    Column("node", 6),
    Column("model", 10),
    Column("calls", goes=2),
    Column("tokens", goes=1),
    Column("cost", of=lambda row: f"{'-' if row['cause'] == 'semantic_cache_hit' else ''}${row['cost_usd']}"),
    name="extra",
    words={"by": "--by FIELD", **_DAYS},
    sparse=True,
    without="No such costs are known.",
)
COSTS.list(
    query.CostForecast,
    Column("tenant", 6),
    Column("team", 6),
    Column("period"),
    Column("limit", of=lambda row: _amount(row, "limit_usd", "max_tokens")),
    Column("used", of=lambda row: _amount(row, "used_usd", "used_tokens")),
    Column("expected", of=lambda row: _amount(row, "expected_usd", "expected_tokens")),
    Column("reached", of=lambda row: second(row["reached_at"])),
    Column("method", goes=1),
    name="forecast",
    sparse=True,
    without="No tenant and no team has a limit of a day or a month; `holdfast budget set` sets one.",
)


def _amount(row: dict[str, Any], money: str, tokens: str) -> str:
    return f"${row[money]}" if row[money] is not None else f"{row[tokens]} tokens"


EXAMPLES: Final = {
    "show": "--month 2026-11",
    "rollup": "",
    "summary": "--by day --by team --first-day 2026-11-01",
    "labels": "--key customer",
    "runs": "--first-day 2026-11-21",
    "extra": "--by model",
    "forecast": "--tenant acme",
}
