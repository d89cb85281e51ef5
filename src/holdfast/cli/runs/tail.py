"""`holdfast runs tail`: every event of all runs, to be exported or watched.

Each line carries the cursor after it, so that a reader who keeps the last line he has dealt with misses nothing and gets
nothing twice. Never here: what an event means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.connect import listing, typed
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import INTERRUPTED, OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption
from holdfast.errors import CursorLost, StoreError, StoreGone, StoreTooNew, Unreachable
from holdfast.service.declarations.query import START, Page, Tail, View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

_MAX_AT_ONCE: Final = 500
"""Events in memory; one is less than 100 kB."""
_LOOK_EVERY_S: Final = 1.0
_AWAY_S: Final = 1.0


def tail(
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="CURSOR", help="Start after this cursor; `start` is the oldest known event, `now` the end."
        ),
    ] = START,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until interrupted.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print the events of all runs in commit order, one per line. With --json, each has its cursor."""
    telling = TailPrinter(since, follow, as_json, store)
    with Interruption(telling.words) as interruption:
        try:
            asyncio.run(_tail(telling, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(OK)


class TailPrinter:
    """The progress of printing the tail."""

    def __init__(self, since: str, follow: bool, as_json: bool, store: str | None) -> None:
        self.since = since
        self.follow = follow
        self.as_json = as_json
        self.store = store

    def words(self) -> str:
        again = ("--json",) if self.as_json else ()
        return f"Interrupted. Continue with: {typed('runs', 'tail', '--from', self.since, *again, store=self.store)}"

    def tell(self, page: Page) -> bool:
        """Print events, and return True if more may follow for a reader."""
        for row in page.rows:
            if self.as_json:
                terminal.emit_line(row)
            else:
                terminal.show(_words(row))
            self.since = row["cursor"]
        terminal.hand_over()
        self.since = page.cursor or self.since
        return page.cursor is not None and not terminal.is_unread()


async def _tail(telling: TailPrinter, interruption: Interruption) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with listing(telling.store, resolve_actor(None)) as service:
        said, more = "", True
        while more:
            try:
                more = await _next(service, telling)
                said = ""
            except (CursorLost, StoreGone, StoreTooNew):
                raise
            except (StoreError, Unreachable) as problem:
                if not telling.follow:
                    raise
                if str(problem) != said:  # once, not every second as long as it lasts
                    terminal.say(f"Nothing can be read now; retrying: {problem.message}")
                said = str(problem)
                await asyncio.sleep(_AWAY_S)
    interruption.over()


async def _next(service: QueryBackend, telling: TailPrinter) -> bool:
    """Print what comes next; whether anything may come after it."""
    page = await service.query(Tail(cursor=telling.since, limit=_MAX_AT_ONCE, ends=not telling.follow))
    more = telling.tell(page)
    if more and not page.rows:
        await service.changed(_LOOK_EVERY_S)
    return more


def _words(row: View) -> str:
    from holdfast.cli.page import moment
    from holdfast.cli.page.event_format import gist

    return terminal.line(
        f"{moment.clock(moment.ms(row['at']))}  {row['run_id']}  {row['seq']:>5}  {row['type']:<18}  {gist(row)}"
    )
