"""`holdfast effects`: what the tools did to the world, and saying what became of a call that nobody knows about.

Never here: calling a tool.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import asking
from holdfast.cli.option import AsJson, Reason, Store, Who
from holdfast.cli.runs import tell_run
from holdfast.errors import UsageError

app = typer.Typer(
    help="See what the tools did to the world, and resolve a call of unknown outcome.", no_args_is_help=True
)


@app.command("list")
def list_(
    run: Annotated[str | None, typer.Option("--run", help="Only this run's.")] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only these: intended, completed, failed, released, in_doubt, repeated."),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the calls of tools that were intended, oldest first, and what became of each."""
    asyncio.run(_list(run, state, as_json, store))


async def _list(run: str | None, state: str | None, as_json: bool, store: str | None) -> None:
    from holdfast.cli import report

    async with asking(store) as engine:
        if run is not None:
            await engine.find(run)
        found = [await report.of_effect(engine, *each) for each in await engine.effects(run, state=state)]
    if as_json:
        terminal.emit(found)
        return
    terminal.table(
        ("call", "tool", "policy", "state", "at", "by"),
        [
            (each["call"], each["tool"], each["policy"], each["state"], each["updated_at"], each["by"] or "-")
            for each in found
        ],
    )


@app.command()
def resolve(
    call: Annotated[str, typer.Argument(help="The call, as `effects list` shows it.")],
    happened: Annotated[
        str | None, typer.Option("--happened", metavar="JSON", help="It happened, and this is its response (or @FILE).")
    ] = None,
    did_not: Annotated[bool, typer.Option("--did-not", help="It did not happen; its step fails.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Call it again, under the same key.")] = False,
    reason: Reason = None,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Say what became of a call whose outcome nobody knows; its run goes on from there."""
    if (happened is not None) + did_not + again != 1:
        raise UsageError("Say one of: --happened JSON (its response), --did-not, --again.")
    given = {"response": json_value(happened, "--happened")} if happened is not None else {}
    decision = "answer" if happened is not None else "reject" if did_not else "retry"
    tell_run(asyncio.run(_resolve(call, decision, given, who(by), reason, store)), as_json)


async def _resolve(
    call: str, decision: str, given: dict[str, Any], by: str, reason: str | None, store: str | None
) -> dict[str, Any]:
    from holdfast.cli import report
    from holdfast.core.ids import CallId, run_of

    async with asking(store) as engine:
        run = (await engine.find(run_of(CallId(call)))).run
        await engine.resolve_effect(call, decision, **given, by=by, reason=reason)
        return await report.of_run(engine, await engine.run(run).state())
