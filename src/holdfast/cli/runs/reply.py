"""The replies of a conversation at the terminal: each as it comes, in the order in which the agent comes to them.

Never here: what is typed, what becomes of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.page import terminal
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend

_PAUSE_S: Final = 0.1
_TRIES: Final = 50
_LOOK_S: Final = 1.0
"""How late it is heard that what the agent waits for is another thing."""


class Screen:
    """The place for the agent's words, while output of the agent's code goes to stderr."""

    def __init__(self) -> None:
        self._kept = terminal.keep_stdout()
        self.is_live = terminal.is_live()

    def part(self, words: str) -> None:
        with self._kept():
            terminal.show_part(words)
            terminal.hand_over()

    def text(self, text: str) -> None:
        with self._kept():
            terminal.show_text(text)
            terminal.hand_over()

    def row(self, row: dict[str, Any]) -> None:
        with self._kept():
            terminal.emit_line(row)
            terminal.hand_over()


class Replies:
    """The replies to messages of this chat, and to earlier ones."""

    def __init__(
        self,
        service: Backend,
        name: str,
        tenant: str | None,
        store: str | None,
        screen: Screen,
        *,
        as_json: bool,
        on_idle: Callable[[bool], None],
    ) -> None:
        """`on_idle` is called when it has nothing to wait for, and when it has again."""
        self._service = service
        self._name = name
        self._tenant = tenant
        self._store = store
        self._screen = screen
        self._as_json = as_json
        self._on_idle = on_idle
        self._expected: dict[int, None] = {}
        self._stirred = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    def expect(self, number: int) -> None:
        """Note that a message was sent and will be answered."""
        self._expected[number] = None
        self._stirred.set()
        if self.idle.is_set():
            self.idle.clear()
            self._on_idle(False)

    async def show_all(self) -> None:
        """Show what is expected, for ever."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._expected:
                number = await self._next()
                await self._show(number)
                del self._expected[number]
            self.idle.set()
            self._on_idle(True)

    async def _next(self) -> int:
        """Return the message that the agent works on; else the first one sent."""
        active = (await self.talk())["active"]
        return active if active in self._expected else min(self._expected)

    async def talk(self) -> View:
        """The conversation as it stands."""
        return await self._service.row(query.Conversation(self._name, self._tenant))

    async def _show(self, number: int) -> None:
        """Show the reply as it comes, and what keeps it from coming."""
        reply = asyncio.create_task(self._service.reply(self._name, number, self._tenant))
        telling = asyncio.create_task(self._tell(number))
        try:
            exchange = await reply
            shown = await telling
        finally:
            for each in (reply, telling):
                each.cancel()
            await asyncio.gather(reply, telling, return_exceptions=True)
        self._conclude(exchange, shown)

    async def _tell(self, number: int) -> str:
        """Print what the models of the run write meanwhile, for a watcher; return what the last of them has written."""
        run = None
        while run is None:
            found = next(each for each in (await self.talk())["exchanges"] if each["number"] == number)
            run = None if found["steers"] is not None else found["run"]  # the run that it steers is shown already
            if found["status"] not in ("waiting", "active"):
                break
            if run is None:
                await asyncio.sleep(_PAUSE_S)  # it waits for the ones before it
        if run is None:
            return ""
        waits = asyncio.create_task(self._advise(run))
        try:
            if self._screen.is_live and not self._as_json:
                return await self._hear_all(run)
            await waits  # no listener is left, and yet a person may be asked
            return ""
        finally:
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)

    async def _hear_all(self, run: str) -> str:
        """The run and, where it hands the conversation over, the agent that goes on with it."""
        own, other = await asyncio.gather(self._hear(run), self._follow(run))
        return other or own

    async def _follow(self, run: str) -> str:
        shown, followed = "", {run}
        async with aclosing(self._service.watch(run, 0)) as events:
            async for event in events:
                if event["type"] == "ChildRequested" and event["handoff"] and event["child"] not in followed:
                    followed.add(event["child"])
                    shown = await self._hear_child(event["child"]) or shown
        return shown

    async def _hear_child(self, run: str) -> str:
        for _ in range(_TRIES):
            if (await self._service.query(query.Runs(prefix=run, limit=1))).rows:
                return await self._hear_all(run)
            await asyncio.sleep(_PAUSE_S)  # it was asked for, and has not begun
        return ""  # the reply is shown when it is there

    async def _hear(self, run: str) -> str:
        shown, source = "", None
        async with aclosing(self._service.listen(query.Streams(run=run, name="model"), follow=True)) as pieces:
            async for told in pieces:
                if told["kind"] == "text":
                    shown = shown + told["text"] if told["source"] == source else told["text"]
                    if source not in (None, told["source"]):
                        self._screen.part("\n")
                    source = told["source"]
                    self._screen.part(told["text"])
                elif told["kind"] == "reset":
                    self._screen.part("\n[called again; discard the output above]\n")
                    shown = ""
        if source is not None:
            self._screen.part("\n")
        return shown

    async def _advise(self, run: str) -> None:
        """Print what the agent waits for, each time that it is a person."""
        from holdfast.cli import next_steps

        said: list[str] = []
        while (found := await self._service.settled(run))["ended_at"] is None:
            lines = await next_steps.of_run(self._service, found, self._store)
            for line in lines if lines != said else []:
                terminal.say(line)
            said = lines
            await asyncio.sleep(_LOOK_S)

    def _conclude(self, exchange: View, shown_hash: str) -> None:
        if self._as_json:
            self._screen.row(exchange)
        elif exchange["steers"] is not None:
            pass  # the reply to what it was part of was shown
        elif exchange["status"] != "completed":
            why = f"the run {exchange['run'] or ''} {exchange['status']}. {exchange['problem'] or ''}"
            terminal.say(f"No reply: {why}".rstrip())
        elif exchange["reply"] != shown_hash:
            self._screen.text(exchange["reply"] or "")
