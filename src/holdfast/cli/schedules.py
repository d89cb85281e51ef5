"""`holdfast schedules`: what starts runs by the calendar, when next, and how the last run stands.

Never here: when a line fires.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import moment, page, table, terminal
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import acting, backend
from holdfast.cli.option import Agent, AsJson, Store, TeamBudget, Tenant, Who
from holdfast.cli.table import ID, Column
from holdfast.cli.target import is_name, load

if TYPE_CHECKING:
    from holdfast.service.command import PauseSchedule, ResumeSchedule, SetSchedule
    from holdfast.service.principal import Principal
    from holdfast.service.query import Page, View

app = typer.Typer(help="Start runs by the calendar, and see what comes next.", no_args_is_help=True)

COLUMNS: Final = (
    Column("schedule", 12),
    Column("workflow", 12, goes=2),
    Column("cron", 8),
    Column("zone", 8, goes=3),
    Column("next"),
    Column("last run", ID, goes=1),
    Column("status"),
)
TIMES: Final = (Column("time"), Column("run", ID))


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    CANCEL = "cancel"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]


@app.command("set")
def set_(
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="A workflow: FILE.py:NAME, FILE.yaml, or the name of one in the store.")
    ],
    cron: Annotated[
        str, typer.Option("--cron", metavar="LINE", help="Minute, hour, day of the month, month, weekday: '30 2 * * MON-FRI'.")
    ],
    timezone: Annotated[str, typer.Option("--timezone", metavar="ZONE", help="Of the line's times: Europe/Berlin.")] = "UTC",
    given: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="The input: JSON, @FILE of it, or @- for stdin.")
    ] = None,
    time_field: Annotated[
        str | None, typer.Option("--time-field", metavar="FIELD", help="The field of the input that is set to the run's time.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Of a workflow in the store; else the highest.")
    ] = None,
    tenant: Tenant = None,
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="A team of the tenant.")] = None,
    team_budget: TeamBudget = None,
    agent: Agent = None,
    cost_limit: Annotated[str | None, typer.Option("--cost-limit", metavar="USD", help="What each run may spend.")] = None,
    jitter_s: Annotated[
        float, typer.Option("--jitter-s", metavar="SECONDS", min=0, help="Start up to so much later, by chance.")
    ] = 0,
    overlap: Annotated[
        Overlap, typer.Option("--overlap", help="What happens at a time while the run before goes on.")
    ] = Overlap.SKIP,
    catch_up_s: Annotated[
        float, typer.Option("--catch-up-s", metavar="SECONDS", min=0, help="What was missed by more than that is left out.")
    ] = 3600,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Start a run of a workflow at each time of a cron line, or replace what was said under this name.

    It fires as long as any process works on the store: a worker, or the leader of a fleet.
    """
    how: dict[str, Any] = {
        "timezone": timezone,
        "input": None if given is None else json_value(given, "--input"),
        "time_field": time_field,
        "version": version,
        "team": team,
        "team_budget": team_budget,
        "agent": agent,
        "cost_limit_usd": cost_limit,
        "jitter_s": jitter_s,
        "overlap": overlap.value,
        "catch_up_s": catch_up_s,
        **({} if tenant is None else {"tenant": tenant}),
    }
    _tell(asyncio.run(_set(name, target, cron, how, who(by), store)), as_json)


@app.command("list")
def list_(
    tenant: page.OfTenant = None,
    after: page.After = None,
    limit: page.Limit = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the schedules, with their next times and how their last runs stand."""
    page.show(
        asyncio.run(_list(tenant, after, limit, store)),
        COLUMNS,
        _line,
        "schedules",
        "list",
        tenant=tenant,
        as_json=as_json,
        store=store,
    )


@app.command()
def show(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Show a schedule: what it starts, its next times, and what became of those that have passed."""
    _tell(asyncio.run(_show(name, tenant, store)), as_json)


@app.command()
def pause(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Let a schedule start nothing until it is resumed. What it has started goes on."""
    from holdfast.service.command import PauseSchedule

    _tell(asyncio.run(_told(PauseSchedule(name, tenant), store)), as_json)


@app.command()
def resume(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Let a schedule go on from now. The times that passed meanwhile are left out; `backfill` makes up for them."""
    from holdfast.service.command import ResumeSchedule

    _tell(asyncio.run(_told(ResumeSchedule(name, tenant), store)), as_json)


@app.command()
def remove(name: Name, tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Remove a schedule. What it has started goes on."""
    asyncio.run(_remove(name, tenant, store))
    if as_json:
        terminal.emit({"name": name, "removed": True})
    else:
        terminal.say(f"There is no schedule {name} any more.")


@app.command()
def backfill(
    name: Name,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="From when: 2026-11-21, 3d (so long ago).")],
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Until when; by default until now.")] = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Start the runs of times that have passed, all at once. A time that has had its run gets no second one."""
    found = asyncio.run(_backfill(name, tenant, since, until, store))
    if as_json:
        terminal.emit(found)
        return
    table.show(TIMES, [(_short(row["time"]), row["run_id"]) for row in found])
    terminal.say("1 time has its run." if len(found) == 1 else f"{len(found)} times have their runs.")


async def _set(name: str, target: str, cron: str, how: dict[str, Any], by: Principal, store: str | None) -> View:
    from holdfast.service import query, view
    from holdfast.service.command import SetSchedule

    if is_name(target):
        async with backend(store, by, make=True) as named:
            await named.tell(SetSchedule(name=name, workflow=target, cron=cron, **how))
            return await named.row(query.Schedule(name, how.get("tenant")))
    meant = load(target)
    async with acting(store, make=True) as service:
        kept = await service.control.set_schedule(name, meant, cron, **how, by=by.claim)
        return await view.of_schedule(service.control, kept)


async def _list(tenant: str | None, after: str | None, limit: int, store: str | None) -> Page:
    from holdfast.service import query

    async with backend(store, who(None)) as service:
        return await service.ask(query.Schedules(tenant=tenant, cursor=after, limit=limit))


async def _show(name: str, tenant: str | None, store: str | None) -> dict[str, Any]:
    from holdfast.service import query

    async with backend(store, who(None)) as service:
        return await service.row(query.Schedule(name, tenant))


async def _told(command: SetSchedule | PauseSchedule | ResumeSchedule, store: str | None) -> dict[str, Any]:
    from holdfast.service import query

    async with backend(store, who(None)) as service:
        await service.tell(command)
        return await service.row(query.Schedule(command.name, command.tenant))


async def _remove(name: str, tenant: str | None, store: str | None) -> None:
    from holdfast.service.command import RemoveSchedule

    async with backend(store, who(None)) as service:
        await service.tell(RemoveSchedule(name, tenant))


async def _backfill(name: str, tenant: str | None, since: str, until: str | None, store: str | None) -> list[View]:
    from holdfast.service.command import Backfill

    async with backend(store, who(None)) as service:
        now_ms = service.now_ms()
        until_ms = None if until is None else moment.given(until, "--until", now_ms)
        told = Backfill(name, moment.given(since, "--since", now_ms), until_ms, tenant)
        return (await service.tell_many(told)).rows


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    coming = row["next_times"][0] if row["next_times"] else None
    return (
        row["name"],
        row["workflow"],
        row["cron"],
        row["timezone"],
        "paused" if row["paused"] else _short(coming),
        row["last_run_id"] or "-",
        row["last_status"] or "-",
    )


def _short(at: str | None) -> str:
    """A time as the views have it, to the second."""
    return "-" if at is None else f"{at[:10]} {at[11:19]}Z"


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        terminal.emit(found)
        return
    version = "the highest version" if found["version"] is None else f"version {found['version']}"
    last = "none yet" if found["last_run_id"] is None else f"{found['last_run_id']} ({found['last_status'] or 'removed'})"
    terminal.sheet(
        [
            ("Schedule", found["name"]),
            ("Tenant", found["tenant"]),
            ("Workflow", f"{found['workflow']}, {version}"),
            ("Cron", f"{found['cron']} ({found['timezone']})"),
            ("While one goes on", found["overlap"]),
            *([("Jitter", f"up to {found['jitter_s']:g} s")] if found["jitter_s"] else []),
            ("Next", "paused" if found["paused"] else "\n".join(map(_short, found["next_times"])) or "never"),
            ("Last run", last),
            ("Times", f"{found['fired']} started, {found['skipped']} skipped, {_missed(found)}"),
            *([("Problem", found["problem"])] if found["problem"] else []),
        ]
    )


def _missed(found: View) -> str:
    """Return how many times were missed, and of how long they were too many to be counted."""
    uncounted = f", and those of {moment.span(found['uncounted_s'] * 1000)} more" if found["uncounted_s"] else ""
    return f"{found['missed']} missed{uncounted}"
