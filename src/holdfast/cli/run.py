"""`holdfast run`: starts a run and follows it until it ends or needs somebody.

Never here: how its progress looks.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.exit_code import INTERRUPTED, OF_STATUS, OK
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import located, typed
from holdfast.cli.option import AsJson, Store, Target, Who

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.core.state import State


def run(
    target: Target,
    given: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="JSON", help="The input: JSON, @FILE of it, or @- for stdin."),
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose run it is.")] = "default",
    cost_limit: Annotated[
        str | None, typer.Option("--cost-limit", metavar="USD", help="What the run may spend on models.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Makes the start idempotent: the same key is the same run.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the run is durably started.")] = False,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Start a run and follow it until it ends or waits for somebody."""
    from holdfast.cli.target import load

    workflow = load(target)
    value = json_value(given, "--input") if given is not None else None
    started: list[str] = []
    start = {"tenant": tenant, "cost_limit_usd": cost_limit, "key": key, "by": who(by)}
    try:
        with terminal.aside():
            state, found = asyncio.run(_run(workflow, value, start, store, detach, started))
    except KeyboardInterrupt:
        _interrupted(started, target, store)
        return INTERRUPTED
    if as_json:
        terminal.emit(found)
    elif detach:
        terminal.show(found["run_id"])
        terminal.say(f"Any worker of its workflow drives it:\n  {typed('worker', target, store=store)}")
    else:
        _conclude(state, found, store)
    return OK if detach else OF_STATUS.get(found["status"], OK)


async def _run(
    workflow: Workflow, value: Any, start: dict[str, Any], store: str | None, detach: bool, started: list[str]
) -> tuple[State, dict[str, Any]]:
    from holdfast.cli import progress, report
    from holdfast.compose import Engine

    where, known = located(store)
    async with Engine.open(where, workflows=[workflow], execute=not detach, settings=known) as engine:
        begun = await engine.start(workflow, value, **start)
        started.append(begun.id)
        terminal.say(f"Run {begun.id} of {workflow.name} {workflow.version}")
        state = await begun.state()
        if state.graph_hash != workflow.hash and not detach:
            terminal.say(
                "It was started with another definition of this workflow, so it is only followed from here."
                " `holdfast runs migrate` would have it go on with this one."
            )
        if not detach:
            with progress.display(workflow.graph) as display:
                state = await progress.follow(begun, display)
        return state, await report.of_run(engine, state)


def _conclude(state: State, found: dict[str, Any], store: str | None) -> None:
    """The output on stdout; on stderr how the run ended, or what it waits for and the commands that go with it."""
    from holdfast.cli import advice
    from holdfast.cli.telling import failure

    spent = f"${found['cost_usd']}" + (f" of ${found['limit_usd']}" if found["limit_usd"] is not None else "")
    if state.ended == "completed":
        output = found["output"]
        if isinstance(output, str):
            terminal.show(output)
        else:
            terminal.emit(output)
    sys.stdout.flush()
    why = failure(state.error) if state.error is not None else state.reason
    terminal.say(f"Run {state.run}: {found['status']}, {spent}." + (f" {why}" if why and state.ended else ""))
    for line in advice.of_state(state, store):
        terminal.say(line)


def _interrupted(started: list[str], target: str, store: str | None) -> None:
    if not started:
        terminal.say(f"Interrupted. Whether the run was started: {typed('runs', 'list', store=store)}")
        return
    terminal.say(
        f"Interrupted. Run {started[0]} keeps what it has done and can be taken up again:\n"
        f"  {typed('worker', target, '--until-idle', store=store)}\n"
        "or be ended:\n"
        f"  {typed('runs', 'cancel', started[0], store=store)}"
    )
