"""`holdfast runs tail`: every event of all runs, to be exported or watched.

Each line carries the cursor after it, so that a reader who keeps the last line he has dealt with misses nothing and gets
nothing twice. Never here: what an event means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import terminal
from holdfast.cli.exit_code import INTERRUPTED, OK
from holdfast.cli.interruption import Interruption
from holdfast.cli.opening import opened, typed
from holdfast.cli.option import AsJson, Store
from holdfast.errors import CursorLost, StoreError, StoreGone, StoreTooNew

if TYPE_CHECKING:
    from holdfast.ports import Store as StorePort
    from holdfast.ports import TailEvent

START: Final = "start"
NOW: Final = "now"

_MOST_AT_ONCE: Final = 500
"""Events in memory; one is less than 100 kB."""
_LOOK_EVERY_S: Final = 1.0
_AWAY_S: Final = 1.0


def tail(
    since: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="CURSOR",
            help="Go on after this cursor; `start` is the oldest event known, `now` the end.",
        ),
    ] = START,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until interrupted.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print the events of all runs in the order of their commits, one a line; with --json each with its cursor."""
    telling = Telling(since, follow, as_json, store)
    with Interruption(telling.words) as interruption:
        try:
            asyncio.run(_tail(telling, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(OK)


class Telling:
    """How far the tail has been printed."""

    def __init__(self, since: str, follow: bool, as_json: bool, store: str | None) -> None:
        self.since = since
        self.follow = follow
        self.as_json = as_json
        self.store = store

    def words(self) -> str:
        again = ("--json",) if self.as_json else ()
        return f"Interrupted. Go on with: {typed('runs', 'tail', '--from', self.since, *again, store=self.store)}"

    def tell(self, told: Sequence[TailEvent]) -> bool:
        """Print events; False when nobody reads them any more."""
        for each in told:
            if self.as_json:
                terminal.emit_line(_facts(each))
            else:
                terminal.show(_words(each))
            self.since = each.cursor
        terminal.hand_over()
        return not terminal.is_unread()


async def _tail(telling: Telling, interruption: Interruption) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with opened(telling.store) as store:
        if telling.since == NOW:
            telling.since = await store.tail.end()
        said = ""
        while True:
            try:
                more = await _next(store, telling)
                said = ""
            except (CursorLost, StoreGone, StoreTooNew):
                raise
            except StoreError as problem:
                if not telling.follow:
                    raise
                if str(problem) != said:  # once, not every second as long as it lasts
                    terminal.say(f"The store cannot be read and is tried again: {problem.message}")
                said, more = str(problem), True
                await asyncio.sleep(_AWAY_S)
            if not more:
                break
    interruption.over()


async def _next(store: StorePort, telling: Telling) -> bool:
    """Print what comes next; whether anything may come after it."""
    cursor = None if telling.since == START else telling.since
    told, rest = await store.tail.after(cursor, _MOST_AT_ONCE)
    is_read = telling.tell(told)
    telling.since = rest
    if not is_read:
        return False
    if len(told) == _MOST_AT_ONCE:
        return True
    if telling.follow:
        await store.watch.changed(_LOOK_EVERY_S)
    return telling.follow


def _facts(told: TailEvent) -> dict[str, Any]:
    from holdfast.service import view

    return {"cursor": told.cursor, "run_id": told.run, **view.of_event(told.recorded)}


def _words(told: TailEvent) -> str:
    from holdfast.cli import moment
    from holdfast.cli.telling import gist

    recorded = told.recorded
    return terminal.line(
        f"{moment.clock(recorded.at_ms)}  {told.run}  {recorded.seq:>5}  {type(recorded.event).__name__:<18}"
        f"  {gist(recorded.event)}"
    )
