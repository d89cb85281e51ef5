"""Handlers of costs, of calls in doubt, and of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final, TypeVar, get_args

import msgspec

from holdfast.core.facts.costs import CostKey, CostSum
from holdfast.core.facts.extra_costs import ExtraField
from holdfast.core.nouns.forecast import DAYS, forecast
from holdfast.core.values.access import ANY
from holdfast.core.values.scopes import DAY_MS, counts_tokens, over_at_ms
from holdfast.errors import InvalidInput
from holdfast.service import listing, view
from holdfast.service.control.run_reader import expect_known
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import key_of, keyed_page, seq_of, seq_page
from holdfast.service.view import (
    BudgetDayRow,
    BudgetLimitRow,
    BudgetRow,
    BurnDownRow,
    CostRow,
    CostsCountedRow,
    CostSummaryRow,
    DoubtRow,
    ExtraCostRow,
    ForecastRow,
    LabelCostRow,
    RunCostRow,
    SpendingRow,
    TeamBudgetRow,
    TeamBudgetWhole,
)
from holdfast.service.view.plain import iso

Row = TypeVar("Row")

COUNT_S: Final = 20.0
"""Seconds for which costs are counted before a request for that is answered."""
ROLL_UP_S: Final = 0.2
"""Longest time in seconds that a request for costs waits until they are up to date."""
MAX_DAYS: Final = 366
"""Days of a list of budgets."""
MAX_TOP: Final = 100
"""Rows of a summary that stand alone beside the rest."""
_EARLIEST: Final = "0000-01-01"
"""The first day where none is named. No calendar has it."""
_FIRST: Final = "1970-01-01"
_LAST: Final = "9999-12-31"
_DAY_CHARS: Final = len(_FIRST)
_OF_FAMILY: Final = msgspec.json.Decoder(str)
_BY_KEY: Final = msgspec.json.Decoder(CostKey)


@handles
async def costs(request: Request, query: ask.Costs) -> Rows[CostRow]:
    """As of now, as far as counting takes no long time; the pages after the first do not count again."""
    _expect_days(query)
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    after = key_of(query.cursor, _BY_KEY)
    found = await request.control.costs(
        query.first_day, query.last_day, tenant=request.whose, after=after, limit=query.limit + 1
    )
    return keyed_page([view.of_cost(each) for each in found], [each.key for each in found], query.limit)


@handles
async def cost_summary(request: Request, query: ask.CostSummary) -> Rows[CostSummaryRow]:
    """As of now, likewise. The store sums up, of workflows that are there for the caller."""
    _expect_days(query)
    if query.top is not None and not 1 <= query.top <= MAX_TOP:
        raise InvalidInput(f"top is {query.top}; 1 to {MAX_TOP} rows can stand alone.", field="top")
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    expect_known("field", query.by, get_args(ask.CostKind))
    costs, first, last = request.control.store.costs, query.first_day, query.last_day
    workflows = await _reached(request, first, last)
    by = [each for each in query.by if each != "total"]
    after = seq_of(query.cursor)
    rows = await costs.sums(
        by,
        first,
        last,
        tenant=request.whose,
        team=query.team,
        workflows=workflows,
        top=query.top,
        largest_first=query.order == "cost",
        limit=query.limit + 1,
        offset=after,
    )
    return _offset_page([view.of_cost_sum(each, by) for each in rows], after, query.limit)


def _expect_days(query: ask.Costs | ask.CostSummary | ask.CostliestRuns | ask.LabelCosts | ask.ExtraCosts) -> None:
    """Raise InvalidInput for a first or last day that is none, or days in the wrong order."""
    for name, day in (("first_day", query.first_day), ("last_day", query.last_day)):
        if day != _EARLIEST and not _is_day(day):
            raise InvalidInput(f"{name} is {day!r:.40}; write a day like 2026-11-21.", field=name)
    if query.last_day < query.first_day:
        raise InvalidInput(f"last_day is {query.last_day}, which is before first_day, {query.first_day}.", field="last_day")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _times(query: ask.CostliestRuns | ask.LabelCosts) -> tuple[int, int]:
    """Return the begin of the first day and the end of the last, in Unix milliseconds. Raises InvalidInput."""
    _expect_days(query)
    first, last = (date.fromisoformat(max(day, _FIRST)).toordinal() for day in (query.first_day, query.last_day))
    epoch = date.fromisoformat(_FIRST).toordinal()
    return (first - epoch) * DAY_MS, (last + 1 - epoch) * DAY_MS


async def _reached(request: Request, first_day: str, last_day: str) -> list[str] | None:
    """Return the workflows that the caller reaches; None for any."""
    if request.who.access.workflows == ANY:
        return None
    found = await request.control.store.costs.workflows(first_day, last_day, request.whose)
    return [each for each in found if request.who.access.reaches(each)]


def _offset_page(rows: Sequence[Row], after: int, limit: int) -> Rows[Row]:
    """Return the first `limit` rows of a list, and whether more follow."""
    return Rows(list(rows[:limit]), str(after + limit) if len(rows) > limit else None)


@handles
async def costliest_runs(request: Request, query: ask.CostliestRuns) -> Rows[RunCostRow]:
    times, after = _times(query), seq_of(query.cursor)
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    found = await request.control.store.costs.dearest(
        *times, tenant=request.whose, workflows=await _reached(request, _FIRST, _LAST), limit=query.limit + 1, offset=after
    )
    return _offset_page([view.of_run_cost(each) for each in found], after, query.limit)


@handles
async def label_costs(request: Request, query: ask.LabelCosts) -> Rows[LabelCostRow]:
    times, after = _times(query), seq_of(query.cursor)
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    workflows = await _reached(request, _FIRST, _LAST)
    found = await request.control.store.costs.by_label(
        query.key, *times, tenant=request.whose, workflows=workflows, limit=query.limit + 1, offset=after
    )
    return _offset_page([view.of_label_cost(each) for each in found], after, query.limit)


@handles
async def extra_costs(request: Request, query: ask.ExtraCosts) -> Rows[ExtraCostRow]:
    _expect_days(query)
    expect_known("field", query.by, get_args(ExtraField))
    after = seq_of(query.cursor)
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    found = await request.control.store.costs.extra(
        query.by,
        query.first_day,
        query.last_day,
        tenant=request.whose,
        workflows=await _reached(request, query.first_day, query.last_day),
        limit=query.limit + 1,
        offset=after,
    )
    return _offset_page([view.of_extra_cost(each, query.by) for each in found], after, query.limit)


@handles
async def cost_forecast(request: Request, query: ask.CostForecast) -> Rows[ForecastRow]:
    """Of a page of limits, from the roll-up of their owners."""
    if query.cursor is None:
        await request.control.roll_up_costs(ROLL_UP_S)
    after = key_of(query.cursor, _OF_FAMILY)
    control, now_ms = request.control, request.control.now_ms()
    limits = await control.budget_limits(request.whose, after=after, limit=query.limit + 1)
    first, today = iso(now_ms - DAYS * DAY_MS)[:_DAY_CHARS], iso(now_ms)[:_DAY_CHARS]
    spent: dict[tuple[str, str | None], Sequence[CostSum]] = {}
    rows: list[ForecastRow] = []
    for _, owner, row in limits[: query.limit]:
        who = owner.tenant, owner.team
        if who not in spent:
            spent[who] = await control.store.costs.sums(["day"], first, today, tenant=owner.tenant, team=owner.team)
        is_tokens = counts_tokens(row.scope)
        days = {each.day: each.input_tokens + each.output_tokens if is_tokens else each.cost_nanousd for each in spent[who]}
        end_ms = over_at_ms(row.scope) or now_ms
        rows.append(view.of_forecast(owner, row, end_ms, forecast(now_ms, end_ms, row.used, row.limit, days)))
    return keyed_page(rows, [family for family, *_ in limits], query.limit)


@handles
async def burn_down(request: Request, query: ask.BurnDown) -> Rows[BurnDownRow]:
    await request.control.roll_up_costs(ROLL_UP_S)
    return Rows(await view.of_burn_down(request.control, request.whose or query.tenant, query.team, query.period), None)


@handles
async def spending(request: Request, query: ask.Spending) -> Rows[SpendingRow]:
    found = await request.control.spending(query.run, after=seq_of(query.cursor), limit=query.limit + 1)
    rows, cursor = seq_page(found, query.limit)
    return Rows([view.of_spending(each) for each in rows], cursor)


@handles
async def budget_days(request: Request, query: ask.BudgetDays) -> Rows[BudgetDayRow]:
    if not 1 <= query.days <= MAX_DAYS:
        raise InvalidInput(f"days is {query.days}; a list has 1 to {MAX_DAYS} days.", field="days")
    return Rows(await view.of_days(request.control, request.whose or query.tenant, query.team, query.days), None)


@handles
async def roll_up_costs(request: Request, command: cmd.RollUpCosts) -> CostsCountedRow:
    return {"up_to_date": await request.engine.roll_up_costs(COUNT_S)}


@handles
async def doubts(request: Request, query: ask.Doubts) -> Rows[DoubtRow]:
    found = await request.control.doubts(run_id=query.run, tenant=request.whose, before=query.cursor, limit=query.limit)
    return Rows([view.of_doubt(each) for each in found], found[-1].run if len(found) >= query.limit else None)


@handles
async def budget(request: Request, query: ask.Budget) -> BudgetRow:
    return await view.of_owner(request.control, request.whose or query.tenant, query.team)


@handles
async def budget_limits(request: Request, query: ask.BudgetLimits) -> Rows[BudgetLimitRow]:
    after = key_of(query.cursor, _OF_FAMILY)
    found = await request.control.budget_limits(request.whose, after=after, limit=query.limit + 1)
    return keyed_page([view.of_limit(owner, row) for _, owner, row in found], [family for family, *_ in found], query.limit)


@handles
async def set_budget(request: Request, command: cmd.SetBudget) -> None:
    control, max_tokens = request.engine, command.max_tokens
    if command.in_tokens:
        await control.set_budget(command.tenant, command.period, max_tokens=max_tokens, team=command.team)
    elif max_tokens is not None:
        raise InvalidInput("max_tokens goes with in_tokens. Nothing was changed.")
    else:
        await control.set_budget(command.tenant, command.period, command.limit_usd, team=command.team)


@handles
async def team_budgets(request: Request, query: ask.TeamBudgets) -> Rows[TeamBudgetRow]:
    names = await request.control.team_budgets(tenant=request.tenant)
    rows = [{"name": each, "tenant": request.tenant} for each in names if query.cursor is None or each > query.cursor]
    return listing.page(rows, query.limit, "name")


@handles
async def team_budget(request: Request, query: ask.TeamBudget) -> TeamBudgetWhole:
    return view.of_team_budget(await request.control.team_dashboard(query.name, tenant=request.tenant))
