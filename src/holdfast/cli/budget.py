"""`holdfast budget`: the books of a run, and raising its limit.

Never here: a price.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.given import who
from holdfast.cli.opening import asking
from holdfast.cli.option import AsJson, RunArgument, Store, Who
from holdfast.cli.runs import tell_run
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.state import State

app = typer.Typer(help="See what a run has spent and set aside, and raise its limit.", no_args_is_help=True)


@app.command()
def show(run: RunArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show a run's limit, what is settled, held and in doubt, and each call whose cost nobody knows."""
    asyncio.run(_show(run, as_json, store))


async def _show(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import report

    async with asking(store) as engine:
        await engine.find(run)
        found = report.of_budget(await engine.run(run).state())
    if as_json:
        terminal.emit(found)
        return
    limit, available = found["limit_usd"], found["available_usd"]
    terminal.sheet([
        ("Limit", f"${limit}" if limit is not None else "none"),
        ("Settled", f"${found['settled_usd']}"),
        ("Held", f"${found['held_usd']}"),
        ("In doubt", f"${found['in_doubt_usd']}"),
        ("Available", f"${available}" if available is not None else "no limit"),
    ])  # fmt: skip
    if found["in_doubt"]:
        terminal.show("\nCalls in doubt: they count as spent until somebody knows better")
        lines = [(call["call"], call["model"], f"${call['hold_usd']}", call["at"]) for call in found["in_doubt"]]
        terminal.table(("call", "model", "hold", "at"), lines)


@app.command("raise")
def raise_(
    run: RunArgument,
    limit: Annotated[str | None, typer.Argument(metavar="USD", help="The new limit.")] = None,
    more: Annotated[str | None, typer.Option("--by", metavar="USD", help="How much more, instead.")] = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Raise what a run may spend; one that is blocked goes on from the same place."""
    if (limit is None) == (more is None):
        raise UsageError("Give either the new limit (holdfast budget raise RUN 2.00) or how much more (--by 0.50).")
    tell_run(asyncio.run(_raise(run, limit, more, who(by), store)), as_json)


async def _raise(run: str, limit: str | None, more: str | None, by: str, store: str | None) -> dict[str, Any]:
    from holdfast.cli import report

    async with asking(store) as engine:
        await engine.find(run)
        handle = engine.run(run)
        new = limit if limit is not None else _sum(await handle.state(), more or "")
        await engine.raise_budget(run, new, by=by)
        return await report.of_run(engine, await handle.state())


def _sum(state: State, more: str) -> Decimal:
    """The run's limit and so much more."""
    from holdfast.core.money import usd

    if state.budget.limit_nanousd is None:
        raise UsageError(f"Run {state.run} has no limit, so there is nothing to raise.")
    try:
        added = Decimal(more)
    except InvalidOperation:
        raise UsageError(f"{more!r} is not an amount of dollars; write it like 0.50.") from None
    return Decimal(usd(state.budget.limit_nanousd)) + added
