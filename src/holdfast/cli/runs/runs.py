"""`holdfast runs`: what runs there are, what happened in one, and what a person may do to it.

Never here: starting one (run), answering its gates (gates), how they are shown (listing, portrait, history).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from holdfast.cli import bulk, connect, reference
from holdfast.cli import dry_run as quotes
from holdfast.cli.backend import ListBackend
from holdfast.cli.bulk import BulkSelection, Deed, OneOrMany
from holdfast.cli.connect import acting, backend, server
from holdfast.cli.filter import ListOptions, Selected
from holdfast.cli.group import Group
from holdfast.cli.noun import ArgumentSpec, Caller, Noun, Signed
from holdfast.cli.nouns import score
from holdfast.cli.option import AsJson, DryRun, MaybeRun, Reason, RunArgument, Store
from holdfast.cli.page import console_page, terminal
from holdfast.cli.page.event_format import tell_run
from holdfast.cli.page.exit_code import OK
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process import dev_server
from holdfast.cli.runs import drawing, history, listing, run_view, transcript
from holdfast.cli.runs.comparison import diff
from holdfast.cli.runs.explanation import explain
from holdfast.cli.runs.fork import fork
from holdfast.cli.runs.recording import export
from holdfast.cli.runs.stream import stream
from holdfast.cli.runs.tail import tail
from holdfast.cli.runs.trace import trace as show_trace
from holdfast.core.nouns.labels import change
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow as Definition
    from holdfast.service.declarations.declaration import Command
    from holdfast.service.declarations.query import View

RUNS: Final = Noun("runs")
app = RUNS.app


@app.command("list")
def list_(
    *,
    filters: Selected,
    before: Annotated[str | None, typer.Option("--before", metavar="RUN", help="Only runs older than this one.")] = None,
    children_of: Annotated[str | None, typer.Option("--children-of", metavar="RUN", help="Only children of this run.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1_000_000, help="Maximum number of rows.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Print each run again when it changes, until interrupted.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List runs, newest first."""
    named = {"cursor": before, "parent": children_of}
    listing.show(filters, named, limit, follow=follow, as_json=as_json, store=store)


@app.command()
def show(
    run: RunArgument,
    tree: Annotated[bool, typer.Option("--tree", help="Include all runs below it, and their total cost.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show what happened at each node, how long it took and what it cost, without data.")
    ] = False,
    calls: Annotated[bool, typer.Option("--calls", help="Print what models were asked and what they answered.")] = False,
    operations: Annotated[
        bool, typer.Option("--operations", help="List every operation of its steps: calls, questions, waits, functions.")
    ] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show a run: its steps with their operations, cost and effects, and what it waits for."""
    if tree + trace + calls + operations > 1:
        raise UsageError("Pass only one of --tree, --trace, --calls and --operations.")
    if calls:
        transcript.show(run, as_json=as_json, store=store)
    else:
        run_view.show(run, tree=tree, trace=trace, operations=operations, as_json=as_json, store=store)


@app.command("open")
def open_(
    run: RunArgument,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open the page of a run in the console, and print its address.

    The console is that of the server in HOLDFAST_URL, or of a `holdfast dev` that runs on the same store.
    """
    address = asyncio.run(_page_of(run))
    if as_json:
        terminal.emit({"address": address})
    else:
        terminal.show(address)
    if not (no_open or as_json) and console_page.has_display():
        console_page.show(address)


async def _page_of(run: str) -> str:
    """Return the address of a run's page. Raises UsageError if there is no server."""
    from holdfast.storage import file_of

    found = None
    if server(None) is None:
        where, _ = connect.located(None)
        found = None if connect.is_fleet(where) else dev_server.find_living(file_of(where))
        if found is None or not await found.answers(connect.own_token()):
            raise UsageError(
                "A run's page is on a server, and no `holdfast dev` answers for this store. Start one, or set HOLDFAST_URL to"
                " the address of a `holdfast serve --http`. Nothing was opened."
            )
    return console_page.of_run(await _whole_id(run), found.address if found is not None else None) or ""


async def _whole_id(run: str) -> str:
    async with connect.listing(None, resolve_actor(None)) as asking:
        return await reference.run_id(asking, run)


@app.command()
def events(
    run: RunArgument,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", help="Only events after this number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until the run has ended.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print the history of a run, one event per line, with its time."""
    history.show(run, after, follow=follow, as_json=as_json, store=store)


@app.command()
def items(
    run: RunArgument,
    map_: Annotated[str, typer.Argument(metavar="MAP", help="Map, as `runs show` names it: review, flow/2.")],
    after: Annotated[int, typer.Option("--after", metavar="SEQ", help="Only items that ended after this event.")] = 0,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number of rows.")] = 100,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the ended items of a map, in the order in which they ended."""
    history.show_items(run, map_, after, limit, as_json=as_json, store=store)


app.command()(tail)
app.command()(stream)

# --- What a person may do to a run ------------------------------------------------------------------------------------


@app.command()
def cancel(run: MaybeRun = None, reason: Reason = None, *, many: OneOrMany, caller: Signed) -> int:
    """Cancel a run, or all matching runs. No new step starts, a flow cleans up, effects are compensated, and then the run ends.

    Cancelling again cuts the clean-up short.
    """
    return _do("cancel", _telling("Cancel", reason or "cancelled"), run, many, caller)


_USUAL: Final = {
    "cancel": ("running", "waiting", "requires_attention", "budget_blocked", "paused"),
    "pause": ("running", "waiting", "requires_attention", "budget_blocked"),
    "resume": ("paused",),
    "retry": ("failed",),
}
"""Default statuses of the runs that --all selects."""


def _doing(name: str) -> Callable[..., int]:
    """The command that does this to a run, or to all of some."""

    def act(run: MaybeRun = None, *, many: OneOrMany, caller: Signed) -> int:
        return _do(name, _telling(name.capitalize()), run, many, caller)

    return act


for _name, _help in (
    ("retry", ("Retry a failed run from where it failed, or all matching runs. Completed steps stay as they are.")),
    ("pause", "Pause a run, or all matching runs. Steps under way may finish, and no new step starts."),
    ("resume", "Resume a paused run, or all matching runs."),
):
    app.command(_name, help=_help)(_doing(_name))


def _telling(kind: str, *fields: Any) -> Deed:
    """Return the function that makes the command of that kind for a run."""

    def create_command(run: str) -> Command:
        told: Command = getattr(command, kind)(run, *fields)
        return told

    return create_command


def _do(name: str, deed: Deed, run: str | None, many: BulkSelection[ListOptions], caller: Caller) -> int:
    """Do something to one run, or to all that are meant; or only tell what would be done."""
    bulk.expect_one_or_all(run, many)
    if run is None:
        return asyncio.run(bulk.do(name, deed, _USUAL[name], many, caller))
    if many.dry_run:
        return asyncio.run(quotes.tell_one(name, run, [deed], *caller))
    _act(run, deed, caller=caller)
    return OK


def _limit(flag: str, words: str) -> tuple[Any, None]:
    metavar = "SECONDS" if flag.endswith("-s") else "N"
    return Annotated[int | None, typer.Option(flag, metavar=metavar, help=words)], None


_LIMITS: Final = Group(
    lambda **given: {name: value for name, value in given.items() if value is not None},
    steps=_limit("--steps", "New limit on steps."),
    tokens=_limit("--tokens", "New limit on tokens."),
    model_calls=_limit("--model-calls", "New limit on model calls."),
    tool_calls=_limit("--tool-calls", "New limit on tool calls."),
    active=_limit("--active-s", "New limit on active time, in seconds."),
    wall=_limit("--wall-s", "New limit on the time since the start, waits included, in seconds."),
    lifespan=_limit("--lifespan-s", "New lifespan, in seconds."),
)


@app.command()
def extend(run: RunArgument, *, limits: Annotated[dict[str, int], _LIMITS], dry_run: DryRun = False, caller: Signed) -> int:
    """Raise limits of a run, which continues where it stopped. For money, use `holdfast budget raise`."""
    if not limits:
        raise UsageError(
            "Pass a limit to raise: --steps, --tokens, --model-calls, --tool-calls, --active-s, --wall-s or --lifespan-s."
        )
    deeds = [_telling("Extend", *each) for each in limits.items()]
    if dry_run:
        return asyncio.run(quotes.tell_one("extend", run, deeds, *caller))
    _act(run, *deeds, caller=caller)
    return OK


async def _signal(message: command.Signal, caller: Caller) -> View:
    from holdfast.cli.next_steps import with_next

    async with backend(caller.store, caller.by) as service:
        named = msgspec.structs.replace(message, run=await reference.run_id(service, message.run))
        found = await service.execute(named)
        assert found is not None
        return await with_next(service, found, caller.as_json, caller.store)


RUNS.verb(
    "signal",
    command.Signal,
    words={"data": "--data JSON", "key": "--key KEY"},
    says=tell_run,
    signed=True,
    deed=_signal,
    quotes=True,
)
RUNS.verb(
    "label",
    command.LabelRun,
    words={
        "labels": ArgumentSpec("KEY=VALUE", read=change, help="Labels to set; `KEY=` removes one. Others stay as they are.")
    },
    says="Run {run_id}: its labels are changed.",
    signed=True,
)
RUNS.list(
    query.RunLabels,
    Column("key", 8),
    Column("value", 12),
    Column("workflow", 8),
    Column("status"),
    Column("runs"),
    name="labels",
    words={"key": "KEY"},
)
RUNS.list(
    query.Search,
    Column("kind"),
    Column("id", ID),
    Column("title", 12),
    Column("status"),
    name="search",
    words={"q": "TEXT", "tenant": "--tenant NAME"},
)


@app.command()
def migrate(
    run: RunArgument,
    target: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Workflow: FILE.py:NAME, or the name of one in the store.")],
    version: Annotated[
        int | None,
        typer.Option("--version", metavar="N", min=1, help="With a name: version of the workflow; by default the highest."),
    ] = None,
    *,
    caller: Signed,
) -> None:
    """Continue a run with another definition of its workflow."""
    from holdfast.cli.target import is_name, load

    if is_name(target):
        tell_run(asyncio.run(_migrate_to_known(run, target, version or 0, caller)), caller.as_json)
        return
    if version is not None:
        raise UsageError("--version goes with a workflow's name; a file has one. Nothing was changed.")
    workflow = load(target)
    tell_run(asyncio.run(_migrate(run, workflow, caller)), caller.as_json)


async def _migrate_to_known(run: str, name: str, version: int, caller: Caller) -> dict[str, Any]:
    from holdfast.cli.next_steps import with_next
    from holdfast.service.declarations.command import Migrate

    async with backend(caller.store, caller.by) as service:
        row = await reference.run(service, run)
        if row["workflow"] != name:
            raise UsageError(
                f"Run {row['run_id']} is of the workflow {row['workflow']!r}, not of {name!r:.100}. Nothing was changed."
            )
        found = await service.execute(Migrate(row["run_id"], version))
        assert found is not None
        return await with_next(service, found, caller.as_json, caller.store)


async def _migrate(run: str, workflow: Definition, caller: Caller) -> dict[str, Any]:
    from holdfast.cli.backend import LocalBackend
    from holdfast.cli.next_steps import with_next

    async with acting(caller.store) as service:
        named = await reference.run_id(ListBackend(service.control), run)
        await service.control.migrate(named, workflow, by=caller.by.claim)
        return await with_next(
            LocalBackend(service, caller.by), await service.run(caller.by, named), caller.as_json, caller.store
        )


def _act(run: str, *deeds: Deed, caller: Caller) -> None:
    """Tell a run something, and how it stands afterwards."""

    from holdfast.cli.next_steps import with_next

    async def work() -> dict[str, Any]:
        async with backend(caller.store, caller.by) as service:
            named = await reference.run_id(service, run)
            *_, found = [await service.execute(deed(named)) for deed in deeds]
            assert found is not None
            return await with_next(service, found, caller.as_json, caller.store)

    tell_run(asyncio.run(work()), caller.as_json)


app.command()(fork)
app.command()(explain)
app.command("trace")(show_trace)
RUNS.verb(
    "score",
    command.GiveScore,
    words={
        "value": ArgumentSpec("VALUE", read=score.number, help="Value: a number, true (1) or false (0)."),
        "comment": "--comment TEXT",
    },
    says="Run {run_id}: {name} is {value:g}, by {by}.",
    signed=True,
    deed=score.give,
    negative=True,
)
app.command()(diff)
RUNS.show(
    "graph",
    query.Drawing,
    drawing.show,
    about="Show the graph of a run: its nodes with status and cost, and the edges that it took. Of a flow, its operations.",
)
app.command()(export)


EXAMPLES: Final = {
    "list": "--status failed --since 3d",
    "show": "019aa8b2",
    "explain": "019aa8b2",
    "trace": "019aa8b2 --chrome trace.json",
    "open": "019aa8b2",
    "events": "019aa8b2 --follow",
    "items": "019aa8b2 review",
    "tail": "--from now --follow",
    "stream": "019aa8b2 --follow",
    "fork": "019aa8b2 --from flow#1/1 --cost-limit 0.50",
    "diff": "019aa8b2 019aa9c3",
    "graph": "019aa8b2",
    "export": "019aa8b2 --to runs.jsonl",
    "score": "019aa8b2 helpful 0.8 --comment 'Found the invoice.'",
    "label": "019aa8b2 customer=acme stage=",
    "labels": "customer",
    "search": "019aa8b2",
    "cancel": "019aa8b2 --reason 'duplicate order'",
    "retry": "--all --workflow refund --since 2h --yes",
    "pause": "019aa8b2",
    "resume": "019aa8b2",
    "extend": "019aa8b2 --steps 2000",
    "signal": "019aa8b2 paid --data '{\"amount\": 40}'",
    "migrate": "019aa8b2 refund.py:refund",
}
