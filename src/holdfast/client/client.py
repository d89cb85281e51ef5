"""The client that blocks. `make reference` writes it from async_client; a test holds it current."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2
import msgspec

from holdfast.client import exchange
from holdfast.client.exchange import Made, Reply, Request, Talk
from holdfast.client.listener import AFTER_ALL, Listener
from holdfast.client.server import Server, acting
from holdfast.errors import Unreachable
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as asked
from holdfast.service.declarations.declaration import Command, Query, Result, Row, Rows
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.service.view import CallerRow, GateWhole, RunStatusRow, RunWhole, StreamRow


class Client:
    """A client of a Holdfast server, over HTTP.

    Answers are the rows that `--json` prints, and a type checker knows those of each command and query. A refusal is raised as
    the server's error of holdfast.errors: Unauthorized for an unknown token, Unreachable if the server does not answer.
    Queries, and a start or message with a `key`, are repeated a few times before that.
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
        """`address` is `https://HOST:PORT`, `ca` a file with the authority that signed its certificate, if that is not a public
        one. `by` and `roles` are claims about who acts, which are not verified; `traceparent` (W3C) is the trace. Raises
        UsageError for http:// to another machine, unless `insecure`."""
        self._server = Server(address, token, ca, insecure)
        self._acting = acting(by, roles, traceparent)
        self._http = httpx2.Client(**self._server.options())

    def __repr__(self) -> str:
        return f"Client({self._server.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, which clients made by `acting` share."""
        self._http.close()

    def acting(self, by: str | None, roles: Sequence[str] = (), traceparent: str | None = None) -> Self:
        """Return a client that acts as another person, on the same connections."""
        other = copy.copy(self)
        other._acting = acting(by, roles, traceparent)
        return other

    # --- Every command and query ----------------------------------------------------------------------------------

    def tell(self, command: Command[Result], *, wait_s: int = 0) -> Result:
        """Carry out a command, durably, and return its answer: None, a row, or the run as it stands afterwards. With `wait_s`
        (at most 30) that is when the run has ended or waits for a person, or when this time is over."""
        return self._held(exchange.tell(command, wait_s))

    def tell_many(self, bulk: Command[Rows[Row]]) -> Rows[Row]:
        """Do the same to a page of runs or dead letters, and return a row about each."""
        return self._held(exchange.tell(bulk))

    def ask(self, query: Query[Row], *, wait_s: int = 0) -> Rows[Row]:
        """Return a page of a list; a single row is a page of one. `wait_s` is for `query.Run`, as in `tell`."""
        return self._held(exchange.ask(query, wait_s))

    def rows(self, query: Query[Row]) -> Iterator[Row]:
        """Yield all rows of a list, page after page."""
        while True:
            page = self.ask(query)
            for row in page.rows:
                yield row
            if page.cursor is None:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    # --- The most frequent ones -----------------------------------------------------------------------------------

    def start(
        self,
        workflow: str,
        input: Any = None,  # noqa: A002 - the field's word
        *,
        key: str | None = None,
        wait_s: int = 0,
        **more: Any,
    ) -> RunStatusRow:
        """Start a run and return how it stands; see `tell` for `wait_s`. With the same `key` again it is the same run. `more`
        are the other fields of `command.Start`."""
        return self.tell(cmd.Start(workflow=workflow, input=input, key=key, **more), wait_s=wait_s)

    def run(self, run: str, *, wait_s: int = 0) -> RunWhole:
        """Return a run with its steps, effects and budget; see `tell` for `wait_s`. Raises NotFound."""
        return (self.ask(asked.Run(run), wait_s=wait_s)).rows[0]

    def gate(self, gate: str) -> GateWhole:
        """Return a gate with what it shows, and with its `shown_hash` for `decide`. Raises NotFound."""
        return (self.ask(asked.Gate(gate))).rows[0]

    def result(self, run: str) -> Any:
        """Wait for the end of a run and return its output. Raises RunFailed, with the run as it stands in `run`."""
        listener = Listener(asked.Events(run=run), AFTER_ALL)
        for _ in self._heard(listener):
            pass
        return exchange.output_of(listener.end)

    def decide(
        self,
        gate: str,
        decision: str = "approve",
        data: Any = msgspec.UNSET,
        *,
        reason: str | None = None,
        shown_hash: str | None = None,
        wait_s: int = 0,
    ) -> RunStatusRow:
        """Decide a gate and return how the run stands; see `tell` for `wait_s`. `shown_hash` binds the decision to what was
        seen: pass that of `gate`. Without it, InvalidDecision is raised unless the gate makes it optional."""
        return self.tell(cmd.Decide(gate, decision, data, reason, shown_hash), wait_s=wait_s)

    def me(self) -> CallerRow:
        """Return whose token this is, for which tenant it acts, and what it allows."""
        return self._held(exchange.me())

    # --- As it comes ----------------------------------------------------------------------------------------------

    def watch(self, run: str, after: int = 0) -> Iterator[View]:
        """Yield the events of a run after the one of number `after`, and those to come, until the run has ended: each once,
        also if the server restarts. Beside the fields of EventRow an event has those of its type. Raises NotFound,
        Unreachable."""
        return self._heard(Listener(asked.Events(run=run), str(after)))

    def listen(self, run: str, name: str | None = None, *, after: str | None = None) -> Iterator[StreamRow]:
        """Yield what is written to the streams of a run, after the cursor `after`, until the run has ended; with `name` only
        that stream or model call. Raises NotFound, Unreachable."""
        return self._heard(Listener(asked.Streams(run=run, name=name), after))

    # --- On the wire ----------------------------------------------------------------------------------------------

    def _held(self, talk: Talk[Made]) -> Made:
        """Send the requests of a talk until it ends, and return its answer."""
        try:
            request = next(talk)
            while True:
                request = talk.send(self._sent(request))
        except StopIteration as over:
            made: Made = over.value
            return made

    def _sent(self, request: Request) -> Reply | Unreachable:
        time.sleep(request.after_s)
        try:
            said = self._http.request(
                request.method, request.path, params=request.params, content=request.body, headers=self._headers(request)
            )
        except httpx2.TransportError as problem:
            return self._server.unreachable(problem)
        return Reply(said.status_code, said.headers, said.content)

    def _heard(self, listener: Listener) -> Iterator[Any]:
        while listener.end is None:
            request = listener.request()
            time.sleep(request.after_s)
            with listener:
                with self._http.stream("GET", request.path, params=request.params, headers=self._headers(request)) as said:
                    if said.status_code != 200 and listener.unheard(Reply(said.status_code, said.headers, said.read())):
                        listener.end = self.run(listener.run)
                        return
                    for event in httpx2.EventSource(said, max_event_size=None):
                        if (row := listener.heard(event)) is not None:
                            yield row

    def _headers(self, request: Request) -> dict[str, Any]:
        return {**self._acting, **request.headers}
