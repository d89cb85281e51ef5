"""The place in a history or a stream up to which a client has read it, to go on from there when a connection breaks.

Never here: a connection, waiting.
"""

from __future__ import annotations

from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, cast

import httpx2
import msgspec

from holdfast.client.exchange import Reply, Request, pause_s, problem_of, refusal, request_of
from holdfast.errors import HoldfastError, StoreError, Unreachable
from holdfast.service.declarations.query import Events, Streams, View

if TYPE_CHECKING:
    from holdfast.service.view import RunWhole

MAX_TRIES: Final = 30
"""Attempts in a row without an event: about a minute."""
AFTER_ALL: Final = "9" * 15
"""A cursor after every possible event: only the end of the run is received."""


class Listener:
    """A reader of events until the run has ended, however often the connection breaks. Make each attempt `with` it: it
    swallows what breaks the connection, and raises Unreachable after too many attempts."""

    def __init__(self, query: Events | Streams, last: str | None = None) -> None:
        self.end: RunWhole | None = None
        """The run as it stands at its end; None before that was received."""
        self.run = query.run
        self._query = query
        self._last = last
        self._tries = 0
        """Attempts that were begun since the last event."""

    def request(self) -> Request:
        """Return the next request."""
        request = request_of(self._query)
        last = {} if self._last is None else {"Last-Event-ID": self._last}
        after_s = pause_s(self._tries - 1) if self._tries else 0.0
        self._tries += 1
        return request._replace(headers={"Accept": "text/event-stream", **last}, after_s=after_s)

    def row_of(self, event: httpx2.ServerSentEvent) -> View | None:
        """Return the row of an event, or None at the end. Raises the error that a stream ended with, unless it is temporary."""
        if event.event == "problem":
            _fail(problem_of(event.data))
        row: View = msgspec.json.decode(event.data)
        self._tries = 0
        if event.event == "end":
            self.end = cast("RunWhole", row)
            return None
        self._last = event.id
        return row

    def is_at_end(self, reply: Reply) -> bool:
        """Take a reply without events. Return True if the client has received all of them before. Raises the error of the
        reply, unless it is temporary."""
        return reply.status == HTTPStatus.NO_CONTENT or _fail(refusal(reply))

    def __enter__(self) -> None:
        """Begin an attempt."""

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None) -> bool:
        if kind is not None and not isinstance(problem, httpx2.TransportError | _Broken):
            return False
        if self.end is None and self._tries > MAX_TRIES:
            raise Unreachable(
                f"The connection broke, and {MAX_TRIES} attempts found no server: {problem or 'no event came'}."
            ) from None
        return True


def _fail(problem: HoldfastError) -> NoReturn:
    raise _Broken(problem.message) if isinstance(problem, StoreError | Unreachable) else problem


class _Broken(Exception):
    """An attempt has ended for a temporary reason."""
