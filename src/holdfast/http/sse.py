"""Histories and streams of runs as server-sent events, each with the id after which a client that comes back goes on.

    id: 7                      where to go on: the header Last-Event-ID
    data: {…}                  as the list has it; its `type`, or its `kind`, is what it is
    event: end                 or `problem`: this one is the last; others have no name, so `onmessage` of a browser hears all
    retry: 2000                with the first: milliseconds after which a browser whose connection broke comes again

Never here: who may see it, what an event says (service).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import msgspec
from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from holdfast.http import problem
from holdfast.http.single_flight import SingleFlight
from holdfast.service import view
from holdfast.service.cursor import no_cursor
from holdfast.service.declarations import query
from holdfast.service.listing import seq_of
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.service.subscription import Ending, while_permitted

MEDIA_TYPE: Final = "text/event-stream"
LAST: Final = "last-event-id"
_PAGE: Final = 500
"""Events in memory at once: a history may be long."""
_WAIT_S: Final = 20.0
_LOOK_S: Final = 0.25
_RETRY: Final = b"retry: 2000\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def is_wanted(request: Request) -> bool:
    """Return True if the sender accepts server-sent events."""
    return request.method == "GET" and MEDIA_TYPE in request.headers.get("accept", "")


class _Counted(EventSourceResponse):
    """A stream that counts until it is over, also where the listener leaves before its first event."""

    def __init__(self, *value: Any, over: Callable[[], None], **more: Any) -> None:
        super().__init__(*value, **more)
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


_NOTHING: Final = "nothing"
"""The id of the end of a stream in which there was nothing."""


def response(
    events: AsyncGenerator[bytes, None],
    trace_id: str,
    check: Callable[[], Awaitable[None]],
    over: Callable[[], None],
    ending: Ending,
) -> EventSourceResponse:
    """Return a response that streams for as long as there are events, the other side listens, `check` allows it, and `ending`
    has not come: then it breaks off, so a browser comes again. At last it calls `over`."""
    lines = _in_words(_alive(events, check, ending), trace_id)
    return _Counted(lines, headers=_HEADERS, media_type=MEDIA_TYPE, over=over)


async def history(
    service: Service, principal: Principal, filters: query.Events, last: str | None, reads: SingleFlight
) -> AsyncGenerator[bytes, None] | None:
    """Return the events of a run after the `last` one received, and those to come, until it has ended. None if it has ended
    without events after that. Raises NotFound before anything is sent."""
    await service.expect(principal, filters)
    if last is not None:
        state = await service.control.run(filters.run).state()
        if state.ended and state.seq <= seq_of(last):
            return None
    return _resumable(_history(service, principal, filters.run, seq_of(last or filters.cursor), reads))


async def _history(
    service: Service, principal: Principal, run: str, after: int, reads: SingleFlight
) -> AsyncGenerator[bytes, None]:
    handle = service.control.run(run)
    while True:
        state = await handle.until(lambda state, after=after: bool(state.ended) or state.seq > after)  # type: ignore[misc]
        seq, over = state.seq, bool(state.ended)  # the state goes on while all this is on its way
        while after < seq:
            page = await reads.read((run, after, seq), partial(handle.events, after, min(_PAGE, seq - after)))
            for recorded in page:
                row = service.seen(principal, view.of_event(recorded))
                yield _event(row, id_=str(recorded.seq))
            if not page:
                break  # of an archived run the events may be gone
            after = page[-1].seq
        if over:
            yield _event(await reads.read((run, principal.tenant), partial(service.run, principal, run)), "end")
            return


async def stream(
    service: Service, principal: Principal, filters: query.Streams, last: str | None
) -> AsyncGenerator[bytes, None] | None:
    """Return the stream events of a run after the position `last`, until the run has ended. None if it has ended without events
    after that. Raises NotFound before anything is sent."""
    await service.expect(principal, filters)
    if last is not None and ("\n" in last or len(last) > 1000):
        raise no_cursor(last)
    if last == _NOTHING:
        page = await service.query(principal, msgspec.structs.replace(filters, wait_s=0))
        if page.cursor is None and not page.rows:
            return None
        last = None
    if last is not None:
        page = await service.query(principal, msgspec.structs.replace(filters, cursor=last, wait_s=0))
        if page.cursor is None and not page.rows:
            return None
    return _resumable(
        _stream(service, principal, msgspec.structs.replace(filters, cursor=last or filters.cursor, wait_s=_WAIT_S))
    )


async def _stream(service: Service, principal: Principal, filters: query.Streams) -> AsyncGenerator[bytes, None]:
    has_place = filters.cursor is not None
    while True:
        page = await service.query(principal, filters)
        for row in page.rows:
            yield _event(row, id_=row["cursor"])
            has_place = True
        if page.cursor is None:
            # A browser comes again with the last id that it received, and rests if nothing is behind that.
            yield _event(await service.run(principal, filters.run), "end", id_=None if has_place else _NOTHING)
            return
        filters = msgspec.structs.replace(filters, cursor=page.cursor)


async def tail(service: Service, principal: Principal, filters: query.Tail, last: str | None) -> AsyncGenerator[bytes, None]:
    """Return every event of all runs that the caller may see, after the `last` one received, for as long as they listen. Raises
    UsageError for an invalid cursor before anything is sent."""
    filters = msgspec.structs.replace(filters, cursor=last or filters.cursor)
    return _resumable(_tail(service, principal, filters, await service.query(principal, filters)))


async def _tail(service: Service, principal: Principal, filters: query.Tail, page: query.Page) -> AsyncGenerator[bytes, None]:
    while True:
        for row in page.rows:
            yield _event(row, id_=row["cursor"])
        if page.cursor is None:
            return
        if not page.rows:
            await asyncio.sleep(_LOOK_S)  # the store's own watch tells one listener, and that is the engine
        filters = msgspec.structs.replace(filters, cursor=page.cursor)
        page = await service.query(principal, filters)


async def _resumable(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the stream, whose first event says when to come again. Alone, that would be an empty event to some readers."""
    async with aclosing(events):
        retry = _RETRY
        async for each in events:
            yield retry + each
            retry = b""


async def _in_words(events: AsyncGenerator[bytes, None], trace_id: str) -> AsyncGenerator[bytes, None]:
    """Yield the stream, and an error as its last event: the status has already been sent."""
    try:
        async with aclosing(events):
            async for each in events:
                yield each
    except Exception as wrong:  # noqa: BLE001 - whatever it is, the listener gets it
        yield _event(problem.document_of(wrong, trace_id).body, "problem")


async def _alive(
    events: AsyncGenerator[bytes, None], check: Callable[[], Awaitable[None]], ending: Ending
) -> AsyncGenerator[bytes, None]:
    """Yield the stream while its listener may read it. In quiet periods yield comments, so that no proxy takes the connection
    for dead."""
    async with aclosing(while_permitted(events, check, ending)) as telling:
        async for each in telling:
            yield KEEPALIVE_COMMENT if each is None else each


def _event(data: Any, kind: str | None = None, *, id_: str | None = None) -> bytes:
    return format_sse_event(data_str=msgspec.json.encode(data).decode(), event=kind, id=id_)
