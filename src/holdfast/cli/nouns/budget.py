"""`holdfast budget`: the books of a run, of a tenant and of its teams, and what each may spend.

Never here: a price.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.noun import Caller, Signed
from holdfast.cli.option import AsJson, DryRun, OfTenant, RunArgument, Store
from holdfast.cli.page import table, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.event_format import tell_run
from holdfast.cli.page.moment import age, ms, parse_time, second
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import NotFound, UsageError
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

app = typer.Typer(no_args_is_help=True)

BOOKS: Final = (
    Column("scope", 16),
    Column("limit"),
    Column("settled"),
    Column("held", goes=2),
    Column("in doubt", goes=1),
    Column("left"),
)
WAITING: Final = (Column("in", 12), Column("run", ID), Column("wants"))
IN_DOUBT: Final = (Column("call", ID), Column("model", 12), Column("hold"), Column("at", goes=1))

DOUBTS: Final = (
    Column("call", ID),
    Column("model", 12),
    Column("hold", of=lambda row: f"${row['hold_usd']}"),
    Column("sent", goes=2, of=lambda row: second(row["sent_at"])),
    Column("in doubt", goes=3, of=lambda row: age(row["in_doubt_since"])),
    Column("why", 12, goes=1, of=lambda row: row["error"] or row["error_class"]),
)
_MAX_NAMED: Final = 5

Tenant = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Tenant, with all its runs together.")]
Team = Annotated[str | None, typer.Option("--team", metavar="NAME", help="Team of the tenant; by default the whole tenant.")]


@app.command()
def show(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="Id of the run.")] = None,
    tenant: Tenant = None,
    team: Team = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show the budget of a run, or of a tenant or team for today and this month (UTC)."""
    _expect_tenant(tenant, team)
    if (run is None) == (tenant is None):
        raise UsageError("Pass either a run (holdfast budget show RUN) or a tenant (holdfast budget show --tenant NAME).")
    if run is not None:
        asyncio.run(_show(run, as_json, store))
    elif tenant is not None:
        _tell_owner(asyncio.run(_owner(tenant, team, store)), as_json)


@app.command("set")
def set_(
    tenant: Tenant = None,
    team: Team = None,
    day: Annotated[
        str | None, typer.Option("--day-usd", metavar="USD", help="Limit for each day in dollars; `none` for no limit.")
    ] = None,
    month: Annotated[
        str | None, typer.Option("--month-usd", metavar="USD", help="Limit for each month in dollars; `none` for no limit.")
    ] = None,
    day_tokens: Annotated[
        str | None,
        typer.Option(
            "--day-tokens", metavar="N", help="Limit for each day in tokens, input and output together; `none` for no limit."
        ),
    ] = None,
    month_tokens: Annotated[
        str | None,
        typer.Option(
            "--month-tokens",
            metavar="N",
            help="Limit for each month in tokens, input and output together; `none` for no limit.",
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove the limits of both day and month.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Limit what the runs of a tenant or team may spend in each day and month (UTC).

    The limit holds at once. Calls that do not fit wait until others have settled, the limit is raised, or the next day or month
    begins.
    """
    _expect_tenant(tenant, team)
    if tenant is None:
        raise UsageError("Pass --tenant NAME. To raise the limit of a run, use `holdfast budget raise`.")
    money, tokens = {"day": day, "month": month}, {"day": day_tokens, "month": month_tokens}
    if none == any(each is not None for each in (*money.values(), *tokens.values())):
        raise UsageError("Pass a limit (--day-usd, --month-usd, --day-tokens or --month-tokens), or --none to remove all.")
    if none:
        money = tokens = {"day": "none", "month": "none"}
    found = asyncio.run(_set(tenant, team, money, tokens, store))
    _tell_owner(found, as_json)


def _expect_tenant(tenant: str | None, team: str | None) -> None:
    if team is not None and tenant is None:
        raise UsageError(f"A team belongs to a tenant: add --tenant NAME to --team {team}.")


async def _set(
    tenant: str, team: str | None, money: dict[str, str | None], tokens: dict[str, str | None], store: str | None
) -> dict[str, Any]:
    from holdfast.core.rules.limits import whole_tokens
    from holdfast.core.values.money import nanousd
    from holdfast.core.values.scopes import PERIODS
    from holdfast.service.declarations.command import SetBudget

    wishes: list[SetBudget] = []
    try:
        for period in PERIODS:
            if (amount := money[period]) is not None:
                given = None if amount.lower() == "none" else amount
                nanousd(given or 0)
                wishes.append(SetBudget(tenant, period, given, team))
            if (amount := tokens[period]) is not None:
                most = None if amount.lower() == "none" else whole_tokens(int(amount) if amount.isdecimal() else amount)
                wishes.append(SetBudget(tenant, period, None, team, in_tokens=True, max_tokens=most))
    except ValueError as problem:
        raise UsageError(f"{problem}; or `none` for no limit. Nothing was changed.") from None
    async with backend(store, resolve_actor(None), make=True) as service:  # limits come before runs
        for wish in wishes:
            await service.execute(wish)
        return await service.row(query.Budget(tenant, team))


async def _owner(tenant: str, team: str | None, store: str | None) -> dict[str, Any]:
    async with backend(store, resolve_actor(None)) as service:
        return await service.row(query.Budget(tenant, team))


def _tell_owner(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        terminal.emit(row)
        return
    columns = ("limit_usd", "settled_usd", "held_usd", "in_doubt_usd", "left_usd")
    of_tokens = ("max_tokens", "settled_tokens", "held_tokens", "in_doubt_tokens", "left_tokens")
    lines = [
        (each["scope"], *(f"${each[name]}" if each[name] is not None else "none" for name in columns)) for each in row["books"]
    ]
    lines += [
        (f"tokens of {each['scope']}", *(str(each[name]) if each[name] is not None else "none" for name in of_tokens))
        for each in row["books"]
    ]
    table.show(BOOKS, lines)
    waiting = [(each["scope"], who["run_id"], _format_amount(who)) for each in row["books"] for who in each["waiting"]]
    if waiting:
        terminal.show("\nRuns that wait for room, longest first")
        table.show(WAITING, waiting)


async def _show(run: str, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        found = await service.row(query.RunBudget(await reference.run_id(service, run)))
    if as_json:
        terminal.emit(found)
        return
    limit, available = found["limit_usd"], found["available_usd"]
    terminal.sheet(
        [
            ("Limit", f"${limit}" if limit is not None else "none"),
            ("Settled", f"${found['settled_usd']}"),
            ("Held", f"${found['held_usd']}"),
            ("In doubt", f"${found['in_doubt_usd']}"),
            ("Available", f"${available}" if available is not None else "no limit"),
        ]
    )
    if found["in_doubt"]:
        terminal.show("\nCalls in doubt, which count as spent until they are reconciled")
        lines = [(call["call"], call["model"], f"${call['hold_usd']}", call["at"]) for call in found["in_doubt"]]
        table.show(IN_DOUBT, lines)


def _format_amount(waiter: View) -> str:
    return f"${waiter['wanted_usd']}" if "wanted_usd" in waiter else counted(waiter["wanted_tokens"], "token")


@app.command("raise")
def raise_(
    run: RunArgument,
    limit: Annotated[str | None, typer.Argument(metavar="USD", help="New cost limit in dollars.")] = None,
    more: Annotated[
        str | None, typer.Option("--by", metavar="USD", help="Amount to add to the current limit, instead of a new limit.")
    ] = None,
    dry_run: DryRun = False,
    *,
    caller: Signed,
) -> None:
    """Raise the cost limit of a run. A blocked run continues where it stopped."""
    if (limit is None) == (more is None):
        raise UsageError("Pass either a new limit (holdfast budget raise RUN 2.00) or an amount to add (--by 0.50).")
    found = asyncio.run(_raise(run, limit, more, dry_run, caller))
    if found is not None:
        tell_run(found, caller.as_json)


async def _raise(run: str, limit: str | None, more: str | None, dry_run: bool, caller: Caller) -> dict[str, Any] | None:
    from holdfast.cli.dry_run import tell_all
    from holdfast.cli.next_steps import with_next
    from holdfast.service.declarations.command import RaiseBudget

    async with backend(caller.store, caller.by) as service:
        row = await reference.run(service, run)
        wish = RaiseBudget(row["run_id"], str(limit if limit is not None else _sum(row, more or "")))
        if dry_run:
            await tell_all(service, "raise", [wish], caller.as_json)
            return None
        found = await service.execute(wish)
        assert found is not None
        return await with_next(service, found, caller.as_json, caller.store)


def _sum(run: View, more: str) -> Decimal:
    """Return the run's limit plus an amount."""
    if run["limit_usd"] is None:
        raise UsageError(f"Run {run['run_id']} has no limit, so there is nothing to raise.")
    try:
        added = Decimal(more)
    except InvalidOperation:
        raise UsageError(f"{more!r} is not an amount of dollars; write it like 0.50.") from None
    return Decimal(run["limit_usd"]) + added


# --- Money in doubt ---------------------------------------------------------------------------------------------------

OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="TIME", help="Only calls that have been in doubt for this long: 1h, 2d; or since this time."
    ),
]
OfRun = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run.")]


@app.command("doubts")
def doubts_(
    tenant: OfTenant = None, run: OfRun = None, older_than: OlderThan = None, as_json: AsJson = False, store: Store = None
) -> None:
    """List model calls whose cost is unknown. Their holds count as spent until you reconcile them.

    A cost is unknown if the process died, or if no readable response came. Compare with the provider's bill, by model and time.
    """
    found = asyncio.run(_doubts(tenant, run, older_than, store))
    if as_json:
        terminal.emit(found)
        return
    table.show_rows(DOUBTS, found)
    terminal.say(_sum_of(found))


@app.command()
def reconcile(
    call: Annotated[str | None, typer.Argument(metavar="CALL", help="Id of the call, as `budget doubts` lists it.")] = None,
    cost: Annotated[str | None, typer.Option("--cost", metavar="USD", help="Cost of the call in dollars.")] = None,
    unspent: Annotated[bool, typer.Option("--unspent", help="Record that the call cost nothing.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Reconcile all calls in doubt that match the other options.")] = False,
    tenant: OfTenant = None,
    run: OfRun = None,
    older_than: OlderThan = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; required with --all.")] = False,
    *,
    caller: Signed,
) -> None:
    """Record the cost of a model call in doubt, or of all of them. The rest of what was held is free again at once."""
    if (cost is None) == (not unspent):
        raise UsageError("Pass --cost USD or --unspent. Nothing was reconciled.")
    if (call is None) != all_ or (call is not None and (tenant or run or older_than)):
        raise UsageError(
            "Name one call (holdfast budget doubts lists them), or --all with --run, --tenant or --older-than as you like."
            " Nothing was reconciled."
        )
    amount = cost if cost is not None else "0"
    done = asyncio.run(_reconcile(call, amount, tenant, run, older_than, yes, caller))
    if caller.as_json:
        terminal.emit({"reconciled": done, "cost_usd_each": amount})
    else:
        terminal.say(f"Reconciled: {', '.join(done) if len(done) <= _MAX_NAMED else counted(len(done), 'call')}.")


async def _doubts(tenant: str | None, run: str | None, older_than: str | None, store: str | None) -> list[View]:
    async with backend(store, resolve_actor(None)) as service:
        return await _find_doubts(service, tenant, run, older_than)


async def _find_doubts(asking: QueryBackend, tenant: str | None, run: str | None, older_than: str | None) -> list[View]:
    until_ms = None if older_than is None else parse_time(older_than, "--older-than", asking.now_ms())
    named = None if run is None else await reference.run_id(asking, run)
    found = await asking.rows(query.Doubts(tenant=tenant, run=named))
    return [each for each in found if until_ms is None or ms(each["in_doubt_since"]) <= until_ms]


async def _reconcile(
    call: str | None, cost: str, tenant: str | None, run: str | None, older_than: str | None, yes: bool, caller: Caller
) -> list[str]:
    from holdfast.service.declarations.command import Reconcile

    async with backend(caller.store, caller.by) as service:
        if call is not None:
            known = [each["call"] for each in await service.rows(query.Doubts()) if reference.is_meant(call, each["call"])]
            if len(known) > 1 and call not in known:
                raise UsageError(
                    f"{call!r} is the beginning of {counted(len(known), 'call')} in doubt; write more of it. Nothing was done."
                )
            one = known[0] if len(known) == 1 else call
            await service.execute(Reconcile(one, cost))
            return [one]
        found = await _find_doubts(service, tenant, run, older_than)
        if not yes:
            raise UsageError(f"{_sum_of(found)} This records a cost of ${cost} for each. Nothing was done. Confirm with --yes.")
        done = []
        for each in found:
            try:
                await service.execute(Reconcile(each["call"], cost))
            except NotFound:
                continue  # another was there first
            done.append(each["call"])
        return done


def _sum_of(rows: Sequence[View]) -> str:
    from holdfast.core.values.money import nanousd, usd

    runs = len({each["run_id"] for each in rows})
    held = usd(sum(nanousd(each["hold_usd"]) for each in rows))
    return f"In doubt: {counted(len(rows), 'call')} of {counted(runs, 'run')}, with ${held} held."


EXAMPLES: Final = {
    "show": "--tenant acme",
    "set": "--tenant acme --day-usd 20",
    "raise": "019aa8b2 --by 0.50",
    "doubts": "--older-than 1h",
    "reconcile": "--all --older-than 2d --unspent --yes",
}
