"""`holdfast runs`: what runs there are, what happened in one, and what a person may do to it.

Never here: starting one (run), answering its gates (gates).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from holdfast.cli import terminal
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import asking
from holdfast.cli.option import AsJson, Reason, RunArgument, Store, Target, Who
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.compose import Engine
    from holdfast.core.events import Recorded
    from holdfast.core.state import State

app = typer.Typer(help="See what runs there are, and pause, cancel, extend or signal one.", no_args_is_help=True)

_PAGE = 1000
"""Events in memory at once: a history may be long."""
_CLIP = 100
"""How much of a value the table of events shows; --json has all of it."""


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only this workflow's, by its name.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only those of this status.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="RUN", help="Only those older than this run.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List runs, newest first."""
    asyncio.run(_list(store, as_json, tenant=tenant, workflow=workflow, status=status, before=before, limit=limit))


async def _list(store: str | None, as_json: bool, *, status: str | None, **filters: Any) -> None:
    from holdfast.cli import moment, report
    from holdfast.core.money import usd
    from holdfast.core.status import Status

    if status is not None and status not in get_args(Status):
        raise UsageError(f"There is no status {status!r}; there are {', '.join(get_args(Status))}.")
    async with asking(store) as engine:
        rows = await engine.runs(status=status, **filters)
        now_ms = engine.driver.store.now_ms()
    if as_json:
        terminal.emit([report.of_row(row) for row in rows])
        return
    terminal.table(
        ("run", "workflow", "status", "cost", "limit", "started"),
        [
            (
                row.run,
                f"{row.workflow} {row.version}",
                row.status,
                f"${usd(row.settled_nanousd + row.held_nanousd + row.in_doubt_nanousd)}",
                f"${usd(row.limit_nanousd)}" if row.limit_nanousd is not None else "-",
                moment.around(row.started_at_ms, now_ms),
            )
            for row in rows
        ],
    )


@app.command()
def show(run: RunArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show a run: its steps, its money, its effects, and what it waits for."""
    asyncio.run(_show(run, as_json, store))


async def _show(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import advice, report

    async with asking(store) as engine:
        row = await engine.find(run)
        state = await engine.run(row.run).state()
        found = await report.of_run(engine, state)
        effects = await engine.effects(row.run)
        now_ms = engine.driver.store.now_ms()
    if as_json:
        terminal.emit(found)
        return
    terminal.sheet(_head(state, found, now_ms))
    terminal.show("\nSteps")
    terminal.table(("step", "status", "attempts", "detail"), [_step(step) for step in state.steps.values()])
    if effects:
        terminal.show("\nEffects")
        lines = [(row.call, row.tool, change.state if change else "intended") for row, change in effects]
        terminal.table(("call", "tool", "state"), lines)
    waits = advice.of_state(state, store)
    if waits:
        terminal.show("\nWaits")
        for line in waits:
            terminal.show(line)


def _head(state: State, found: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    from holdfast.cli import moment
    from holdfast.cli.telling import failure

    limit = f" of ${found['limit_usd']}" if found["limit_usd"] is not None else ""
    held = (
        f", ${found['held_usd']} held or in doubt" if state.budget.held_nanousd + state.budget.in_doubt_nanousd else ""
    )
    pairs = [
        ("Run", state.run),
        ("Workflow", f"{state.workflow} {state.version}"),
        ("Tenant", state.tenant),
        ("Status", found["status"]),
        ("Started", moment.around(state.started_at_ms, now_ms) + (f" by {state.by}" if state.by is not None else "")),
    ]
    if state.key is not None:
        pairs.append(("Key", state.key))
    if state.ended:
        pairs.append(("Ended", moment.around(state.ended_at_ms, now_ms)))
    pairs.append(
        ("Spent", f"${found['cost_usd']}{limit}{held}; {state.tokens_used} tokens, {state.steps_started} steps")
    )
    if state.error is not None:
        pairs.append(("Error", f"{state.error.node}: {failure(state.error)}".removeprefix(": ")))
    elif state.reason is not None:
        pairs.append(("Reason", state.reason))
    if state.ended == "completed":
        pairs.append(("Output", json.dumps(found["output"], ensure_ascii=False, indent=2)))
    return pairs


def _step(step: Any) -> tuple[str, str, str, str]:
    from holdfast.cli.telling import failure

    detail = failure(step.error) if step.error is not None else step.reason or ", ".join(step.decisions or ())
    return step.id, step.status, str(step.attempt or "-"), detail


@app.command()
def events(
    run: RunArgument,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", help="Only those after this one.")] = 0,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print a run's history, one event a line."""
    asyncio.run(_events(run, after, as_json, store))


async def _events(run: str, after: int, as_json: bool, store: str | None) -> None:
    async with asking(store) as engine:
        row = await engine.find(run)
        history = engine.run(row.run)
        while page := await history.events(after, _PAGE):
            for recorded in page:
                _print_event(recorded, as_json=as_json)
            after = page[-1].seq


def _print_event(recorded: Recorded, *, as_json: bool) -> None:
    from holdfast.cli import moment, report

    if as_json:
        sys.stdout.write(json.dumps(report.of_event(recorded), ensure_ascii=False) + "\n")
        return
    news = report.news(recorded.event)
    told = "  ".join(f"{name}={_clipped(json.dumps(value, ensure_ascii=False))}" for name, value in news.items())
    terminal.show(f"{recorded.seq:>5}  {moment.clock(recorded.at_ms)}  {type(recorded.event).__name__:<18}  {told}")


def _clipped(text: str) -> str:
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 1]}…"


# --- What a person may do to a run ------------------------------------------------------------------------------------


@app.command()
def cancel(
    run: RunArgument, reason: Reason = None, by: Who = None, as_json: AsJson = False, store: Store = None
) -> None:
    """Cancel a run: nothing new begins, what it did is compensated, then it ends."""
    _act(run, lambda engine: engine.cancel(run, reason=reason or "cancelled", by=who(by)), as_json, store)


@app.command()
def pause(run: RunArgument, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Pause a run: what has begun may finish, nothing new begins."""
    _act(run, lambda engine: engine.pause(run, by=who(by)), as_json, store)


@app.command()
def resume(run: RunArgument, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Let a paused run go on."""
    _act(run, lambda engine: engine.resume(run, by=who(by)), as_json, store)


@app.command()
def extend(
    run: RunArgument,
    steps: Annotated[int | None, typer.Option("--steps", help="The new limit on steps.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="The new limit on tokens.")] = None,
    active: Annotated[int | None, typer.Option("--active-s", help="The new limit on active time, in seconds.")] = None,
    lifespan: Annotated[int | None, typer.Option("--lifespan-s", help="The new lifespan, in seconds.")] = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Raise a run's limits, so that it goes on from where it stopped. (Money: holdfast budget raise.)"""
    given = {"steps": steps, "tokens": tokens, "active": active, "lifespan": lifespan}
    limits = {name: value for name, value in given.items() if value is not None}
    if not limits:
        raise UsageError("Say which limit to raise: --steps, --tokens, --active-s or --lifespan-s.")

    async def raise_them(engine: Engine) -> None:
        for name, value in limits.items():
            await engine.extend(run, name, value, by=who(by))

    _act(run, raise_them, as_json, store)


@app.command()
def signal(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="The signal's name.")],
    data: Annotated[str | None, typer.Option("--data", metavar="JSON", help="What it carries: JSON or @FILE.")] = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Send a run a signal; it is kept until a step asks for it."""
    value = json_value(data, "--data") if data is not None else None
    _act(run, lambda engine: engine.signal(run, name, value, by=who(by)), as_json, store)


@app.command()
def migrate(run: RunArgument, target: Target, by: Who = None, as_json: AsJson = False, store: Store = None) -> None:
    """Have a run go on with another definition of its workflow."""
    from holdfast.cli.target import load

    workflow = load(target)
    _act(run, lambda engine: engine.migrate(run, workflow, by=who(by)), as_json, store)


def _act(run: str, deed: Callable[[Engine], Awaitable[None]], as_json: bool, store: str | None) -> None:
    """Do something to a run, and tell how it stands afterwards."""

    async def work() -> dict[str, Any]:
        from holdfast.cli import report

        async with asking(store) as engine:
            await engine.find(run)
            await deed(engine)
            return await report.of_run(engine, await engine.run(run).state())

    tell_run(asyncio.run(work()), as_json)


def tell_run(found: dict[str, Any], as_json: bool) -> None:
    """How a run stands after something was done to it."""
    if as_json:
        terminal.emit(found)
    else:
        terminal.say(f"Run {found['run_id']}: {found['status']}.")
