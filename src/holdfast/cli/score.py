"""`holdfast runs score`: what somebody says a run was worth.

Never here: which scores count (core.scores).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import typer

from holdfast.cli import reference, terminal
from holdfast.cli.given import who
from holdfast.cli.opening import acting
from holdfast.cli.option import AsJson, RunArgument, Store, Who
from holdfast.errors import UsageError


def score(
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is about: helpful.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A number, true (1) or false (0).")],
    comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why; kept with it.")] = "",
    source: Annotated[
        Literal["person", "code"], typer.Option("--source", help="Who gives it: a person, or a program.")
    ] = "person",
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Say what a run was worth, also days after its end. The latest of each name and person counts; all are kept."""
    asyncio.run(_score(run, name, _number(value), comment, source, by, as_json, store))


async def _score(
    run: str, name: str, value: float, comment: str, source: Literal["person", "code"], by: str | None, as_json: bool,
    store: str | None,
) -> None:  # fmt: skip
    from holdfast.service import view

    async with acting(store) as service:
        person = who(by)
        row = await service.row(person, (await reference.run(service.control, run)).run)
        given = await service.control.score(row.run, name, value, by=person.claim, source=source, comment=comment)
    if as_json:
        terminal.emit({"run_id": row.run, **view.of_score(given)})
    else:
        terminal.say(f"Run {row.run}: {name} is {given.value:g}, by {given.by}.")


def _number(text: str) -> float:
    """The value that was typed. Raises UsageError."""
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r:.80} is no number, true or false. Nothing was scored.") from None
