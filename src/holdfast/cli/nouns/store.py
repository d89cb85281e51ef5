"""`holdfast store`: how the store stands, its migrations around a deployment, and the months that leave it.

Never here: a run's affairs (runs), reading what was archived (that is as before).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.connect import administering, asking, located, mask_passwords, typed
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import table, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import CONFLICT, OK, WAITING
from holdfast.cli.page.table import ID, Column
from holdfast.errors import MonthHeld, UsageError

if TYPE_CHECKING:
    from holdfast.engine.background.stuck import StuckRun
    from holdfast.ports import Administration, MonthStatus, RemovedData, StoreStatus

app = typer.Typer(no_args_is_help=True)

MONTHS: Final = (
    Column("month"),
    Column("runs"),
    Column("unended"),
    Column("events", goes=1),
    Column("size"),
    Column("histories", 8),
)
PROCESSES: Final = (Column("process", 20), Column("since"), Column("knows tables", goes=1))
_UNITS: Final = ((2**30, "GB"), (2**20, "MB"), (2**10, "kB"))
_OPEN: Final = ("open", "partly archived")


# --- How it stands ----------------------------------------------------------------------------------------------------


@app.command()
def status(as_json: AsJson = False, store: Store = None) -> None:
    """Show the version of the tables, the months of runs, the connected processes and the oldest run."""
    found = asyncio.run(_status(store))
    if as_json:
        terminal.emit(_plain(found))
    else:
        _show(found, store)


async def _status(store: str | None) -> StoreStatus:
    async with administering(store) as administration:
        return await administration.standing()


def _show(standing: StoreStatus, store: str | None) -> None:
    from holdfast.cli.page.moment import around

    oldest = standing.oldest_unended
    terminal.sheet(
        [
            ("Store", standing.store),
            ("Tables", _tables(standing, store)),
            ("Blobs", f"{standing.blobs} ({_size(standing.blob_bytes)})"),
            (
                "Oldest unended",
                "none: every run has ended"
                if oldest is None
                else f"{oldest.run} of {oldest.workflow} {oldest.version}, {oldest.status},"
                f" started {around(oldest.started_at_ms, standing.now_ms)}",
            ),
        ]
    )
    if standing.months:
        terminal.show("\nMonths, by when their runs were started")
        lines = [
            (each.month, str(each.runs), str(each.unended), _events(each), _size(each.stored_bytes), each.state)
            for each in standing.months
        ]
        table.show(MONTHS, lines)
    terminal.show("\nProcesses with a lease" if standing.sessions else "\nNo process has a lease: nothing is executed now.")
    if standing.sessions:
        lines2 = [
            (each.label, around(each.opened_at_ms, standing.now_ms), "-" if each.version is None else str(each.version))
            for each in standing.sessions
        ]
        table.show(PROCESSES, lines2)


def _events(month: MonthStatus) -> str:
    return f"about {month.events}" if month.is_estimate else str(month.events)


def _tables(standing: StoreStatus, store: str | None) -> str:
    if not standing.version:
        return f"none yet; make them with: {typed('store', 'migrate', store=store)}"
    if standing.pending:
        todo = ", ".join(standing.pending)
        return f"version {standing.version}, to be done: {todo}; run: {typed('store', 'migrate', store=store)}"
    if standing.version > standing.known:
        return f"version {standing.version}, newer than this Holdfast knows ({standing.known})"
    return f"version {standing.version}, up to date"


def _size(count: int | None) -> str:
    if count is None:
        return "-"
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _plain(standing: StoreStatus) -> dict[str, Any]:
    from holdfast.service import view
    from holdfast.service.view import iso

    return {
        "store": standing.store,
        "version": standing.version,
        "known": standing.known,
        "pending": list(standing.pending),
        "months": [
            {
                "month": each.month,
                "state": each.state,
                "runs": each.runs,
                "unended": each.unended,
                "events": each.events,
                "is_estimate": each.is_estimate,
                "stored_bytes": each.stored_bytes,
            }
            for each in standing.months
        ],
        "sessions": [
            {"session": each.session, "label": each.label, "opened_at": iso(each.opened_at_ms), "version": each.version}
            for each in standing.sessions
        ],
        "blobs": standing.blobs,
        "blob_bytes": standing.blob_bytes,
        "oldest_unended": None if standing.oldest_unended is None else view.of_row(standing.oldest_unended),
    }


# --- Migrations -------------------------------------------------------------------------------------------------------


STUCK: Final = (
    Column("run", ID),
    Column("workflow", 8),
    Column("status"),
    Column("step", 12),
    Column("since"),
    Column("tenant", 8, goes=1),
)


@app.command()
def check(
    wake: Annotated[bool, typer.Option("--wake", help="Start their steps again.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Find runs that wait for nothing, from the history of each waiting run. Exits with 8 if there are any."""
    from holdfast.cli.page.moment import around

    found, read, now_ms = asyncio.run(_check(wake, store))
    if as_json:
        terminal.emit({"read": read, "stuck": [_stuck(each) for each in found]})
    elif found:
        table.show(
            STUCK,
            [
                (
                    each.run,
                    f"{each.workflow} {each.version}",
                    each.status,
                    ", ".join(each.steps) or "-",
                    around(each.since_ms, now_ms),
                    each.tenant,
                )
                for each in found
            ],
        )
        goes_on = (
            "A worker that has their workflow continues them."
            if wake
            else (f"Start their steps again with: {typed('store', 'check', '--wake', store=store)}")
        )
        terminal.say(f"Waiting for nothing: {counted(len(found), 'run')}, which is a fault of Holdfast. {goes_on}")
    else:
        terminal.say(f"Each of {counted(read, 'waiting run')} has something to wait for.")
    return WAITING if found else OK


def _stuck(run: StuckRun) -> dict[str, Any]:
    from holdfast.service.view import iso

    return {
        "run_id": run.run,
        "workflow": run.workflow,
        "version": run.version,
        "tenant": run.tenant,
        "status": run.status,
        "since": iso(run.since_ms),
        "steps": [*run.steps],
    }


async def _check(wake: bool, store: str | None) -> tuple[Sequence[StuckRun], int, int]:
    """The runs that are stuck, how many were read, and when."""
    async with asking(store) as engine:
        found, read = await engine.stuck_runs()
        if wake and found:
            await engine.wake_stuck_runs()
        return found, read, engine.now_ms()


@app.command()
def migrate(
    before: Annotated[
        bool, typer.Option("--before", help="Only what comes before a deployment; old processes keep working.")
    ] = False,
    after: Annotated[bool, typer.Option("--after", help="Only what comes after it; refused while old processes live.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Migrate the tables to this version: before a deployment, after it, or (with no option) both."""
    part = None if before == after else "before" if before else "after"
    done = asyncio.run(_migrate(part, store))
    if as_json:
        terminal.emit({"migrations": list(done)})
        return
    for name in done:
        terminal.show(name)
    terminal.say(
        f"Applied {counted(len(done), 'migration')}." if done else "There was nothing to do: the tables are up to date."
    )


async def _migrate(part: str | None, store: str | None) -> Sequence[str]:
    async with administering(store) as administration:
        return await administration.migrate(part)


# --- Tenants ----------------------------------------------------------------------------------------------------------


@app.command()
def guard(
    read_role: Annotated[str, typer.Argument(metavar="READ_ROLE", help="Role that reads for tenants; it must exist.")],
    work_role: Annotated[
        list[str] | None,
        typer.Option(
            "--work-role",
            metavar="ROLE",
            help="Another role that processes use, beside yours and the owner's. May be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Separate tenants in PostgreSQL itself, with row-level security.

    A service uses it if its store URL has read_role=READ_ROLE. Repeat this after an upgrade, as the owner of the tables.
    """
    workers = asyncio.run(_guard(read_role, work_role or [], store))
    if as_json:
        terminal.emit({"read_role": read_role, "work_roles": list(workers)})
        return
    terminal.say(f"{read_role} sees the rows of one tenant at a time; {', '.join(workers)} all of them.")


async def _guard(read_role: str, work_roles: Sequence[str], store: str | None) -> Sequence[str]:
    async with administering(store) as administration:
        return await administration.guard(read_role, work_roles)


# --- Keys -------------------------------------------------------------------------------------------------------------


@app.command("forget-keys")
def forget_keys(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; this cannot be undone.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Let an encrypted store accept other keys, if those of the tenant `default` are lost.

    Data that the lost keys sealed stays unreadable. The next process that opens the store with a key file sets the new keys.
    """
    known = asyncio.run(_forget_keys(yes, store))
    if as_json:
        terminal.emit({"forgotten": known})
        return
    terminal.say(
        "The next process that opens the store with a key file says which keys count: start it with the one that all will have."
        if known
        else "There was nothing to forget: the store accepts any keys."
    )


async def _forget_keys(yes: bool, store: str | None) -> int:
    async with administering(store) as administration:
        if not yes:
            raise UsageError(
                "This has the store take other keys than before. It opens nothing: what was sealed with a lost key stays"
                " unreadable, and if the old file is found again, its processes are refused. To change a key, put the new one"
                " in front of the old one instead. Nothing was forgotten. Confirm with --yes."
            )
        return await administration.forget_keys()


# --- Backups ----------------------------------------------------------------------------------------------------------


@app.command()
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Copy a SQLite store to a file while it is in use, and verify the copy. The copy is itself a store."""
    size, place = asyncio.run(_backup(file, store))
    if as_json:
        terminal.emit({"file": file, "size_bytes": size, "large_payloads": place})
        return
    terminal.say(f"{file} is complete ({_size(size)}) and verified.")
    if place != "store":
        terminal.say(f"Large payloads are not in it: they are in {place}. Copy that too, after this, and never before.")


async def _backup(file: str, store: str | None) -> tuple[int, str]:
    async with administering(store) as administration:
        return await administration.back_up(file), located(store)[1].blobs


@app.command()
def accept(as_json: AsJson = False, store: Store = None) -> None:
    """Accept a SQLite store whose log is missing. Its latest commits may be lost."""
    from holdfast.storage import accept_store

    where = located(store)[0]
    accept_store(where)
    if as_json:
        terminal.emit({"store": mask_passwords(where), "accepted": True})
    else:
        terminal.say("The store is accepted as complete.")


# --- Months -----------------------------------------------------------------------------------------------------------


@app.command()
def archive(
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="MONTH",
            help="Months before this one (2026-09); by default from `retention.hot_days` or HOLDFAST_RETENTION_DAYS.",
        ),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Archive the histories of old months in which every run has ended.

    Archived histories are compressed and stay readable. A month with unfinished runs stays whole, and these runs are named.
    """
    archived, held = asyncio.run(_archive(before, store))
    if as_json:
        terminal.emit(
            {
                "archived": [{"month": month, **_freed(freed)} for month, freed in archived],
                "held": [{"month": month, "runs": _holders(problem)} for month, problem in held],
            }
        )
    else:
        for month, freed in archived:
            what = f"{counted(freed.runs, 'run')}, {counted(freed.events, 'event')}"
            terminal.show(f"{month}  {what}, {_size(freed.stored_bytes)} compressed")
    for _, problem in held:
        terminal.say(problem.message)
    if not archived and not held:
        terminal.say("There was nothing to archive: no month that is old enough is still in the tables.")
    raise typer.Exit(CONFLICT if held else OK)


async def _archive(before: str | None, store: str | None) -> tuple[list[tuple[str, RemovedData]], list[tuple[str, MonthHeld]]]:
    archived: list[tuple[str, RemovedData]] = []
    held: list[tuple[str, MonthHeld]] = []
    async with administering(store) as administration:
        for month in await _old_months(administration, before, store):
            try:
                archived.append((month, await administration.archive(month)))
            except MonthHeld as problem:
                held.append((month, problem))
    return archived, held


async def _old_months(administration: Administration, before: str | None, store: str | None) -> list[str]:
    """Return the months before that one which are still in the tables. Raises UsageError without a given age."""
    standing = await administration.standing()
    if before is not None:
        _expect_month(before)
        return [each.month for each in standing.months if each.month < before and each.state in _OPEN]
    known = located(store)[1]
    hot_days = known.retention.hot_days if known.retention is not None else None
    days = hot_days if hot_days is not None else known.retention_days
    if days is None:
        raise UsageError(
            "Pass --before 2026-09, or set how long months stay in the tables: hot_days under [retention] in"
            " holdfast.toml, or HOLDFAST_RETENTION_DAYS. Nothing was archived."
        )
    from holdfast.engine.runs.retention import cold

    return cold(standing, days)


def _expect_month(text: str) -> None:
    if re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text) is None:
        raise UsageError(f"{text!r} is not a month; write it like 2026-09. Nothing was done.")


@app.command()
def prune(
    before: Annotated[str, typer.Option("--before", metavar="MONTH", help="All months before this one (2026-09).")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; this cannot be undone.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Remove the archives of old months and their large payloads permanently. The runs stay in lists."""
    freed = asyncio.run(_prune(before, yes, store))
    if as_json:
        terminal.emit(_freed(freed))
    else:
        what = f"{counted(freed.runs, 'history', 'histories')} with {counted(freed.events, 'event')}"
        terminal.say(f"Removed for good: {what}; {_size(freed.stored_bytes)} free.")


async def _prune(before: str, yes: bool, store: str | None) -> RemovedData:
    _expect_month(before)
    async with administering(store) as administration:
        if not yes:
            months = [each for each in (await administration.standing()).months if each.month < before]
            gone = [each for each in months if each.state == "archived"]
            histories = counted(sum(each.runs for each in gone), "history", "histories")
            raise UsageError(
                f"This removes {histories} ({', '.join(each.month for each in gone) or 'none'})"
                f" and their large payloads{_also_in(located(store)[1].blobs)} for good, and nothing brings them back."
                " Nothing was removed. Confirm with --yes."
            )
        return await administration.prune(before)


def _also_in(place: str) -> str:
    return "" if place == "store" else f", those in {place} too,"


def _freed(freed: RemovedData) -> dict[str, Any]:
    return {"runs": freed.runs, "events": freed.events, "stored_bytes": freed.stored_bytes}


def _holders(problem: MonthHeld) -> list[dict[str, Any]]:
    from holdfast.service.view import iso

    return [
        {
            "run_id": each.run,
            "tenant": each.tenant,
            "workflow": each.workflow,
            "status": each.status,
            "started_at": iso(each.started_at_ms),
            "why": each.why,
        }
        for each in problem.runs
    ]


EXAMPLES: Final = {
    "status": "",
    "check": "",
    "migrate": "--before",
    "guard": "reader",
    "forget-keys": "--yes",
    "backup": "backup.db",
    "accept": "",
    "archive": "--before 2026-09",
    "prune": "--before 2026-06 --yes",
}
