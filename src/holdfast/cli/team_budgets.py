"""`holdfast team-budgets`: what agents may spend together, how it is allotted, and how they stand.

Never here: who lends how much.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import moment, table, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store, Tenant
from holdfast.cli.table import Column
from holdfast.errors import UsageError
from holdfast.service import query

if TYPE_CHECKING:
    from holdfast.core.nouns.team_budgets import TeamAgent
    from holdfast.service.query import View

app = typer.Typer(help="See and say what agents may spend together, and how they stand.", no_args_is_help=True)

NAMES: Final = (Column("team budget", 12),)
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

Name = Annotated[str, typer.Argument(metavar="NAME", help="The team budget's name.")]


@app.command("list")
def list_(tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """List the team budgets of a tenant."""
    names = [row["name"] for row in asyncio.run(_list(tenant, store))]
    if as_json:
        terminal.emit(names)
    else:
        table.show(NAMES, [(name,) for name in names])


@app.command()
def show(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Show a team budget: its total, and what each agent is allotted, has used, holds and has left."""
    _tell(asyncio.run(_show(name, tenant, store)), as_json)


@app.command("set")
def set_(
    name: Name,
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            metavar="NAME[=PRIORITY][:PERCENT]",
            help="An agent, its priority (1) and its part of the total, like"
            " writer=1.5:25%; those without a part share the rest equally. Repeated.",
        ),
    ],
    total_usd: Annotated[str | None, typer.Option("--total-usd", metavar="USD", help="What they may spend in all.")] = None,
    total_tokens: Annotated[
        int | None, typer.Option("--total-tokens", metavar="N", help="Tokens that they may use in all, in and out.")
    ] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Give agents a budget together, or allot it anew: to nobody less than he has used. It holds at once.

    An agent that has too little left for a call borrows of the others: the longest idle first, of each at most half of what it
    has left. What the call does not use goes back.
    """
    _tell(asyncio.run(_set(name, tenant, dict(map(_agent, agent)), total_usd, total_tokens, store)), as_json)


@app.command()
def remove(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Have a team budget limit nothing any more; what was used stays known."""
    asyncio.run(_remove(name, tenant, store))
    if as_json:
        terminal.emit({"name": name, "removed": True})
    else:
        terminal.say(f"Team budget {name} limits nothing any more.")


def _agent(given: str) -> tuple[str, TeamAgent]:
    """What `writer=1.5:25%` says. Raises UsageError."""
    from holdfast.core.nouns.team_budgets import TeamAgent

    said, _, part = given.partition(":")
    name, _, priority = said.partition("=")
    try:
        allocation = float(part.removesuffix("%")) / 100 if part else None
        return name, TeamAgent(float(priority) if priority else 1.0, allocation)
    except ValueError:
        raise UsageError(f"{given!r:.100} is no agent; write it like writer, writer=1.5 or writer=1.5:25%.") from None


async def _list(tenant: str | None, store: str | None) -> list[View]:
    async with backend(store, who(None)) as service:
        return await service.rows(query.TeamBudgets(tenant=tenant))


async def _show(name: str, tenant: str | None, store: str | None) -> View:
    async with backend(store, who(None)) as service:
        return await service.row(query.TeamBudget(name, tenant))


async def _set(
    name: str, tenant: str | None, agents: dict[str, TeamAgent | float], usd: str | None, tokens: int | None, store: str | None
) -> View:
    from holdfast.service.command import SetTeamBudget

    async with backend(store, who(None), make=True) as service:  # limits come before runs
        await service.tell(SetTeamBudget(name=name, agents=agents, total_usd=usd, total_tokens=tokens, tenant=tenant))
        return await service.row(query.TeamBudget(name, tenant))


async def _remove(name: str, tenant: str | None, store: str | None) -> None:
    from holdfast.service.command import RemoveTeamBudget

    async with backend(store, who(None)) as service:
        await service.tell(RemoveTeamBudget(name, tenant))


def _tell(found: View, as_json: bool) -> None:
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet([("Team budget", found["name"]), ("Tenant", found["tenant"])])
    for unit, books in (("usd", found["money"]), ("tokens", found["tokens"])):
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
