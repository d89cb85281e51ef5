"""`holdfast chat`: a conversation with an agent at the terminal, a line a message.

Never here: what becomes of a message.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from holdfast.cli import terminal
from holdfast.cli.conversations import OnBusy, attachment, meant
from holdfast.cli.exit_code import INTERRUPTED, OK
from holdfast.cli.given import who
from holdfast.cli.interruption import Interruption
from holdfast.cli.opening import is_fleet, located, typed
from holdfast.cli.option import AsJson, Store, TokenLimit, Who
from holdfast.cli.target import is_name
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.content import Audio, Document, Image
    from holdfast.authoring.workflow import Workflow
    from holdfast.compose import Engine
    from holdfast.core.claim import Claim
    from holdfast.core.conversations import Exchange

_MOST_BYTES = 1_100_000
"""Of a line: more than a message may have."""
_ATTACH = "/attach "
"""Begins a line that says no message, but what goes with the next."""


def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="FILE.py:AGENT or PACKAGE.MODULE:NAME. Or the name of a workflow that workers elsewhere run.",
        ),
    ],
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", metavar="NAME", help="Go on with it, or begin it; by default a new one."),
    ] = None,
    on_busy: Annotated[
        OnBusy | None,
        typer.Option("--on-busy", help="What becomes of a message that comes while the agent is at work."),
    ] = None,
    cost_limit: Annotated[
        str | None, typer.Option("--cost-limit", metavar="USD", help="What the whole conversation may spend on models.")
    ] = None,
    token_limit: TokenLimit = None,
    tenant: Annotated[str, typer.Option("--tenant", metavar="TENANT", help="Whose conversation it is.")] = "default",
    here: Annotated[
        bool, typer.Option("--here", help="On a fleet's store: run the agent in this process too.")
    ] = False,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Talk with an agent, a line a message; what was said goes on on any machine.

    A line `/attach FILE` has an image, a recording or a document go with the next message.

    A reply that was cut off, because this process was killed, is gone on with when the conversation is.
    """
    name = conversation or f"chat-{uuid.uuid4().hex[:12]}"
    talk = _Talk(target, name, on_busy, cost_limit, token_limit, tenant, here, who(by).claim, as_json, store, _Screen())
    with Interruption(talk.words) as interruption:
        try:
            _converse(talk, interruption)
        except asyncio.CancelledError:  # only by a signal
            interruption.tell()
            return INTERRUPTED
    return OK


class _Screen:
    """Where the agent's words go, while what the code of the agent prints goes to stderr."""

    def __init__(self) -> None:
        self._kept = terminal.kept()
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


class _Talk(NamedTuple):
    """What a person has asked for."""

    target: str
    name: str
    on_busy: OnBusy | None
    cost_limit_usd: str | None
    max_tokens: int | None
    tenant: str
    here: bool
    by: Claim
    as_json: bool
    store: str | None
    screen: _Screen

    def words(self) -> str:
        return f"Interrupted. Nothing that was said is lost; go on with:\n  {self.again()}"

    def again(self) -> str:
        more = () if self.tenant == "default" else ("--tenant", self.tenant)
        return typed("chat", self.target, "--conversation", self.name, *more, store=self.store)


def _converse(talk: _Talk, interruption: Interruption) -> None:
    from holdfast.cli.target import load
    from holdfast.machine import run_quickly

    agent = talk.target if is_name(talk.target) else load(talk.target, to_run=True)
    with terminal.aside():
        run_quickly(_run(agent, talk, interruption))


async def _run(agent: Workflow | str, talk: _Talk, interruption: Interruption) -> None:
    from holdfast.compose import Engine

    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    where, known = located(talk.store)
    works = not isinstance(agent, str) and (talk.here or not is_fleet(where))
    workflows = [] if isinstance(agent, str) else [agent]
    async with Engine.open(where, workflows=workflows, execute=works, settings=known) as engine:
        await engine.open_conversation(
            talk.name, agent, on_busy=meant(talk.on_busy) or "enqueue",
            cost_limit_usd=talk.cost_limit_usd, max_tokens=talk.max_tokens, tenant=talk.tenant, by=talk.by,
        )  # fmt: skip
        terminal.say(f"Conversation {talk.name} of {talk.target}. To go on with it later: {talk.again()}")
        now = (await engine.conversation(talk.name, tenant=talk.tenant)).conversation
        for number in [*([now.active] if now.active is not None else []), *now.waiting]:
            await _answer(engine, talk, number)
        async with aclosing(_lines(talk.screen)) as lines:
            parts: list[Image | Audio | Document] = []
            async for line in lines:
                if line.startswith(_ATTACH):
                    parts += _attached(line.removeprefix(_ATTACH).strip())
                    continue
                message = [line, *parts] if parts else line
                said = await engine.say(talk.name, message, tenant=talk.tenant, on_busy=meant(talk.on_busy), by=talk.by)
                parts = []
                await _answer(engine, talk, said.number)
    interruption.over()


def _attached(file: str) -> list[Image | Audio | Document]:
    """What goes with the next message; nothing, and why, where it cannot."""
    try:
        found = [attachment(Path(file))]
    except UsageError as problem:
        terminal.say(problem.message)
        return []
    terminal.say(f"{file} goes with the next message.")
    return found


async def _answer(engine: Engine, talk: _Talk, number: int) -> None:
    """Show the reply as it comes, and what keeps it from coming."""
    reply = asyncio.create_task(engine.reply(talk.name, number, tenant=talk.tenant))
    live = talk.screen.is_live and not talk.as_json
    telling = asyncio.create_task(_tell(engine, talk, number, live=live))
    try:
        exchange = await reply
        shown = await telling
    finally:
        for each in (reply, telling):
            each.cancel()
        await asyncio.gather(reply, telling, return_exceptions=True)
    _conclude(exchange, talk, shown)


async def _tell(engine: Engine, talk: _Talk, number: int, *, live: bool) -> str:
    """Print what the models of the run say meanwhile, where somebody watches; what the last of them has said."""
    run = None
    while run is None:
        found = (await engine.conversation(talk.name, tenant=talk.tenant)).exchanges[number]
        run = found.run
        if found.status not in ("waiting", "active"):
            break
        if run is None:
            await asyncio.sleep(0.1)  # it waits for the ones before it
    if run is None:
        return ""
    waits = asyncio.create_task(_advise(engine, run, talk))
    shown, source = "", None
    try:
        if live:
            async with aclosing(engine.watch_stream(run, "model")) as pieces:
                async for told in pieces:
                    if told.kind == "text":
                        shown = shown + told.text if told.source == source else told.text
                        if source not in (None, told.source):
                            talk.screen.part("\n")
                        source = told.source
                        talk.screen.part(told.text)
                    elif told.kind == "reset":
                        talk.screen.part("\n[asked again: what it said above counts for nothing]\n")
                        shown = ""
    finally:
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
    if source is not None:
        talk.screen.part("\n")
    return shown


async def _advise(engine: Engine, run: str, talk: _Talk) -> None:
    """Say what the agent waits for, where that is somebody."""
    from holdfast.cli import advice

    state = await engine.run(run).settled()
    for line in [] if state.ended else advice.of_state(state, talk.store):
        terminal.say(line)


def _conclude(exchange: Exchange, talk: _Talk, shown: str) -> None:
    from holdfast.service import view

    if talk.as_json:
        talk.screen.row(view.of_exchange(exchange))
    elif exchange.status != "completed":
        terminal.say(f"No reply: the run {exchange.run or ''} {exchange.status}. {exchange.problem or ''}".rstrip())
    elif exchange.reply != shown:
        talk.screen.text(exchange.reply or "")


async def _lines(screen: _Screen) -> AsyncGenerator[str, None]:
    """What is typed, a line each, without blank ones. A thread of its own waits for it, which keeps no process from ending."""
    loop = asyncio.get_running_loop()
    typed_: asyncio.Queue[str | None] = asyncio.Queue()
    wanted = threading.Semaphore(0)

    def read() -> None:
        while wanted.acquire():
            line = sys.stdin.readline(_MOST_BYTES) if sys.stdin is not None else ""
            loop.call_soon_threadsafe(typed_.put_nowait, line or None)
            if not line:
                return

    threading.Thread(target=read, name="holdfast-typing", daemon=True).start()
    while True:
        if screen.is_live:
            screen.part("> ")
        wanted.release()
        line = await typed_.get()
        if line is None:
            return
        if line.strip():
            yield line.strip("\r\n")
