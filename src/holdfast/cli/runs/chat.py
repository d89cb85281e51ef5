"""`holdfast chat`: a conversation with an agent at the terminal, a line a message.

Never here: what becomes of a message, how a reply is shown (reply).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli.connect import backend, is_fleet, located, typed
from holdfast.cli.nouns.conversations import attachment
from holdfast.cli.option import Agent, AsJson, Store, TeamBudget, Tenant, TokenLimit, Who
from holdfast.cli.page import log_output, terminal
from holdfast.cli.page.exit_code import INTERRUPTED, OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption
from holdfast.cli.runs.reply import Replies, Screen
from holdfast.cli.target import is_name
from holdfast.core.nouns.conversations import OnBusy
from holdfast.errors import Conflict, UsageError

if TYPE_CHECKING:
    from holdfast.authoring.values.content import Audio, Document, Image
    from holdfast.authoring.workflow import Workflow
    from holdfast.cli.backend import Backend
    from holdfast.service.principal import Principal

_ATTACH = "/attach "
"""Begins a line that says no message, but what goes with the next."""
_HELP = ("/help", "/?")
_COMMANDS = (
    "/attach FILE: attach an image, a recording or a document to the next message\n"
    "/help: show these lines\n"
    "Ctrl-C stops a reply, Ctrl-D leaves. Any other line is a message."
)
_PAUSE_S = 0.1
_MAX_BYTES = 1_100_000
"""Of a line: more than a message may have."""


def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="Agent: FILE.py:NAME, PACKAGE.MODULE:NAME, or the name of a workflow that workers run."
        ),
    ],
    conversation: Annotated[
        str | None,
        typer.Option(
            "--conversation", metavar="NAME", help="Name of the conversation to continue or open; by default a new one."
        ),
    ] = None,
    on_busy: Annotated[OnBusy | None, typer.Option("--on-busy", help="Action on a message while the agent is busy.")] = None,
    cost_limit: Annotated[
        str | None, typer.Option("--cost-limit", metavar="USD", help="Cost limit of the whole conversation in dollars.")
    ] = None,
    token_limit: TokenLimit = None,
    team_budget: TeamBudget = None,
    spends_as: Agent = None,
    tenant: Tenant = None,
    here: Annotated[bool, typer.Option("--here", help="On a fleet's store: execute the agent in this process too.")] = False,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Chat with an agent.

    The conversation can be continued on any machine. A line `/attach FILE` attaches an image, a recording or a document to the
    next message; `/help` lists such lines. A line that you type while the agent answers does what --on-busy says. Ctrl-C stops
    the reply, and Ctrl-D leaves. A reply that a crash cut off continues with the conversation.
    """
    name = conversation or f"chat-{uuid.uuid4().hex[:12]}"
    limits = {"cost_limit_usd": cost_limit, "max_tokens": token_limit, "team_budget": team_budget, "agent": spends_as}
    talk = _Talk(target, name, on_busy, limits, tenant, here, resolve_actor(by), as_json, store, Screen())
    with Interruption(talk.words) as interruption:
        try:
            _open(talk, interruption)
        except asyncio.CancelledError:  # only by a signal
            interruption.tell()
            return INTERRUPTED
    return OK


class _Talk(NamedTuple):
    """The request of a person who chats."""

    target: str
    name: str
    on_busy: OnBusy | None
    limits: Mapping[str, Any]
    """What the conversation may spend, and of what."""
    tenant: str | None
    here: bool
    who: Principal
    as_json: bool
    store: str | None
    screen: Screen

    def words(self) -> str:
        return f"Interrupted. No message is lost. Continue with:\n  {self.again()}"

    def again(self) -> str:
        more = () if self.tenant is None else ("--tenant", self.tenant)
        return typed("chat", self.target, "--conversation", self.name, *more, store=self.store)


def _open(talk: _Talk, interruption: Interruption) -> None:
    from holdfast.cli.target import load
    from holdfast.platform.machine import run_quickly

    log_output.begin()
    agent = talk.target if is_name(talk.target) else load(talk.target, to_run=True)
    with terminal.aside():
        run_quickly(_run(agent, talk, interruption))


async def _run(agent: Workflow | str, talk: _Talk, interruption: Interruption) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with _with_named(agent, talk) if isinstance(agent, str) else _with_own(agent, talk) as service:
        terminal.say(f"Conversation {talk.name} of {talk.target}. Continue it with: {talk.again()}")
        async with aclosing(_lines()) as lines:
            await _Terminal(service, talk, interruption).serve(lines)
    interruption.over()


@asynccontextmanager
async def _with_named(agent: str, talk: _Talk) -> AsyncIterator[Backend]:
    """The conversation with an agent that workers elsewhere run, begun."""
    from holdfast.service.declarations.command import OpenConversation

    async with backend(talk.store, talk.who, make=True) as service:
        await service.execute(
            OpenConversation(
                name=talk.name, workflow=agent, on_busy=talk.on_busy or "enqueue", tenant=talk.tenant, **talk.limits
            )
        )
        yield service


@asynccontextmanager
async def _with_own(agent: Workflow, talk: _Talk) -> AsyncIterator[Backend]:
    """The same with one whose code is here."""
    from holdfast.cli.backend import LocalBackend
    from holdfast.compose import Engine
    from holdfast.service.service import Service

    where, known = located(talk.store)
    works = talk.here or not is_fleet(where)
    async with Engine.open(where, workflows=[agent], execute=works, settings=known) as engine:
        tenant: dict[str, Any] = {} if talk.tenant is None else {"tenant": talk.tenant}
        await engine.open_conversation(
            talk.name, agent, on_busy=talk.on_busy or "enqueue", by=talk.who.claim, **tenant, **talk.limits
        )
        yield LocalBackend(Service(engine), talk.who)


class _Terminal:
    """The terminal of a chat. If a person types, input and replies go on at the same time, and Ctrl-C stops a reply; input from
    elsewhere is sent line by line."""

    def __init__(self, service: Backend, talk: _Talk, interruption: Interruption) -> None:
        self._service = service
        self._talk = talk
        self._interruption = interruption
        self._is_typed = terminal.is_typed()
        self._stopping: list[asyncio.Task[None]] = []
        self._saying = asyncio.Lock()
        """Held while a message is on its way: what stops its reply comes after it."""
        self._replies = Replies(
            service, talk.name, talk.tenant, talk.store, talk.screen, as_json=talk.as_json, on_idle=self._idle
        )

    async def serve(self, lines: AsyncGenerator[str, None]) -> None:
        """Until nothing more is typed."""
        now = await self._replies.talk()
        for number in [*([now["active"]] if now["active"] is not None else []), *now["waiting"]]:
            self._replies.expect(number)
        if self._replies.idle.is_set():
            self._idle(True)
        tasks = [asyncio.create_task(each) for each in (self._read(lines), self._replies.show_all())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:  # the second only where something is wrong
                each.result()
        finally:
            self._interruption.instead(None)
            for each in (*tasks, *self._stopping):
                each.cancel()
            await asyncio.gather(*tasks, *self._stopping, return_exceptions=True)

    async def _read(self, lines: AsyncGenerator[str, None]) -> None:
        from holdfast.service.declarations.command import Say

        talk = self._talk
        if not self._is_typed:
            await self._replies.idle.wait()
        parts: list[Image | Audio | Document] = []
        async for line in lines:
            if line.strip() in _HELP:
                terminal.say(_COMMANDS)
                if self._replies.idle.is_set():
                    self._idle(True)
                continue
            if line.startswith(_ATTACH):
                parts += _attached(line.removeprefix(_ATTACH).strip())
                continue
            if self._is_typed:
                self._interruption.instead(self._stop)
            message = Say(conversation=talk.name, text=line, parts=parts or None, on_busy=talk.on_busy, tenant=talk.tenant)
            try:
                async with self._saying:
                    said = await self._service.execute(message)
            except (Conflict, UsageError) as refused:
                if not self._is_typed:
                    raise
                terminal.say(refused.message)
                if self._replies.idle.is_set():
                    self._idle(True)
                continue
            parts = []
            assert said is not None
            self._replies.expect(said["number"])
            if not self._is_typed:
                await self._replies.idle.wait()

    def _idle(self, is_idle: bool) -> None:
        if not self._is_typed:
            return
        self._interruption.instead(None if is_idle else self._stop)
        if is_idle and self._talk.screen.is_live:
            self._talk.screen.part("> ")

    def _stop(self) -> None:
        self._stopping.append(asyncio.create_task(self._stop_reply()))

    async def _stop_reply(self) -> None:
        from holdfast.service.declarations.command import Cancel

        terminal.say("Stopping the reply. Ctrl-C again leaves.")
        async with self._saying:
            found = await self._replies.talk()
        active = found["active"]
        while found["active"] is not None and found["active"] == active and found["run"] is None:
            await asyncio.sleep(_PAUSE_S)  # what is to answer has not begun
            found = await self._replies.talk()
        if found["active"] == active and found["run"] is not None:
            with suppress(Conflict):  # it has just come
                await self._service.execute(Cancel(found["run"], "stopped by the user"))


def _attached(file: str) -> list[Image | Audio | Document]:
    """Return what goes with the next message; nothing, and why, if it cannot."""
    try:
        found = [attachment(file)]
    except UsageError as problem:
        terminal.say(problem.message)
        return []
    terminal.say(f"{file} is attached to the next message.")
    return found


async def _lines() -> AsyncGenerator[str, None]:
    """Yield the lines that are typed, without blank ones. A thread of its own waits for them, which keeps no process from
    ending."""
    loop = asyncio.get_running_loop()
    typed_: asyncio.Queue[str | None] = asyncio.Queue()
    wanted = threading.Semaphore(0)

    def read() -> None:
        while wanted.acquire():
            line = sys.stdin.readline(_MAX_BYTES) if sys.stdin is not None else ""
            loop.call_soon_threadsafe(typed_.put_nowait, line or None)
            if not line:
                return

    threading.Thread(target=read, name="holdfast-typing", daemon=True).start()
    while True:
        wanted.release()
        line = await typed_.get()
        if line is None:
            return
        if line.strip():
            yield line.strip("\r\n")


EXAMPLES: Final = {"chat": "assistant.py:assistant --conversation ada"}
