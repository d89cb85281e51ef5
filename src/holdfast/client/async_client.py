"""The client that awaits.

Never here: what is said and understood (exchange, listener).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec

from holdfast.client import exchange
from holdfast.client.exchange import Made, Reply, Request, Talk
from holdfast.client.listener import AFTER_ALL, Listener
from holdfast.client.server import Server, acting
from holdfast.errors import Unreachable
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as asked
from holdfast.service.declarations.declaration import Command, Query
from holdfast.service.declarations.query import Page, View


class AsyncClient:
    """Tells and asks a server over HTTP, in an event loop.

    What is answered are the rows that `--json` prints. What the server refuses is raised as the error of holdfast.errors that
    it is there; Unauthorized for a token that it does not know, Unreachable where it does not answer. What only reads, and a
    start or message with a `key`, is said again a few times.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        by: str | None = None,
        roles: Sequence[str] = (),
        traceparent: str | None = None,
        ca: Path | None = None,
        insecure: bool = False,
    ) -> None:
        """`address` is `https://HOST:PORT`; `ca` the authority that signed its certificate, where that is none that everybody
        knows. `by` and `roles` say who acts, claims that nobody verifies, `traceparent` (W3C) in which trace. Raises UsageError
        for http:// to another machine, unless `insecure`."""
        self._server = Server(address, token, ca, insecure)
        self._acting = acting(by, roles, traceparent)
        self._http = httpx2.AsyncClient(**self._server.options())

    def __repr__(self) -> str:
        return f"AsyncClient({self._server.address!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections, also those of clients that act for others."""
        await self._http.aclose()

    def acting(self, by: str | None, roles: Sequence[str] = (), traceparent: str | None = None) -> Self:
        """The same, on the same connections, by somebody else."""
        other = copy.copy(self)
        other._acting = acting(by, roles, traceparent)
        return other

    # --- Anything that there is -----------------------------------------------------------------------------------

    async def tell(self, command: Command, *, wait_s: int = 0) -> View | None:
        """Do it, durably; the run (or the message) as it stands afterwards, if it is about one. With `wait_s` (30 at most) that
        is when it has ended or waits for somebody, or that time is over."""
        return await self._held(exchange.tell(command, wait_s))

    async def tell_many(self, bulk: Command) -> Page:
        """Do the same to a page of runs or dead letters; what became of each."""
        return await self._held(exchange.tell_many(bulk))

    async def ask(self, query: Query, *, wait_s: int = 0) -> Page:
        """A page of what is asked; a single row is a page of one. `wait_s` is for a Run, as in `tell`."""
        return await self._held(exchange.ask(query, wait_s))

    async def rows(self, query: Query) -> AsyncGenerator[View]:
        """All rows, page after page."""
        while True:
            page = await self.ask(query)
            for row in page.rows:
                yield row
            if page.cursor is None:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    # --- What is told and asked most ------------------------------------------------------------------------------

    async def start(
        self,
        workflow: str,
        input: Any = None,  # noqa: A002 - the field's word
        *,
        key: str | None = None,
        wait_s: int = 0,
        **more: Any,
    ) -> View:
        """Start a run; how it stands, see `tell`. The same `key` again is the same run. `more` are the other fields of
        holdfast.service.declarations.command.Start."""
        run = await self.tell(cmd.Start(workflow=workflow, input=input, key=key, **more), wait_s=wait_s)
        assert run is not None
        return run

    async def run(self, run: str, *, wait_s: int = 0) -> View:
        """A run with its steps, its effects and its books; see `tell` for `wait_s`. Raises NotFound."""
        return (await self.ask(asked.Run(run), wait_s=wait_s)).rows[0]

    async def gate(self, gate: str) -> View:
        """A question with what it shows, and with its `shown_hash` for `decide`. Raises NotFound."""
        return (await self.ask(asked.Gate(gate))).rows[0]

    async def result(self, run: str) -> Any:
        """Wait for the end; the run's output. Raises RunFailed, with the run as it stands in `run`."""
        listener = Listener(asked.Events(run=run), AFTER_ALL)
        async for _ in self._heard(listener):
            pass
        return exchange.output_of(listener.end)

    async def decide(
        self,
        gate: str,
        decision: str = "approve",
        data: Any = msgspec.UNSET,
        *,
        reason: str | None = None,
        shown_hash: str | None = None,
        wait_s: int = 0,
    ) -> View:
        """Answer a gate; the run as it stands, see `tell`. `shown_hash` binds the decision to what was seen, and is
        that of `gate`; without one InvalidDecision is raised, unless the gate says that it is optional."""
        run = await self.tell(cmd.Decide(gate, decision, data, reason, shown_hash), wait_s=wait_s)
        assert run is not None
        return run

    async def me(self) -> View:
        """Whose token it is, and for which tenant it asks."""
        return await self._held(exchange.me())

    # --- As it comes ----------------------------------------------------------------------------------------------

    def watch(self, run: str, after: int = 0) -> AsyncGenerator[View]:
        """The history of a run after the event `after`, and what comes, until the run has ended: each event once, also over
        a server that is begun anew. Raises NotFound, Unreachable."""
        return self._heard(Listener(asked.Events(run=run), str(after)))

    def listen(self, run: str, name: str | None = None, *, after: str | None = None) -> AsyncGenerator[View]:
        """What is said in a run while it goes on, or only the stream or call of that `name`, after the cursor `after`, until
        the run has ended. Raises NotFound, Unreachable."""
        return self._heard(Listener(asked.Streams(run=run, name=name), after))

    # --- On the wire ----------------------------------------------------------------------------------------------

    async def _held(self, talk: Talk[Made]) -> Made:
        """Send what a talk wants to say, until it is over."""
        try:
            request = next(talk)
            while True:
                request = talk.send(await self._sent(request))
        except StopIteration as over:
            made: Made = over.value
            return made

    async def _sent(self, request: Request) -> Reply | Unreachable:
        await asyncio.sleep(request.after_s)
        try:
            said = await self._http.request(
                request.method, request.path, params=request.params, content=request.body, headers=self._headers(request)
            )
        except httpx2.TransportError as problem:
            return self._server.unreachable(problem)
        return Reply(said.status_code, said.headers, said.content)

    async def _heard(self, listener: Listener) -> AsyncGenerator[View]:
        while listener.end is None:
            request = listener.request()
            await asyncio.sleep(request.after_s)
            with listener:
                async with self._http.stream(
                    "GET", request.path, params=request.params, headers=self._headers(request)
                ) as said:
                    if said.status_code != 200 and listener.unheard(Reply(said.status_code, said.headers, await said.aread())):
                        listener.end = await self.run(listener.run)
                        return
                    async for event in httpx2.EventSource(said, max_event_size=None):
                        if (row := listener.heard(event)) is not None:
                            yield row

    def _headers(self, request: Request) -> dict[str, Any]:
        return {**self._acting, **request.headers}
