"""`holdfast runs stream`: texts of a run as they come, from its models and its code.

Never here: how it is heard of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated

import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend, typed
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import INTERRUPTED, OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View


def stream(
    run: RunArgument,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="STREAM", help="Only this stream, `model`, or one model call, like draft#1:0:1."),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Place to start at: `start`, `now` or a cursor. With --name also a number, of a value or of a character.",
        ),
    ] = "start",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until the run has ended.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print what models output in a run, and what its code writes to streams. With --json, each piece has its cursor."""
    reading = _Reading(run, name, since, as_json, store)
    with Interruption(reading.words) as interruption:
        try:
            asyncio.run(_stream(reading, follow, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(OK)


class _Reading:
    """The progress of printing a stream."""

    def __init__(self, run: str, name: str | None, since: str, as_json: bool, store: str | None) -> None:
        self.run = run
        self.name = name
        self.since = since
        self.as_json = as_json
        self.store = store
        self.shown = StreamPrinter(terminal.show_part)

    def words(self) -> str:
        named = ("--name", self.name) if self.name is not None else ()
        more = ("--from", self.since, "-f", *(("--json",) if self.as_json else ()))
        return f"Interrupted. Continue with: {typed('runs', 'stream', self.run, *named, *more, store=self.store)}"

    def print(self, event: View) -> None:
        if self.as_json:
            terminal.emit_line(event)
        else:
            self.shown.hear(event)
        terminal.hand_over()
        self.since = event["cursor"]


class StreamPrinter:
    """Streams as words on a screen: a text continues where it was, indented below the name of its author."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._source: str | None = None
        """Who speaks in the line that has begun."""

    def hear(self, event: View) -> None:
        if "text" in event and event["kind"] != "result":
            self._say(event["source"], event["text"])
            return
        self.rest()
        source = terminal.line(event["source"])
        if event["kind"] == "result":
            failed = "" if event["outcome"] == "completed" else " (failed)"
            self._write(f"{source}{failed}:\n  {_set_in(event['text'])}\n")
        elif event["kind"] == "value":
            self._write(f"{source} {event['offset']}: {terminal.as_json(event['value'])}\n")
        elif event["kind"] == "reset":
            self._write(f"{source} is called again; discard its output above.\n")
        elif (outcome := event.get("outcome", "")) != "completed":
            self._write(f"{source} did not finish ({outcome}).\n")

    def _say(self, source: str, text: str) -> None:
        if self._source != source:
            self.rest()
            self._write(terminal.line(source) + ":\n  ")
            self._source = source
        self._write(_set_in(text))

    def rest(self) -> None:
        """End the line that has begun."""
        if self._source is not None:
            self._write("\n")
        self._source = None


def _set_in(text: str) -> str:
    return terminal.plain(text).replace("\n", "\n  ")


async def _stream(reading: _Reading, follow: bool, interruption: Interruption) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with backend(reading.store, resolve_actor(None)) as service:
        reading.run = await reference.run_id(service, reading.run)
        asked = query.Streams(run=reading.run, name=reading.name, cursor=reading.since)
        async with aclosing(service.listen(asked, follow=follow)) as telling:
            async for told in telling:
                reading.print(told)
                if terminal.is_unread():
                    break
    reading.shown.rest()
    terminal.hand_over()
    interruption.over()
