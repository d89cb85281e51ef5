"""`holdfast team-budgets`: what agents may spend together, how it is allotted, and how they stand.

Never here: who lends how much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import Column
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.service.declarations.query import View

AGENTS: Final = (
    Column("agent", 12),
    Column("allocated"),
    Column("used"),
    Column("held", goes=2),
    Column("in doubt", goes=1),
    Column("remaining"),
    Column("use", goes=5),
    Column("priority", goes=3),
    Column("idle since", goes=4),
)

AGENT: Final = (
    "Agent with its priority (1) and its part of the total, like writer=1.5:25%; agents without a part share the rest equally."
)


def _agent(text: str) -> tuple[str, TeamAgent]:
    """Return the agent of a text like `writer=1.5:25%`. Raises UsageError."""
    said, _, part = text.partition(":")
    name, _, priority = said.partition("=")
    try:
        allocation = float(part.removesuffix("%")) / 100 if part else None
        return name, TeamAgent(float(priority) if priority else 1.0, allocation)
    except ValueError:
        raise UsageError(f"{text!r:.100} is not an agent; write it like writer, writer=1.5 or writer=1.5:25%.") from None


def _sheet(row: View) -> None:
    terminal.sheet([("Team budget", row["name"]), ("Tenant", row["tenant"])])
    for unit, books in (("usd", row["money"]), ("tokens", row["tokens"])):
        if books is not None:
            _tell_books(books, unit)


def _tell_books(books: View, unit: str) -> None:
    def amount(row: View, name: str) -> str:
        return f"{'$' if unit == 'usd' else ''}{row[f'{name}_{unit}']}"

    terminal.show(
        f"\nIn {'dollars' if unit == 'usd' else unit}: {amount(books, 'total')} in all, {amount(books, 'used')} used,"
        f" {amount(books, 'held')} held, {amount(books, 'in_doubt')} in doubt, {amount(books, 'remaining')} remaining"
    )
    rows: list[tuple[Any, ...]] = [
        (
            name,
            *(amount(each, of) for of in ("allocated", "used", "held", "in_doubt", "remaining")),
            f"{each['utilization']:.0%}",
            f"{each['priority']:g}",
            moment.clock(moment.ms(each["idle_since"])) if each["idle_since"] is not None else "ever",
        )
        for name, each in books["agents"].items()
    ]
    table.show(AGENTS, rows)


TEAM_BUDGETS: Final = Noun("team-budgets", query.TeamBudget, _sheet)
app = TEAM_BUDGETS.app


TEAM_BUDGETS.list(query.TeamBudgets, Column("team budget", 12, of="name"), every=True, only="name")
TEAM_BUDGETS.show()
TEAM_BUDGETS.verb(
    "set",
    command.SetTeamBudget,
    words={"agents": ArgumentSpec("--agent NAME[=PRIORITY][:PERCENT]", read=_agent, help=AGENT)},
    make=True,
)
TEAM_BUDGETS.verb("remove", command.RemoveTeamBudget, done="removed", says="Removed the limits of team budget {name}.")


EXAMPLES: Final = {"list": "", "show": "desk", "set": "desk --agent writer=2 --agent critic --total-usd 5", "remove": "desk"}
