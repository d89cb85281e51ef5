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


def _sheet(row: View) -> None:
    version = "the highest version" if row["version"] is None else f"version {row['version']}"
    last = "none yet" if row["last_run_id"] is None else f"{row['last_run_id']} ({row['last_status'] or 'removed'})"
    uncounted = f", and those of {moment.span(row['uncounted_s'] * 1000)} more" if row["uncounted_s"] else ""
    terminal.sheet(
        [
            ("Schedule", row["name"]),
            ("Tenant", row["tenant"]),
            ("Workflow", f"{row['workflow']}, {version}"),
            ("Cron", f"{row['cron']} ({row['timezone']})"),
            ("Overlap", row["overlap"]),
            *([("Jitter", f"up to {row['jitter_s']:g} s")] if row["jitter_s"] else []),
            ("Next", "paused" if row["paused"] else "\n".join(map(moment.second, row["next_times"])) or "never"),
            ("Last run", last),
            ("Times", f"{row['fired']} started, {row['skipped']} skipped, {row['missed']} missed{uncounted}"),
            *([("Problem", row["problem"])] if row["problem"] else []),
        ]
    )


async def _set(message: SetSchedule, caller: Caller) -> View:
    """Set a schedule; one of a workflow in a file makes that known to the store."""
    from holdfast.service import view

    if is_name(message.workflow):
        async with backend(caller.store, caller.by, make=True) as named:
            await named.execute(message)
            return await named.row(query.Schedule(message.name, message.tenant))
    meant = load(message.workflow)
    how = {
        each: getattr(message, each) for each in message.__struct_fields__[3:] if each != "tenant" or message.tenant is not None
    }
    async with acting(caller.store, make=True) as service:
        kept = await service.control.set_schedule(message.name, meant, message.cron, **how, by=caller.by.claim)
        return await view.of_schedule(service.control, kept)


def _started(rows: Sequence[View]) -> None:
    table.show_rows(TIMES, rows)
    terminal.say(f"Started: {counted(len(rows), 'run')}.")


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
