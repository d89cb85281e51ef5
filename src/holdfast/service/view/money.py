"""Budgets, costs, and calls of unknown cost. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal, NotRequired, TypedDict

from msgspec import Meta

from holdfast.core.facts.extra_costs import Cause
from holdfast.core.nouns.forecast import Method
from holdfast.core.values.money import usd
from holdfast.core.values.scopes import DAY_MS, PERIODS, OwnerOfBudget, Period, ScopeRow, counts_tokens, in_words, owner_scopes
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.facts.costs import Cost, CostSum, LabelCost, RunCost
    from holdfast.core.facts.extra_costs import ExtraSum
    from holdfast.core.facts.state import State
    from holdfast.core.nouns.forecast import Forecast
    from holdfast.core.nouns.team_budgets import AgentBooks, Books, Dashboard
    from holdfast.core.views import spending
    from holdfast.engine.background.doubt import Doubt
    from holdfast.service.control.control import Control


_HOUR_MS: Final = 3_600_000


class BudgetWaiterRow(TypedDict):
    """A run that waits for room in a budget."""

    run_id: field.RunId
    wanted_usd: NotRequired[Annotated[Dollars, doc("The dollars that it needs.")]]
    wanted_tokens: NotRequired[Annotated[int, doc("The tokens that it needs.")]]


class BookRow(TypedDict):
    """The spending of a tenant or a team in a period, in dollars and in tokens."""

    scope: Annotated[str, doc("Owner and period of the budget, in words: `tenant acme, day 2026-11-21`.")]
    period: Annotated[Period, doc("Period of the budget, in UTC.")]
    limit_usd: Annotated[Dollars | None, doc("The limit; null for none.")]
    settled_usd: Annotated[Dollars, doc("Dollars that calls have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    left_usd: Annotated[Dollars | None, doc("Dollars that are left of the limit; null without one.")]
    max_tokens: Annotated[int | None, doc("The limit in tokens; null for none.")]
    settled_tokens: Annotated[int, doc("Tokens that calls have used.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for calls in flight.")]
    in_doubt_tokens: Annotated[int, doc("Tokens that calls of unknown cost may have used.")]
    left_tokens: Annotated[int | None, doc("Tokens that are left of the limit; null without one.")]
    waiting: Annotated[list[BudgetWaiterRow], doc("The runs that wait for room in it.")]


class BudgetRow(TypedDict):
    """The budgets of a tenant, or of a team."""

    tenant: Annotated[str, doc("Tenant whose budgets these are.")]
    team: Annotated[str | None, doc("Team whose budgets these are; null for the whole tenant.")]
    books: Annotated[list[BookRow], doc("Amounts of this day and of this month.")]


async def of_owner(control: Control, tenant: str, team: str | None) -> BudgetRow:
    """The books of a tenant's, or a team's, day and month, in dollars and in tokens, with who waits there."""
    books = await control.budgets(tenant, team=team)
    of_tokens = await control.budgets(tenant, team=team, tokens=True)
    waiting = await control.waiting([row.scope for row in (*books.values(), *of_tokens.values())])
    return {
        "tenant": tenant,
        "team": team,
        "books": [
            {
                "scope": in_words(row.scope),
                "period": period,
                "limit_usd": maybe_usd(row.limit),
                "settled_usd": usd(row.settled),
                "held_usd": usd(row.held),
                "in_doubt_usd": usd(row.in_doubt),
                "left_usd": maybe_usd(row.left),
                "max_tokens": of_tokens[period].limit,
                "settled_tokens": of_tokens[period].settled,
                "held_tokens": of_tokens[period].held,
                "in_doubt_tokens": of_tokens[period].in_doubt,
                "left_tokens": of_tokens[period].left,
                "waiting": [
                    {"run_id": each.run, "wanted_usd": usd(each.wanted)}
                    if each.scope == row.scope
                    else {"run_id": each.run, "wanted_tokens": each.wanted}
                    for each in waiting
                    if each.scope in (row.scope, of_tokens[period].scope)
                ],
            }
            for period, row in books.items()
        ],
    }


class OwnedLimit(TypedDict):
    """A limit on what a tenant or a team may spend in each day or month."""

    tenant: Annotated[str, doc("Tenant whose limit it is.")]
    team: Annotated[str | None, doc("Team whose limit it is; null for the whole tenant.")]
    period: Annotated[Period, doc("Period of the limit, in UTC.")]
    limit_usd: Annotated[Dollars | None, doc("The limit; null if tokens are limited.")]
    max_tokens: Annotated[int | None, doc("The limit in tokens; null if dollars are limited.")]
    used_tokens: Annotated[int | None, doc("Tokens that are used, reserved or in doubt; null if dollars are limited.")]


def _owned_limit(owner: OwnerOfBudget, row: ScopeRow) -> OwnedLimit:
    is_money = not counts_tokens(row.scope)
    return {
        "tenant": owner.tenant,
        "team": owner.team,
        "period": owner.period,
        "limit_usd": maybe_usd(row.limit) if is_money else None,
        "max_tokens": None if is_money else row.limit,
        "used_tokens": None if is_money else row.used,
    }


class BudgetLimitRow(OwnedLimit):
    """A limit on what a tenant or a team may spend in each day or month, and the use of the current one."""

    settled_usd: Annotated[Dollars | None, doc("Dollars that calls have cost; null if tokens are limited.")]
    held_usd: Annotated[Dollars | None, doc("Dollars that are reserved for calls in flight; null if tokens are limited.")]
    in_doubt_usd: Annotated[Dollars | None, doc("Dollars that calls of unknown cost may have cost; null for tokens.")]


def of_limit(owner: OwnerOfBudget, row: ScopeRow) -> BudgetLimitRow:
    """Return the row of a limit, with the books of its current day or month."""
    is_money = not counts_tokens(row.scope)
    return {
        **_owned_limit(owner, row),
        "settled_usd": usd(row.settled) if is_money else None,
        "held_usd": usd(row.held) if is_money else None,
        "in_doubt_usd": usd(row.in_doubt) if is_money else None,
    }


class DoubtedCallRow(TypedDict):
    """A model call of a run whose cost is unknown."""

    call: Annotated[str, doc("Its id.")]
    model: field.Model
    step: Annotated[str, doc("Id of the step that made the call.")]
    hold_usd: Annotated[Dollars, doc("The most it can have cost, which counts as spent.")]
    at: Annotated[Time, doc("When it was made.")]


class RunBudgetRow(TypedDict):
    """The budget of a run."""

    run_id: field.RunId
    limit_usd: Annotated[Dollars | None, doc("The cost limit; null for none.")]
    settled_usd: Annotated[Dollars, doc("Dollars that its calls have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    available_usd: Annotated[Dollars | None, doc("Dollars that are left of the limit; null without one.")]
    in_doubt: Annotated[list[DoubtedCallRow], doc("Model calls whose cost is unknown.")]


def of_budget(state: State) -> RunBudgetRow:
    """Return the budget of a run, with its calls of unknown cost."""
    budget = state.budget
    return {
        "run_id": state.run,
        "limit_usd": maybe_usd(budget.limit_nanousd),
        "settled_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd),
        "in_doubt_usd": usd(budget.in_doubt_nanousd),
        "available_usd": maybe_usd(budget.available_nanousd),
        "in_doubt": [
            {"call": id_, "model": call.name, "step": call.step, "hold_usd": usd(call.hold_nanousd), "at": iso(call.at_ms)}
            for id_, call in state.calls.items()
            if call.kind == "model" and call.doubted
        ],
    }


class DoubtRow(TypedDict):
    """A model call whose cost is unknown."""

    call: Annotated[str, doc("Its id.")]
    run_id: field.RunId
    tenant: Annotated[str, doc("Tenant of the run.")]
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    step: Annotated[str, doc("Id of the step that made the call.")]
    attempt: Annotated[int, doc("The attempt of the step that made it.")]
    model: field.Model
    hold_usd: Annotated[Dollars, doc("The most it can have cost, which counts as spent.")]
    sent_at: Annotated[Time, doc("Time at which the call was made.")]
    in_doubt_since: Annotated[Time, doc("Time since which its cost is unknown.")]
    session: Annotated[str | None, doc("The session of the process that made it.")]
    error_class: field.ErrorClass
    error: Annotated[str, doc("Reason why its cost is unknown, in words.")]


def of_doubt(doubt: Doubt) -> DoubtRow:
    """Return a model call of unknown cost, and what is known of it."""
    return {
        "call": doubt.call,
        "run_id": doubt.run,
        "tenant": doubt.tenant,
        "workflow": doubt.workflow,
        "step": doubt.step,
        "attempt": doubt.attempt,
        "model": doubt.model,
        "hold_usd": usd(doubt.hold_nanousd),
        "sent_at": iso(doubt.sent_at_ms),
        "in_doubt_since": iso(doubt.in_doubt_since_ms),
        "session": doubt.session,
        "error_class": doubt.error_class,
        "error": doubt.error,
    }


class CostRow(TypedDict):
    """The cost of a node's calls to a model on a day."""

    day: Annotated[str, Meta(description="The day in UTC: `2026-11-21`.", extra_json_schema={"format": "date"})]
    tenant: Annotated[str, doc("Tenant whose runs made the calls.")]
    workflow: Annotated[str, doc("Name of the workflow.")]
    node: Annotated[str, doc("Name of the node that made the calls.")]
    model: Annotated[str, doc("The model, or the tool that has a price.")]
    calls: Annotated[int, doc("Number of calls.")]
    input_tokens: Annotated[int, doc("Tokens that were sent to the model.")]
    output_tokens: Annotated[int, doc("Tokens that the model returned.")]
    cost_usd: Annotated[Dollars, doc("Dollars that the calls have cost.")]


class CostSummaryRow(TypedDict):
    """A sum of costs; a field by which nothing is summed up is null."""

    month: Annotated[str | None, doc("The month in UTC: `2026-11`.")]
    day: Annotated[str | None, doc("The day in UTC: `2026-11-21`.")]
    hour: Annotated[str | None, doc("The hour in UTC: `2026-11-21T14`; empty for what was counted by day alone, by 0.1.0.")]
    tenant: Annotated[str | None, doc("Tenant whose runs made the calls.")]
    team: Annotated[str | None, doc("Team in whose budgets the runs count; empty for none, and for what 0.1.0 counted.")]
    workflow: Annotated[str | None, doc("Name of the workflow.")]
    node: Annotated[str | None, doc("Name of the node that made the calls.")]
    model: Annotated[str | None, doc("The model, or the tool that has a price.")]
    rest: Annotated[bool, doc("True for the sum of all that is not among the `top`; fields other than times are then null.")]
    calls: Annotated[int, doc("Number of calls.")]
    input_tokens: Annotated[int, doc("Tokens that were sent to the model.")]
    output_tokens: Annotated[int, doc("Tokens that the model returned.")]
    cost_usd: Annotated[Dollars, doc("Dollars that the calls have cost.")]


def of_cost_sum(row: CostSum, by: Collection[str]) -> CostSummaryRow:
    """Return the row of a sum of costs by some fields."""
    what = () if row.is_rest else by
    return {
        "month": row.month if "month" in by else None,
        "day": row.day if "day" in by else None,
        "hour": row.hour if "hour" in by else None,
        "tenant": row.tenant if "tenant" in what else None,
        "team": row.team if "team" in what else None,
        "workflow": row.workflow if "workflow" in what else None,
        "node": row.node if "node" in what else None,
        "model": row.model if "model" in what else None,
        "rest": row.is_rest,
        "calls": row.calls,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cost_usd": usd(row.cost_nanousd),
    }


class RunCostRow(TypedDict):
    """The cost of a run."""

    run_id: field.RunId
    tenant: Annotated[str, doc("Tenant of the run.")]
    workflow: field.Workflow
    version: field.Version
    status: Annotated[str, doc("Status of the run.")]
    started_at: Annotated[Time, doc("When it began.")]
    ended_at: Annotated[Time | None, doc("When it ended; null if it has not.")]
    cost_usd: Annotated[Dollars, doc("Dollars that its calls have cost.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]


def of_run_cost(row: RunCost) -> RunCostRow:
    return {
        "run_id": row.run,
        "tenant": row.tenant,
        "workflow": row.workflow,
        "version": row.version,
        "status": row.status,
        "started_at": iso(row.started_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "cost_usd": usd(row.cost_nanousd),
        "in_doubt_usd": usd(row.in_doubt_nanousd),
    }


class LabelCostRow(TypedDict):
    """The cost of the runs with a tag, or with a value of a label."""

    value: Annotated[str, doc("The tag, or the value of the label.")]
    runs: Annotated[int, doc("Number of runs that have it.")]
    cost_usd: Annotated[Dollars, doc("Dollars that their calls have cost.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]


def of_label_cost(row: LabelCost) -> LabelCostRow:
    return {"value": row.value, "runs": row.runs, "cost_usd": usd(row.cost_nanousd), "in_doubt_usd": usd(row.in_doubt_nanousd)}


class ExtraCostRow(TypedDict):
    """A sum of extra costs; a field by which nothing is summed up is null."""

    cause: Annotated[
        Cause,
        doc(
            "Calls that were made again, calls whose reply was lost, input that a prompt cache could have had (an estimate),"
            " calls that a semantic cache could not answer, or what it saved."
        ),
    ]
    day: Annotated[str | None, doc("The day in UTC: `2026-11-21`.")]
    tenant: Annotated[str | None, doc("Tenant whose runs made the calls.")]
    team: Annotated[str | None, doc("Team in whose budgets the runs count; empty for none.")]
    workflow: Annotated[str | None, doc("Name of the workflow.")]
    node: Annotated[str | None, doc("Name of the node that made the calls.")]
    model: Annotated[str | None, doc("The model, or the tool that has a price; empty where an answer was cached.")]
    calls: Annotated[int, doc("Number of calls, or of cached answers.")]
    tokens: Annotated[int, doc("Tokens of these calls; of a prompt cache those that it could have had. Unknown ones are 0.")]
    cost_usd: Annotated[Dollars, doc("Dollars of that cause.")]


def of_extra_cost(row: ExtraSum, by: Collection[str]) -> ExtraCostRow:
    """Return the row of a sum of extra costs by some fields."""
    return {
        "cause": row.cause,
        "day": row.day if "day" in by else None,
        "tenant": row.tenant if "tenant" in by else None,
        "team": row.team if "team" in by else None,
        "workflow": row.workflow if "workflow" in by else None,
        "node": row.node if "node" in by else None,
        "model": row.model if "model" in by else None,
        "calls": row.calls,
        "tokens": row.tokens,
        "cost_usd": usd(row.cost_nanousd),
    }


class ForecastRow(OwnedLimit):
    """A limit of a tenant or a team with the expected use of its current day or month."""

    used_usd: Annotated[Dollars | None, doc("Dollars that are spent, reserved or in doubt; null if tokens are limited.")]
    expected_usd: Annotated[Dollars | None, doc("Dollars expected at the end of the period; null if tokens are limited.")]
    expected_tokens: Annotated[int | None, doc("Tokens expected at the end of the period; null if dollars are limited.")]
    reached_at: Annotated[Time | None, doc("When the limit is expected to be reached; null if not within the period.")]
    ends_at: Annotated[Time, doc("End of the day or month.")]
    method: Annotated[
        Method,
        doc(
            "`weekday_mean`: each day as the same weekdays of the last 28 days on average. `daily_mean`, where less than 14"
            " days are known: as these days on average. `today`: as today so far."
        ),
    ]
    days: Annotated[int, doc("Number of whole days from which it was made.")]


def of_forecast(owner: OwnerOfBudget, row: ScopeRow, ends_at_ms: int, forecast: Forecast) -> ForecastRow:
    """Return the row of a limit with its forecast."""
    is_money = not counts_tokens(row.scope)
    return {
        **_owned_limit(owner, row),
        "used_usd": usd(row.used) if is_money else None,
        "expected_usd": usd(forecast.expected) if is_money else None,
        "expected_tokens": None if is_money else forecast.expected,
        "reached_at": iso(forecast.reached_at_ms),
        "ends_at": iso(ends_at_ms),
        "method": forecast.method,
        "days": forecast.days,
    }


class SpendingRow(TypedDict):
    """The money of a run after an event."""

    seq: Annotated[int, doc("Number of the event.")]
    at: Annotated[Time, doc("Time of the event.")]
    node: Annotated[str | None, doc("Node whose call it is about; null for none.")]
    name: Annotated[str | None, doc("Model or tool of the call; null for none.")]
    settled_usd: Annotated[Dollars, doc("Dollars that calls have cost until then.")]
    held_usd: Annotated[Dollars, doc("Dollars that were reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    limit_usd: Annotated[Dollars | None, doc("The cost limit; null for none.")]


def of_spending(row: spending.SpendingRow) -> SpendingRow:
    return {
        "seq": row.seq,
        "at": iso(row.at_ms),
        "node": row.node,
        "name": row.name,
        "settled_usd": usd(row.settled_nanousd),
        "held_usd": usd(row.held_nanousd),
        "in_doubt_usd": usd(row.in_doubt_nanousd),
        "limit_usd": maybe_usd(row.limit_nanousd),
    }


class BudgetDayRow(TypedDict):
    """The spending of a tenant or a team on a day."""

    day: Annotated[str, doc("The day in UTC: `2026-11-21`.")]
    limit_usd: Annotated[Dollars | None, doc("The limit of each day; null for none.")]
    settled_usd: Annotated[Dollars, doc("Dollars that calls have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]


async def of_days(control: Control, tenant: str, team: str | None, days: int) -> list[BudgetDayRow]:
    """Return the spending of a tenant or a team on each of the latest days."""
    now_ms = control.now_ms()
    times_ms = [now_ms - DAY_MS * ago for ago in reversed(range(days))]
    rows = await control.store.scopes.balances([owner_scopes(tenant, team, at_ms)[0] for at_ms in times_ms])
    return [
        {
            "day": iso(at_ms)[:10],
            "limit_usd": maybe_usd(row.limit),
            "settled_usd": usd(row.settled),
            "held_usd": usd(row.held),
            "in_doubt_usd": usd(row.in_doubt),
        }
        for at_ms, row in zip(times_ms, rows, strict=True)
    ]


class BurnDownRow(TypedDict):
    """The spending of a tenant or a team in an hour of a day, or on a day of a month."""

    since: Annotated[Time, doc("Begin of the hour or the day, in UTC.")]
    spent_usd: Annotated[Dollars, doc("Dollars that calls of this hour or day have cost.")]
    total_usd: Annotated[
        Dollars, doc("Dollars that calls have cost from the begin of the period to the end of this hour or day.")
    ]
    limit_usd: Annotated[Dollars | None, doc("The limit of the whole period; null for none.")]
    left_usd: Annotated[Dollars | None, doc("The limit without that total; null without a limit.")]


async def of_burn_down(control: Control, tenant: str, team: str | None, period: Period) -> list[BurnDownRow]:
    """Return the spending in the current day by hour, or in the current month by day, until now."""
    now_ms = control.now_ms()
    (row,) = await control.store.scopes.balances([owner_scopes(tenant, team, now_ms)[PERIODS.index(period)]])
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    begin = datetime(now.year, now.month, now.day if period == "day" else 1, tzinfo=UTC)
    unit: Literal["hour", "day"]
    unit, chars, step_ms = ("hour", len("2026-11-21T14"), _HOUR_MS) if period == "day" else ("day", len("2026-11-21"), DAY_MS)
    days = begin.date().isoformat(), now.date().isoformat()
    found = await control.store.costs.sums([unit], *days, tenant=tenant, team=team)
    spent = {getattr(each, unit): each.cost_nanousd for each in found}
    rows: list[BurnDownRow] = []
    total = spent.get("", 0)  # counted without an hour
    for at_ms in range(int(begin.timestamp()) * 1000, now_ms + 1, step_ms):
        amount = spent.get(iso(at_ms)[:chars], 0)
        total += amount
        rows.append(
            {
                "since": iso(at_ms),
                "spent_usd": usd(amount),
                "total_usd": usd(total),
                "limit_usd": maybe_usd(row.limit),
                "left_usd": None if row.limit is None else usd(row.limit - total),
            }
        )
    return rows


class CostsCountedRow(TypedDict):
    """The result of counting costs."""

    up_to_date: Annotated[bool, doc("False if there was more to count than the time allowed; ask again.")]


def of_cost(cost: Cost) -> CostRow:
    return {
        "day": cost.day,
        "tenant": cost.tenant,
        "workflow": cost.workflow,
        "node": cost.node,
        "model": cost.model,
        "calls": cost.calls,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "cost_usd": usd(cost.cost_nanousd),
    }


class TeamBudgetRow(TypedDict):
    """A team budget in a list."""

    name: Annotated[str, doc("Name of the team budget.")]
    tenant: field.Tenant


class __AgentUse(TypedDict):
    """The use that an agent of a team budget makes of it."""

    utilization: Annotated[float, doc("The share of its allotment that is used, held or in doubt, from 0 to 1.")]
    priority: Annotated[float, doc("Of two that are idle equally long, the lower one lends first.")]
    idle_since: Annotated[Time | None, doc("When its last call began or ended.")]


class AgentMoneyRow(__AgentUse):
    """An agent's part of a team budget, in dollars."""

    allocated_usd: Annotated[Dollars, doc("Its allotment, with what it has borrowed and without what it lends.")]
    used_usd: Annotated[Dollars, doc("Dollars that its calls have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    remaining_usd: Annotated[Dollars, doc("Dollars of its allotment that are neither used nor reserved nor in doubt.")]


class AgentTokensRow(__AgentUse):
    """An agent's part of a team budget, in tokens."""

    allocated_tokens: Annotated[int, doc("Its allotment, with what it has borrowed and without what it lends.")]
    used_tokens: Annotated[int, doc("Tokens that its calls have used.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for calls in flight.")]
    in_doubt_tokens: Annotated[int, doc("Tokens that calls of unknown cost may have used.")]
    remaining_tokens: Annotated[int, doc("Tokens of its allotment that are neither used nor reserved nor in doubt.")]


class TeamMoneyRow(TypedDict):
    """A team budget in dollars."""

    total_usd: Annotated[Dollars, doc("Total of the budget in dollars.")]
    allocated_usd: Annotated[Dollars, doc("Dollars that are allotted to all agents together.")]
    used_usd: Annotated[Dollars, doc("Dollars that calls have cost.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for calls in flight.")]
    in_doubt_usd: Annotated[Dollars, doc("Dollars that calls of unknown cost may have cost.")]
    remaining_usd: Annotated[Dollars, doc("Dollars of the total that are neither used nor reserved nor in doubt.")]
    agents: Annotated[dict[str, AgentMoneyRow], doc("The agents by their names.")]


class TeamTokensRow(TypedDict):
    """A team budget in tokens."""

    total_tokens: Annotated[int, doc("Total of the budget in tokens.")]
    allocated_tokens: Annotated[int, doc("Tokens that are allotted to all agents together.")]
    used_tokens: Annotated[int, doc("Tokens that calls have used.")]
    held_tokens: Annotated[int, doc("Tokens that are reserved for calls in flight.")]
    in_doubt_tokens: Annotated[int, doc("Tokens that calls of unknown cost may have used.")]
    remaining_tokens: Annotated[int, doc("Tokens of the total that are neither used nor reserved nor in doubt.")]
    agents: Annotated[dict[str, AgentTokensRow], doc("The agents by their names.")]


class TeamBudgetWhole(TeamBudgetRow):
    """A team budget with how each agent stands."""

    money: Annotated[TeamMoneyRow | None, doc("Null where dollars are not limited.")]
    tokens: Annotated[TeamTokensRow | None, doc("Null where tokens are not limited.")]


def of_team_budget(dashboard: Dashboard) -> TeamBudgetWhole:
    """Return the row of a team budget, in dollars and in tokens, with the share of each agent. None for a unit that is not
    limited."""
    return {
        "name": dashboard.name,
        "tenant": dashboard.tenant,
        "money": None if dashboard.money is None else _money(dashboard.money),
        "tokens": None if dashboard.tokens is None else _tokens(dashboard.tokens),
    }


def _money(books: Books) -> TeamMoneyRow:
    return {
        "total_usd": usd(books.total),
        "allocated_usd": usd(books.allocated),
        "used_usd": usd(books.used),
        "held_usd": usd(books.held),
        "in_doubt_usd": usd(books.in_doubt),
        "remaining_usd": usd(books.remaining),
        "agents": {
            name: {
                "allocated_usd": usd(each.allocated),
                "used_usd": usd(each.used),
                "held_usd": usd(each.held),
                "in_doubt_usd": usd(each.in_doubt),
                "remaining_usd": usd(each.remaining),
                **_use(each),
            }
            for name, each in books.agents.items()
        },
    }


def _tokens(books: Books) -> TeamTokensRow:
    return {
        "total_tokens": books.total,
        "allocated_tokens": books.allocated,
        "used_tokens": books.used,
        "held_tokens": books.held,
        "in_doubt_tokens": books.in_doubt,
        "remaining_tokens": books.remaining,
        "agents": {
            name: {
                "allocated_tokens": each.allocated,
                "used_tokens": each.used,
                "held_tokens": each.held,
                "in_doubt_tokens": each.in_doubt,
                "remaining_tokens": each.remaining,
                **_use(each),
            }
            for name, each in books.agents.items()
        },
    }


def _use(agent: AgentBooks) -> __AgentUse:
    return {"utilization": agent.utilization, "priority": agent.priority, "idle_since": iso(agent.moved_at_ms or None)}
