"""`holdfast schedules`: what starts runs by the calendar, when next, and how the last run stands.

Never here: when a line fires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.connect import acting, backend
from holdfast.cli.noun import ArgumentSpec, Caller, Noun
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import ID, Column
from holdfast.cli.target import is_name, load
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.service.declarations.command import SetSchedule
    from holdfast.service.declarations.query import View

TIMES: Final = (Column("time", of=lambda row: moment.second(row["time"])), Column("run", ID, of="run_id"))
WORKFLOW: Final = "Workflow: FILE.py:NAME, FILE.yaml, or the name of one in the store."


def _sheet(found: View) -> None:
    version = "the highest version" if found["version"] is None else f"version {found['version']}"
    last = "none yet" if found["last_run_id"] is None else f"{found['last_run_id']} ({found['last_status'] or 'removed'})"
    uncounted = f", and those of {moment.span(found['uncounted_s'] * 1000)} more" if found["uncounted_s"] else ""
    terminal.sheet(
        [
            ("Schedule", found["name"]),
            ("Tenant", found["tenant"]),
            ("Workflow", f"{found['workflow']}, {version}"),
            ("Cron", f"{found['cron']} ({found['timezone']})"),
            ("Overlap", found["overlap"]),
            *([("Jitter", f"up to {found['jitter_s']:g} s")] if found["jitter_s"] else []),
            ("Next", "paused" if found["paused"] else "\n".join(map(moment.second, found["next_times"])) or "never"),
            ("Last run", last),
            ("Times", f"{found['fired']} started, {found['skipped']} skipped, {found['missed']} missed{uncounted}"),
            *([("Problem", found["problem"])] if found["problem"] else []),
        ]
    )


async def _set(told: SetSchedule, caller: Caller) -> View:
    """Set a schedule; one of a workflow in a file makes that known to the store."""
    from holdfast.service import view

    if is_name(told.workflow):
        async with backend(caller.store, caller.by, make=True) as named:
            await named.execute(told)
            return await named.row(query.Schedule(told.name, told.tenant))
    meant = load(told.workflow)
    how = {each: getattr(told, each) for each in told.__struct_fields__[3:] if each != "tenant" or told.tenant is not None}
    async with acting(caller.store, make=True) as service:
        kept = await service.control.set_schedule(told.name, meant, told.cron, **how, by=caller.by.claim)
        return await view.of_schedule(service.control, kept)


def _started(found: Sequence[View]) -> None:
    table.show_rows(TIMES, found)
    terminal.say(f"Started: {counted(len(found), 'run')}.")


SCHEDULES: Final = Noun("schedules", query.Schedule, _sheet)
app = SCHEDULES.app

SCHEDULES.verb(
    "set",
    command.SetSchedule,
    words={
        "workflow": ArgumentSpec("WORKFLOW", help=WORKFLOW),
        "cron": "--cron LINE",
        "timezone": "--timezone ZONE",
        "input": "--input/-i JSON",
        "time_field": "--time-field FIELD",
        "version": ArgumentSpec("--version N", least=1),
        "cost_limit_usd": "--cost-limit USD",
        "jitter_s": ArgumentSpec("--jitter-s SECONDS", least=0),
        "catch_up_s": ArgumentSpec("--catch-up-s SECONDS", least=0),
    },
    signed=True,
    deed=_set,
)
SCHEDULES.list(
    query.Schedules,
    Column("schedule", 12, of="name"),
    Column("workflow", 12, goes=2),
    Column("cron", 8),
    Column("zone", 8, goes=3, of="timezone"),
    Column("next", of=lambda row: "paused" if row["paused"] else moment.second(next(iter(row["next_times"]), None))),
    Column("last run", ID, goes=1, of="last_run_id"),
    Column("status", of="last_status"),
)
SCHEDULES.show()
SCHEDULES.verb("pause", command.PauseSchedule)
SCHEDULES.verb("resume", command.ResumeSchedule)
SCHEDULES.verb("remove", command.RemoveSchedule, done="removed", says="Removed schedule {name}.")
SCHEDULES.verb("backfill", command.Backfill, words={"since_ms": "--since TIME"}, says=_started)


EXAMPLES: Final = {
    "set": "nightly refund.py:refund --cron '0 2 * * *' -i @in.json",
    "list": "",
    "show": "nightly",
    "pause": "nightly",
    "resume": "nightly",
    "remove": "nightly",
    "backfill": "nightly --since 3d",
}
