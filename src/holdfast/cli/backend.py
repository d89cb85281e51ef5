"""The two sides that commands talk to: the service of a store that is opened here, or a server. Both answer the same rows.

Never here: which of them is meant (opening), words on a screen.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import Unreachable
from holdfast.service import listing, view
from holdfast.service.declarations import query as asked
from holdfast.service.declarations.query import MOST, Page, View

if TYPE_CHECKING:
    from holdfast.client import AsyncClient
    from holdfast.service.control.run_reader import RunReader
    from holdfast.service.declarations.declaration import Command, Query
    from holdfast.service.principal import Principal
    from holdfast.service.service import Service

_PAGE: Final = 1000
"""Events in memory at once: a history may be long."""
_PATIENCE_S: Final = 60.0
"""How long a server that is away is waited for by who follows a run."""
_FOLLOWS_S: Final = 0.25
"""How soon after the end of a run its reply is looked for."""
_ASKED_S: Final = 1.0
"""Seconds between two looks, while the run waits for a person."""
_WAIT_S: Final = 20
"""An answer that came earlier came because the run has settled."""


class QueryBackend(ABC):
    """Asked by one person."""

    @abstractmethod
    async def query(self, query: Query) -> Page:
        """See `Service.query`."""

    @abstractmethod
    async def changed(self, at_most_s: float) -> None:
        """Wait until something may have changed."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return the time by which ages are shown."""

    async def row(self, query: Query) -> View:
        """Return the answer to a query as one row."""
        return (await self.query(query)).rows[0]

    async def rows(self, query: Any, most: int | None = None) -> list[View]:
        """Return the rows of a list page after page, up to a maximum."""
        return (await self.page(query, most)).rows

    async def page(self, query: Any, most: int | None = None) -> Page:
        """The same rows, and where the list goes on."""
        found: list[View] = []
        while True:
            if hasattr(query, "limit"):
                query = msgspec.structs.replace(query, limit=MOST if most is None else min(MOST, most - len(found)))
            page = await self.query(query)
            found += page.rows
            if page.cursor is None or len(found) == most:
                return Page(found, page.cursor)
            query = msgspec.structs.replace(query, cursor=page.cursor)


class Backend(QueryBackend):
    """Commands and queries of one person."""

    @abstractmethod
    async def execute(self, command: Command) -> View | None:
        """Do it, durably; the run, the message, the key or the approval as it stands afterwards, if it is about one."""

    @abstractmethod
    async def execute_many(self, bulk: Command) -> Page:
        """Do the same to a page of runs or dead letters, or for the times of a schedule; a row for each says what became of it,
        or why it refused."""

    @abstractmethod
    async def settled(self, run: str) -> View:
        """Wait until a run has ended or waits for a person, and return how it stands then."""

    @abstractmethod
    async def reply(self, conversation: str, number: int, tenant: str | None) -> View:
        """Wait until a message has been answered, or will not be; what came of it."""

    @abstractmethod
    def watch(self, run: str, after: int) -> AsyncGenerator[View, None]:
        """The history of a run after an event, and what comes, until the run has ended."""

    @abstractmethod
    def listen(self, query: asked.Streams, *, follow: bool) -> AsyncGenerator[View, None]:
        """Yield a run's streams; with `follow` also what arrives, until the run has ended."""


class ListBackend(QueryBackend):
    """Lists of a store, which are there before an engine is loaded."""

    def __init__(self, inquiries: RunReader) -> None:
        self._inquiries = inquiries

    async def query(self, query: Query) -> Page:
        return await LISTS[type(query)](self._inquiries, query, getattr(query, "tenant", None))

    async def changed(self, at_most_s: float) -> None:
        await self._inquiries.store.watch.changed(at_most_s)

    def now_ms(self) -> int:
        return self._inquiries.now_ms()


LISTS: Final[Mapping[type, Callable[[RunReader, Any, str | None], Awaitable[Page]]]] = {
    asked.Runs: listing.runs,
    asked.Gates: listing.gates,
    asked.Events: listing.events,
    asked.Tail: listing.tail,
    asked.Logs: listing.logs,
}


class LocalBackend(Backend):
    """The service of a store that is opened in this process."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self.service = service
        self._who = principal

    async def query(self, query: Query) -> Page:
        return await self.service.query(self._who, query)

    async def execute(self, command: Command) -> View | None:
        return await self.service.stands(self._who, command)

    async def execute_many(self, bulk: Command) -> Page:
        page: Page = await self.service.execute(self._who, bulk)
        return page

    async def settled(self, run: str) -> View:
        await self.service.control.run(run).settled()
        return await self.row(asked.Run(run))

    async def reply(self, conversation: str, number: int, tenant: str | None) -> View:
        whose = {} if tenant is None else {"tenant": tenant}
        return view.of_exchange(await self.service.control.reply(conversation, number, **whose))

    async def watch(self, run: str, after: int) -> AsyncGenerator[View, None]:
        handle = self.service.control.run(run)
        while True:
            while page := await handle.events(after, _PAGE):
                for recorded in page:
                    yield view.of_event(recorded)
                after = page[-1].seq
            state = await handle.until(lambda state: state.seq > after or bool(state.ended))  # noqa: B023 - asked at once
            if state.ended and state.seq <= after:
                return

    async def listen(self, query: asked.Streams, *, follow: bool) -> AsyncGenerator[View, None]:
        since = listing.since_of(query.cursor)
        telling = self.service.control.watch_stream(query.run, query.name, since=since, follow=follow)
        async with aclosing(telling):
            async for told in telling:
                yield view.of_told(told)

    async def changed(self, at_most_s: float) -> None:
        await self.service.control.store.watch.changed(at_most_s)

    def now_ms(self) -> int:
        return self.service.control.now_ms()


class RemoteBackend(Backend):
    """A server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def query(self, query: Query) -> Page:
        return await self._client.query(query)

    async def execute(self, command: Command) -> View | None:
        return await self._client.execute(command)

    async def execute_many(self, bulk: Command) -> Page:
        return await self._client.execute_many(bulk)

    async def settled(self, run: str) -> View:
        heard_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            try:
                found = await self._client.run(run, wait_s=_WAIT_S)
            except Unreachable:  # the run goes on meanwhile
                if began_s - heard_s > _PATIENCE_S:
                    raise
                continue
            heard_s = time.monotonic()
            if heard_s - began_s < _WAIT_S or found["ended_at"] is not None:
                return found

    async def reply(self, conversation: str, number: int, tenant: str | None) -> View:
        heard_s = time.monotonic()
        while True:
            try:
                talk = await self.row(asked.Conversation(conversation, tenant))
            except Unreachable:  # the conversation goes on meanwhile
                if time.monotonic() - heard_s > _PATIENCE_S:
                    raise
                continue
            heard_s = time.monotonic()
            exchanges = {each["number"]: each for each in talk["exchanges"]}
            found: View = exchanges[number]
            if found["status"] not in ("waiting", "active"):
                part_of = exchanges[found["steers"] or number]
                return {**found, "reply": part_of["reply"], "problem": part_of["problem"]}
            ended = talk["run"] is None or (await self.settled(talk["run"]))["ended_at"] is not None
            await asyncio.sleep(_FOLLOWS_S if ended else _ASKED_S)

    def watch(self, run: str, after: int) -> AsyncGenerator[View, None]:
        return self._client.watch(run, after)

    async def listen(self, query: asked.Streams, *, follow: bool) -> AsyncGenerator[View, None]:
        if follow:
            async with aclosing(self._client.listen(query.run, query.name, after=query.cursor)) as telling:
                async for row in telling:
                    yield row
            return
        while True:
            page = await self.query(query)
            for row in page.rows:
                yield row
            if page.cursor is None or not page.rows:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def changed(self, at_most_s: float) -> None:
        await asyncio.sleep(at_most_s)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
