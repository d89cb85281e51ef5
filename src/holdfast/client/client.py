"""The client that blocks. `make reference` writes it from async_client; a test holds it current."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2
import msgspec

from holdfast.client import exchange
from holdfast.client.exchange import Call, Reply, Request, T
from holdfast.client.listener import AFTER_ALL, Listener
from holdfast.client.server import Server, acting
from holdfast.errors import Unreachable
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Command, Query, Result, Row, Rows
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.service.view import CallerRow, GateWhole, RunStatusRow, RunWhole, StreamRow


class Client:
    """A client of a Holdfast server, over HTTP.

    Answers are the rows that `--json` prints; a type checker knows those of each command and query. Queries, and a start or
    message with a `key`, are repeated a few times after a failure.

    A refusal is raised as the server's error of holdfast.errors. Unauthorized means an unknown token, Unreachable a server that
    does not answer.

    Args:
        address: Address of the server, `https://HOST:PORT`.
        token: Token or API key.
        by: Name of the person who acts; the server does not verify it.
        roles: Roles in which `by` acts; the server does not verify them.
        traceparent: Trace of the requests (W3C Trace Context).
        ca: File with the authority that signed the server's certificate, if it is not a public one.
        insecure: True to allow http:// to another machine.

    Shared args:
        wait_s: Seconds, at most 30, to wait until the run has ended or waits for a person.

    Raises:
        UsageError: The address is http:// to another machine, without `insecure`.
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
        """Raises UsageError for http:// to another machine, unless `insecure`."""
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
        """Return a client that acts as another person, on the same connections.

        Args:
            by: Name of the person; the server does not verify it.
            roles: Roles in which `by` acts.
            traceparent: Trace of the requests (W3C Trace Context).
        """
        other = copy.copy(self)
        other._acting = acting(by, roles, traceparent)
        return other

    # --- Every command and query ----------------------------------------------------------------------------------

    def execute(self, command: Command[Result], *, wait_s: int = 0) -> Result:
        """Execute a command, durably, and return its answer: None, a row, or the run as it is afterwards.

        Args:
            command: The command.
        """
        return self._perform(exchange.execute(command, wait_s))

    def execute_many(self, bulk: Command[Rows[Row]]) -> Rows[Row]:
        """Execute a bulk command on one page of runs or dead letters, and return a row for each.

        Args:
            bulk: The bulk command.
        """
        return self._perform(exchange.execute(bulk))

    def query(self, query: Query[Row], *, wait_s: int = 0) -> Rows[Row]:
        """Return one page of a list; a single row is a page of one.

        Args:
            query: The query. `wait_s` is for `query.Run`.
        """
        return self._perform(exchange.query(query, wait_s))

    def tell(self, command: Command[Result], *, wait_s: int = 0) -> Result:
        """Do the same as `execute`. Deprecated.

        Args:
            command: The command.
        """
        _warn_deprecated("tell", "execute")
        return self.execute(command, wait_s=wait_s)

    def tell_many(self, bulk: Command[Rows[Row]]) -> Rows[Row]:
        """Do the same as `execute_many`. Deprecated.

        Args:
            bulk: The bulk command.
        """
        _warn_deprecated("tell_many", "execute_many")
        return self.execute_many(bulk)

    def ask(self, query: Query[Row], *, wait_s: int = 0) -> Rows[Row]:
        """Do the same as `query`. Deprecated.

        Args:
            query: The query.
        """
        _warn_deprecated("ask", "query")
        return self.query(query, wait_s=wait_s)

    def rows(self, query: Query[Row]) -> Iterator[Row]:
        """Yield all rows of a list, page after page.

        Args:
            query: The query.
        """
        while True:
            page = self.query(query)
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
        **fields: Any,
    ) -> RunStatusRow:
        """Start a run and return it as it is then.

        Args:
            fields: Other fields of `command.Start`.
        """
        return self.execute(cmd.Start(workflow=workflow, input=input, key=key, **fields), wait_s=wait_s)

    def run(self, run: str, *, wait_s: int = 0) -> RunWhole:
        """Return a run with its steps, effects and budget.

        Raises:
            NotFound: The run does not exist.
        """
        return (self.query(query.Run(run), wait_s=wait_s)).rows[0]

    def gate(self, gate: str) -> GateWhole:
        """Return a gate with what it shows, and its `shown_hash` for `decide`.

        Raises:
            NotFound: The gate does not exist.
        """
        return (self.query(query.Gate(gate))).rows[0]

    def result(self, run: str) -> Any:
        """Wait for a run's end and return its output.

        Args:
            run: Id of the run.

        Raises:
            RunFailed: The run failed or was cancelled; its row is in `run`.
        """
        listener = Listener(query.Events(run=run), AFTER_ALL)
        for _ in self._listen(listener):
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
        """Decide a gate and return its run.

        Raises:
            InvalidDecision: The decision does not fit, or lacks the `shown_hash` that the gate requires.
        """
        return self.execute(cmd.Decide(gate, decision, data, reason, shown_hash), wait_s=wait_s)

    def me(self) -> CallerRow:
        """Return the caller of the token: its name, its tenant and its grants."""
        return self._perform(exchange.me())

    # --- As it comes ----------------------------------------------------------------------------------------------

    def watch(self, run: str, after: int = 0) -> Iterator[View]:
        """Yield the events of a run until it has ended, each once, even if the server restarts. An event has the fields of
        EventRow and those of its type.

        Args:
            run: Id of the run.
            after: Number of the last known event; 0 for the beginning.

        Raises:
            NotFound: The run does not exist.
            Unreachable: The server does not answer.
        """
        return self._listen(Listener(query.Events(run=run), str(after)))

    def listen(self, run: str, name: str | None = None, *, after: str | None = None) -> Iterator[StreamRow]:
        """Yield what is written to a run's streams until the run has ended.

        Args:
            run: Id of the run.
            name: Only this stream or model call; by default all.
            after: Cursor of the last known item; by default the beginning.

        Raises:
            NotFound: The run does not exist.
            Unreachable: The server does not answer.
        """
        return self._listen(Listener(query.Streams(run=run, name=name), after))

    # --- On the wire ----------------------------------------------------------------------------------------------

    def _perform(self, call: Call[T]) -> T:
        """Send the requests of a call until it ends, and return its answer."""
        try:
            request = next(call)
            while True:
                request = call.send(self._send(request))
        except StopIteration as over:
            result: T = over.value
            return result

    def _send(self, request: Request) -> Reply | Unreachable:
        time.sleep(request.after_s)
        try:
            response = self._http.request(
                request.method, request.path, params=request.params, content=request.body, headers=self._headers(request)
            )
        except httpx2.TransportError as problem:
            return self._server.unreachable(problem)
        return Reply(response.status_code, response.headers, response.content)

    def _listen(self, listener: Listener) -> Iterator[Any]:
        while listener.end is None:
            request = listener.request()
            time.sleep(request.after_s)
            with listener:
                with self._http.stream("GET", request.path, params=request.params, headers=self._headers(request)) as response:
                    if response.status_code != 200 and listener.is_at_end(
                        Reply(response.status_code, response.headers, response.read())
                    ):
                        listener.end = self.run(listener.run)
                        return
                    for event in httpx2.EventSource(response, max_event_size=None):
                        if (row := listener.row_of(event)) is not None:
                            yield row

    def _headers(self, request: Request) -> dict[str, Any]:
        return {**self._acting, **request.headers}


def _warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old}() has become {new}(), and will be removed in 0.3.", DeprecationWarning, stacklevel=3)
