"""Books, costs, and calls whose cost nobody knows. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.values.money import usd
from holdfast.core.values.scopes import in_words
from holdfast.service.view.plain import iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.core.facts.costs import Cost
    from holdfast.core.facts.state import State
    from holdfast.core.nouns.team_budgets import AgentBooks, Books, Dashboard
    from holdfast.engine.background.doubt import Doubt


async def of_owner(control: Control, tenant: str, team: str | None) -> dict[str, Any]:
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
                    {
                        "run_id": each.run,
                        **({"wanted_usd": usd(each.wanted)} if each.scope == row.scope else {"wanted_tokens": each.wanted}),
                    }
                    for each in waiting
                    if each.scope in (row.scope, of_tokens[period].scope)
                ],
            }
            for period, row in books.items()
        ],
    }


def of_budget(state: State) -> dict[str, Any]:
    """The books of a run, with the calls whose cost nobody knows yet."""
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


def of_doubt(doubt: Doubt) -> dict[str, Any]:
    """A model call of which nobody knows what it cost, and what is known of it."""
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


def of_cost(cost: Cost) -> dict[str, Any]:
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


def of_team_budget(found: Dashboard) -> dict[str, Any]:
    """What agents may spend together, in dollars and in tokens, None for what is not limited, and how each of them stands."""
    return {
        "name": found.name,
        "tenant": found.tenant,
        "money": None if found.money is None else _books(found.money, "_usd", usd),
        "tokens": None if found.tokens is None else _books(found.tokens, "_tokens", int),
    }


def _books(books: Books, unit: str, amount: Callable[[int], Any]) -> dict[str, Any]:
    def row(of: Books | AgentBooks, *names: str) -> dict[str, Any]:
        return {f"{name}{unit}": amount(getattr(of, name)) for name in (*names, *_AMOUNTS)}

    agents = {
        name: {
            **row(each),
            "utilization": each.utilization,
            "priority": each.priority,
            "idle_since": iso(each.moved_at_ms or None),
        }
        for name, each in books.agents.items()
    }
    return {**row(books, "total"), "agents": agents}


_AMOUNTS: Final = ("allocated", "used", "held", "in_doubt", "remaining")
