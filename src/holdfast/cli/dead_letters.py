"""`holdfast dead-letters`: what has failed for good, and what is to become of it.

Never here: what a replay does (the engine), the bounds of a bulk (bulk).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from holdfast.cli import bulk, moment, reference, table, terminal
from holdfast.cli.bulk import MOST, DryRun, Limit, Yes
from holdfast.cli.exit_code import OK
from holdfast.cli.filter import Tenant, Workflow
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import backend
from holdfast.cli.option import MOST_LISTED, AsJson, ListLimit, Reason, Store, Who
from holdfast.cli.runs import tell_run
from holdfast.cli.table import ID, Column
from holdfast.errors import UsageError
from holdfast.service import query

if TYPE_CHECKING:
    from holdfast.cli.backend import Asking, Backend
    from holdfast.service.declaration import Command

app = typer.Typer(
    help="See what has failed for good, and have it tried again, perhaps with another input, or be done with it.",
    no_args_is_help=True,
)

COLUMNS: Final = (
    Column("letter", ID),
    Column("error", 8),
    Column("attempts", goes=2),
    Column("last"),
    Column("first", goes=3),
    Column("workflow", 8, goes=1),
    Column("message", 12, goes=4),
)
KINDS: Final = (
    Column("workflow", 8),
    Column("node", 8),
    Column("error", 8),
    Column("open"),
    Column("oldest"),
    Column("resolved", goes=1),
)


class LetterState(StrEnum):
    """Whether somebody has said what is to become of it."""

    OPEN = "open"
    RESOLVED = "resolved"
    ANY = "any"


_STATES: Final[dict[LetterState, Literal["open", "resolved", "any"]]] = {
    LetterState.OPEN: "open",
    LetterState.RESOLVED: "resolved",
    LetterState.ANY: "any",
}
LetterArgument = Annotated[
    str, typer.Argument(metavar="LETTER", help="As `dead-letters list` shows it, RUN:STEP; RUN, where it has only one.")
]
MaybeLetter = Annotated[
    str | None, typer.Argument(metavar="LETTER", help="As `dead-letters list` shows it, RUN:STEP; RUN, where it has only one.")
]
Run = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run's.")]
NodeOption = Annotated[str | None, typer.Option("--node", metavar="NAME", help="Only this node's.")]
ErrorClass = Annotated[
    str | None, typer.Option("--error", metavar="CLASS", help="Only those that failed of this, as the list names it.")
]
State = Annotated[LetterState, typer.Option("--state", help="Those that are open, resolved, or any.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only those that last failed since then.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only those that last failed before then.")]
All = Annotated[bool, typer.Option("--all", help="All open letters that the options --run to --until find.")]


def _sought(
    asking: Asking,
    tenant: str | None,
    workflow: str | None,
    node: str | None,
    error: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    now_ms = asking.now_ms()
    return {
        "tenant": tenant,
        "workflow": workflow,
        "node": node,
        "error_class": error,
        "since_ms": None if since is None else moment.given(since, "--since", now_ms),
        "until_ms": None if until is None else moment.given(until, "--until", now_ms),
    }


@app.command("list")
def list_(
    run: Run = None,
    tenant: Tenant = None,
    workflow: Workflow = None,
    node: NodeOption = None,
    error: ErrorClass = None,
    state: State = LetterState.OPEN,
    since: Since = None,
    until: Until = None,
    after: Annotated[str | None, typer.Option("--after", metavar="LETTER", help="Only those after this one.")] = None,
    limit: ListLimit = MOST_LISTED,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List what has failed for good and waits for somebody, the oldest run's first."""

    async def work() -> None:
        async with backend(store, who(None)) as service:
            named = None if run is None else await reference.run_id(service, run)
            sought = _sought(service, tenant, workflow, node, error, since, until)
            asked = query.DeadLetters(run=named, state=_STATES[state], cursor=after, **sought)
            rows = await service.rows(asked, limit + 1)
            now_ms = service.now_ms()
        rows, more = rows[:limit], len(rows) > limit
        if more:
            terminal.say(f"There are more: say the same with --after {rows[-1]['letter']}")
        if as_json:
            terminal.emit(rows)
            return
        table.show(
            COLUMNS,
            [
                (
                    row["letter"],
                    row["error_class"],
                    str(row["attempts"]),
                    moment.ago(moment.ms(row["last_at"]), now_ms),
                    moment.ago(moment.ms(row["first_at"]), now_ms),
                    row["workflow"],
                    row["message"],
                )
                for row in rows
            ],
        )

    asyncio.run(work())


@app.command()
def show(letter: LetterArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show one: its attempts, its error, what its step had come to, and the input of its run."""

    async def work() -> dict[str, Any]:
        async with backend(store, who(None)) as service:
            return await service.row(query.DeadLetter(await _named(service, letter)))

    found = asyncio.run(work())
    if as_json:
        terminal.emit(found)
        return
    error = found["error"] or {}
    terminal.sheet(
        [
            ("Letter", f"{found['letter']} ({found['state']}{', edited' if found['edited'] else ''})"),
            ("Workflow", found["workflow"]),
            ("Run", f"{found['run_id']}: {found['status']}"),
            ("Attempts", f"{found['attempts']}, from {found['first_at']} to {found['last_at']}"),
            ("Error", f"{found['error_class']}: {error.get('message', found['message'])}"),
            ("Input", terminal.as_json(found["input"])),
            *_call(found),
        ]
    )
    for op in found["operations"]:
        terminal.show(f"  {op['path']}  {op['kind']} {op['name']}: {op['status']}")
    if found["gate"]:
        terminal.show(f"Asked: {found['gate']}")


def _call(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What failed in the end, where it was a call of a tool."""
    named = {op["path"]: op["name"] for op in found["operations"] if op["kind"] == "tool"}
    if (tool := named.get(found["failed_at"])) is None:
        return []
    lines = [("Failed call", f"{tool} at {found['failed_at']}, with {terminal.as_json(found['arguments'])}")]
    edited = found["edited_arguments"]
    return [*lines, *([("To be called with", terminal.as_json(edited))] if edited is not None else [])]


@app.command()
def summary(tenant: Tenant = None, as_json: AsJson = False, store: Store = None) -> None:
    """Count them by workflow, node and error, with the age of the oldest that is open."""

    async def work() -> list[dict[str, Any]]:
        async with backend(store, who(None)) as service:
            return await service.rows(query.DeadLetterSummary(tenant))

    found = asyncio.run(work())
    if as_json:
        terminal.emit(found)
        return
    table.show(
        KINDS,
        [
            (
                each["workflow"],
                each["node"],
                each["error_class"],
                str(each["open"]),
                "-" if each["oldest_open_s"] is None else moment.span(each["oldest_open_s"] * 1000),
                str(each["resolved"]),
            )
            for each in found
        ],
    )


@app.command()
def edit(
    letter: LetterArgument,
    data: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="The run's input from now on: JSON, @FILE, or @-.")
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", metavar="JSON", help="What the tool is to be called with that failed: JSON, @FILE, or @-."),
    ] = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Give the run another input, or the call that failed other arguments, for the letter to be replayed with."""
    from holdfast.service import command as cmd

    if data is None and arguments is None:
        raise UsageError("Say what is to be otherwise: --input JSON or --arguments JSON. Nothing was changed.")
    given = {} if data is None else {"input": json_value(data, "--input")}
    if arguments is not None:
        given["arguments"] = json_value(arguments, "--arguments")
    _tell(lambda id_: cmd.EditDeadLetter(id_, **given), letter, by, as_json, store)


@app.command()
def replay(
    letter: MaybeLetter = None,
    every: All = False,
    run: Run = None,
    tenant: Tenant = None,
    workflow: Workflow = None,
    node: NodeOption = None,
    error: ErrorClass = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = MOST,
    yes: Yes = False,
    dry_run: DryRun = False,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Try one again, or all of some: what was done keeps its keys and is not done again."""
    from holdfast.service import command as cmd

    sought = (run, tenant, workflow, node, error, since, until)
    return _do("replay", cmd.ReplayDeadLetter, letter, every, sought, limit, yes, dry_run, by, as_json, store)


@app.command()
def resolve(
    letter: MaybeLetter = None,
    every: All = False,
    run: Run = None,
    tenant: Tenant = None,
    workflow: Workflow = None,
    node: NodeOption = None,
    error: ErrorClass = None,
    since: Since = None,
    until: Until = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="JSON", help="What the step comes to, where its run waits for that.")
    ] = None,
    fail: Annotated[
        bool, typer.Option("--fail", help="Have a run that waits for an answer fail. One that has failed just stays so.")
    ] = False,
    reason: Reason = None,
    limit: Limit = MOST,
    yes: Yes = False,
    dry_run: DryRun = False,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Be done with one, or with all of some: with this output, or with the failure. It is listed for three days then."""
    from holdfast.service import command as cmd

    if (output is not None) == fail:
        raise UsageError("Say what is to become of it: --output JSON or --fail. Nothing was done.")
    given = {} if output is None else {"output": json_value(output, "--output")}

    def told(id_: str) -> Command:
        return cmd.ResolveDeadLetter(id_, reason=reason, **given)

    sought = (run, tenant, workflow, node, error, since, until)
    return _do("resolve", told, letter, every, sought, limit, yes, dry_run, by, as_json, store)


async def _named(asking: Asking, letter: str) -> str:
    """Its whole id: the run may be named by the beginning of its own."""
    run, _, step = letter.partition(":")
    found = await reference.run_id(asking, run)
    return f"{found}:{step}" if step else found


def _tell(deed: Callable[[str], Command], letter: str, by: str | None, as_json: bool, store: str | None) -> None:
    async def work() -> dict[str, Any]:
        async with backend(store, who(by)) as service:
            run = await service.tell(deed(await _named(service, letter)))
            assert run is not None
            return run

    tell_run(asyncio.run(work()), as_json)


def _do(
    name: str,
    deed: Callable[[str], Command],
    letter: str | None,
    every: bool,
    sought: Sequence[str | None],
    limit: int,
    yes: bool,
    dry_run: bool,
    by: str | None,
    as_json: bool,
    store: str | None,
) -> int:
    """Do something to one letter, or to all that are found; or only tell which those are."""
    if (letter is None) != every:
        raise UsageError("Name a letter, or say --all with what finds them (--workflow, --node, --error, ...).")
    if letter is not None and not dry_run:
        _tell(deed, letter, by, as_json, store)
        return OK

    async def work() -> int:
        async with backend(store, who(by)) as service:
            ids, more = await _found(service, letter, sought, limit)
            if dry_run:
                if as_json:
                    terminal.emit(ids)
                for id_ in () if as_json else ids:
                    terminal.show(id_)
                terminal.say(f"{name}: {len(ids)} would be told to. Nothing was done.")
                return OK
            if ids:
                bulk.expect_agreed(name, f"{len(ids)} dead letter{'' if len(ids) == 1 else 's'}", yes)
            return await bulk.tell_each(service, name, ids, deed, more, as_json)

    return asyncio.run(work())


async def _found(service: Backend, letter: str | None, sought: Sequence[str | None], limit: int) -> tuple[list[str], bool]:
    if letter is not None:
        return [(await service.row(query.DeadLetter(await _named(service, letter))))["letter"]], False
    run, *others = sought
    named = None if run is None else await reference.run_id(service, run)
    rows = await service.rows(query.DeadLetters(run=named, **_sought(service, *others)), limit + 1)
    ids = [each["letter"] for each in rows]
    return ids[:limit], len(ids) > limit
