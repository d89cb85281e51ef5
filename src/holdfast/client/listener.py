"""What was heard of a history or a stream so far, and from where it is asked for again.

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

MOST_TRIES: Final = 30
"""One after another in which nothing was heard: about a minute."""
AFTER_ALL: Final = "9" * 15
"""After each event that there can be: only the end is heard."""


class Listener:
    """Listens until the run has ended, however often the connection breaks. Each try is made `with` it: what breaks a
    connection is kept until there were too many, then it raises Unreachable."""

    def __init__(self, query: Events | Streams, last: str | None = None) -> None:
        self.end: RunWhole | None = None
        """The run as it stands at its end, once that was heard."""
        self.run = query.run
        self._query = query
        self._last = last
        self._tries = 0
        """That have begun since something was heard."""

    def request(self) -> Request:
        """What is asked next."""
        asked = request_of(self._query)
        last = {} if self._last is None else {"Last-Event-ID": self._last}
        after_s = pause_s(self._tries - 1) if self._tries else 0.0
        self._tries += 1
        return asked._replace(headers={"Accept": "text/event-stream", **last}, after_s=after_s)

    def heard(self, event: httpx2.ServerSentEvent) -> View | None:
        """The row that an event tells, if it is one. Raises the error that a stream ended with, unless it passes."""
        if event.event == "problem":
            _fail(problem_of(event.data))
        row: View = msgspec.json.decode(event.data)
        self._tries = 0
        if event.event == "end":
            self.end = cast("RunWhole", row)
            return None
        self._last = event.id
        return row

    def unheard(self, reply: Reply) -> bool:
        """Nothing will be told now. Returns True where all was told before. Raises the error that a reply tells, unless it
        passes."""
        return reply.status == HTTPStatus.NO_CONTENT or _fail(refusal(reply))

    def __enter__(self) -> None:
        """A try begins."""

    def __exit__(self, kind: type[BaseException] | None, broke: BaseException | None, _: TracebackType | None) -> bool:
        if kind is not None and not isinstance(broke, httpx2.TransportError | _Broken):
            return False
        if self.end is None and self._tries > MOST_TRIES:
            raise Unreachable(f"The server was lost, and not found again: {broke or 'it says nothing'}.") from None
        return True


def _fail(problem: HoldfastError) -> NoReturn:
    raise _Broken(problem.message) if isinstance(problem, StoreError | Unreachable) else problem


class _Broken(Exception):
    """A try has ended for a reason that passes."""
