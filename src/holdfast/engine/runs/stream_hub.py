"""Watching the streams of runs, whichever process they go on in: one look at the store for all who watch in this process.

While somebody watches, the store is asked every few milliseconds what has grown, ever less often where nothing has come for
long; while nobody does, never. So a look costs what has come, however many runs are watched. It is a hint: now and then all are
looked at. Everybody reads by himself what there is when he comes, and hears of the rest, which is made out once for all who
stand at the same place; who is slow reads again where he stands, so nobody's news gather here. Never here: what is told
(core.facts.streams), writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from holdfast.core.facts import events as ev
from holdfast.core.facts.streams import TOOLS, Cursor, Follower, StreamEvent, call_of, is_call, place_of, source_of
from holdfast.core.nouns.shared_values import CACHE
from holdfast.core.values.ids import RunId, Seq
from holdfast.core.values.payload import Payload
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.engine.runs.payloads import Payloads
from holdfast.errors import HoldfastError, InvalidInput, StoreError
from holdfast.ports import Chunk, Clock, Store, StreamName

QUICK_S: Final = 0.004
_QUIET_PARTS: Final = 500
"""So small a part of the time for which nothing came may something more take to be seen."""
_LONGEST_S: Final = 0.25
_LONGEST_IN_CALL_S: Final = 0.015
"""The same while a model is asked, which may think for a minute before its first word."""
_ALL_S: Final = 5.0
"""How often all are looked at, whatever is said to have grown."""
_AWAY_S: Final = 0.5
_PAGE: Final = 200
_MAX_NEWS: Final = 100
"""Maximum number of looks at the store that a listener may be behind."""
_FORGOTTEN_S: Final = 10.0
"""How long after its reply a text's pieces may still be in the store."""
_OF_CALLS: Final = (ev.ModelCallHeld, ev.ModelCallSettled, ev.ModelCallFailed, ev.ModelCallInDoubt)

log = logging.getLogger("holdfast")


class ReadEvent(NamedTuple):
    """An event, and what of a model's words it holds."""

    seq: Seq
    event: ev.Event
    said: str | None
    besides: Mapping[str, str]


class RunUpdate:
    """The result of a look at a run. The pieces were read before the events."""

    def __init__(self, events: Sequence[ReadEvent], chunks: Sequence[Chunk]) -> None:
        self.events = events
        self.chunks = chunks
        self._told: dict[str, tuple[Sequence[StreamEvent], Follower]] = {}

    def told_to(self, follower: Follower) -> tuple[Sequence[StreamEvent], Follower]:
        """Return what a reader gets of it, and the reader's place then: computed once for all readers at the same place."""
        found = self._told.get(follower.place)
        if found is None:
            then = follower.copy()
            found = self._told[follower.place] = [*_all_told(then, self.events, self.chunks)], then
        return found


class Listener:
    """One who watches, as far as he has not dealt with his news."""

    def __init__(self) -> None:
        self._news: deque[RunUpdate] = deque()
        self._more = asyncio.Event()
        self.is_behind = False
        """There was too much for him: he reads again where he stands."""

    def hear(self, news: RunUpdate) -> None:
        if len(self._news) == _MAX_NEWS:
            self.is_behind = True
            self._news.clear()
        if not self.is_behind:
            self._news.append(news)
        self._more.set()

    async def news(self) -> RunUpdate | None:
        """Return what comes next; None if the reader is behind."""
        while not self._news and not self.is_behind:
            self._more.clear()
            await self._more.wait()
        return None if self.is_behind else self._news.popleft()


class WatchedRun:
    """A run that is watched here."""

    def __init__(self, tenant: str, seq: Seq, sizes: dict[StreamName, int]) -> None:
        self.tenant = tenant
        self.seq = seq
        self.sizes = sizes
        """How much of each stream was heard of."""
        self.open: set[str] = set()
        """Calls that are under way."""
        self.over: dict[str, float] = {}
        """Those that have their reply, and since when."""
        self.listeners: dict[Listener, None] = {}


class StreamHub:
    """The readers of runs in one process."""

    def __init__(self, store: Store, payloads: Payloads, clock: Clock) -> None:
        self._streams, self._log, self._views = store.streams, store.log, store.views
        self._payloads = payloads
        self._clock = clock
        self._feeds: dict[RunId, WatchedRun] = {}
        self._mark: str | None = None
        """Up to where it is known what has grown."""
        self._unseen: set[RunId] = set()
        """Those that are to be looked at whether they have grown or not."""
        self._all_s = 0.0
        """When all were looked at."""
        self._loop = BackgroundLoop(
            "holdfast-listening",
            self._turn,
            clock,
            fault="holdfast can no longer watch streams",
            outage=Outage("holdfast: streams cannot be watched for now: %s", _AWAY_S),
        )
        self._heard_s = 0.0
        self._nudged = asyncio.Event()

    async def listen(
        self, run: RunId, tenant: str, follower: Follower, *, follow: bool, mute: bool = False
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield what a reader of a run gets, with `follow` until it has ended. `mute` leaves out what is there already."""
        if not follow:
            async for told in self._there(follower, run, tenant):
                yield told
            return
        listener = await self._begin(run, tenant)
        try:
            while True:
                listener.is_behind = False  # before what there is is read: meanwhile too much may come again
                follower = follower.copy()  # others at the same place share this one, and read the rest by themselves
                async for told in self._there(follower, run, tenant):
                    if not mute:
                        yield told
                mute = False
                if follower.is_over:
                    return
                while (news := await listener.news()) is not None:
                    tellings, follower = news.told_to(follower)
                    for told in tellings:
                        yield told
                    if follower.is_over:
                        break
        finally:
            self._end(run, listener)

    async def cursor_at(self, run: RunId, source: str, offset: int) -> Cursor:
        """Return the place of a reader who wants one source, from an offset on; a negative one counts from the end of what
        there is now."""
        if offset < 0:
            if is_call(source):
                raise InvalidInput(f"{offset} is no place in what a call says: it is counted in characters from 0.")
            sizes = await self._streams.sizes([run])
            offset = max(0, sizes.get(StreamName(run, source), 0) + offset)
        return Cursor(0, {source: offset} if offset else {})

    @property
    def is_looking(self) -> bool:
        """True if the store is asked."""
        return self._loop.goes_on

    def nudge(self) -> None:
        """Something was written here: look at once."""
        self._nudged.set()

    async def aclose(self) -> None:
        await self._loop.aclose()

    # --- What there is ------------------------------------------------------------------------------------------------

    async def _there(self, follower: Follower, run: RunId, tenant: str) -> AsyncIterator[StreamEvent]:
        """Yield what is in the store by now."""
        known = {StreamName(run, source): size for source, size in follower.cursor.told.items()}
        while True:
            was_over = follower.is_over
            chunks = await self._streams.chunks([run], known, _PAGE)
            known |= {name: first + size for name, first, size, _ in chunks}
            results = [chunk for chunk in chunks if chunk.name.stream == TOOLS]
            while True:
                recorded = await self._log.events(run, follower.cursor.seq, _PAGE)
                heard = [await self._read_event(each, tenant) for each in recorded]
                results += await self._results(run, heard, known)
                ready = _ready(results, heard[-1].seq if heard else follower.cursor.seq)
                results = results[len(ready) :]
                for told in _all_told(follower, heard, ready):
                    yield told
                if len(recorded) < _PAGE:
                    break
            for told in _all_told(follower, (), [chunk for chunk in chunks if chunk.name.stream != TOOLS]):
                yield told
            if len(chunks) < _PAGE and (was_over or not follower.is_over):
                return

    async def _results(self, run: RunId, events: Sequence[ReadEvent], sizes: dict[StreamName, int]) -> list[Chunk]:
        """Return the results that calls among these events were given, beyond what is `sizes`, which grows. They were in the
        store before the call was recorded, so they are read after its event: what was read before may lack them."""
        if not any(isinstance(each.event, ev.ModelCallHeld) for each in events):
            return []
        name, found = StreamName(run, TOOLS), list[Chunk]()
        while True:  # of this stream alone: in a page of all, text that comes meanwhile would take the room of results
            page = await self._streams.chunks([run], sizes, _PAGE, only=TOOLS)
            ready = _ready(page, events[-1].seq)
            found += ready
            if ready:
                sizes[name] = ready[-1].first + ready[-1].size
            if len(ready) < _PAGE:  # what else there is belongs behind events that are read later
                return found

    async def _read_event(self, recorded: ev.Recorded, tenant: str) -> ReadEvent:
        event = recorded.event
        payload = None
        if isinstance(event, ev.ModelCallSettled):
            payload = event.output
        elif isinstance(event, ev.ModelCallInDoubt):
            payload = event.output or event.partial
        elif isinstance(event, ev.ValueRecorded) and event.name.startswith(f"{CACHE}/"):
            payload = event.payload
        said, besides = (None, {}) if payload is None else await self._read_text(payload, tenant)
        return ReadEvent(recorded.seq, event, said, besides)

    async def _read_text(self, payload: Payload, tenant: str) -> tuple[str | None, Mapping[str, str]]:
        try:
            value = await self._payloads.value(payload, tenant)
        except HoldfastError as problem:
            log.warning("holdfast: the text of a model cannot be read, and is left out of streams: %s", problem)
            return None, {}
        if isinstance(value, list):  # what a cache had
            return (value[0]["reply"]["text"] if value else None), {}
        # Vectors are no text.
        return (value, {}) if isinstance(value, str) else (value.get("text"), value.get("besides", {}))

    # --- What comes ---------------------------------------------------------------------------------------------------

    async def _begin(self, run: RunId, tenant: str) -> Listener:
        """Note that a listener watches from now on."""
        listener = Listener()
        if run not in self._feeds:
            sizes = await self._streams.sizes([run])
            seqs = await self._log.seqs([run])
            found = WatchedRun(tenant, seqs.get(run, Seq(0)), dict(sizes))
            self._feeds.setdefault(run, found)
        feed = self._feeds[run]
        feed.listeners[listener] = None
        self._unseen.add(run)  # it may have grown before it was watched
        self._heard_s = self._clock.monotonic_s()
        self.nudge()
        self._loop.start()
        return listener

    def _end(self, run: RunId, listener: Listener) -> None:
        feed = self._feeds[run]
        del feed.listeners[listener]
        if not feed.listeners:
            del self._feeds[run]

    async def _turn(self) -> float | None:
        began_s = self._clock.monotonic_s()
        self._nudged.clear()
        try:
            await self._look(began_s)
        except StoreError:
            self._mark = None
            raise
        took_s = self._clock.monotonic_s() - began_s
        await self._pause(max(self._every_s(), took_s))
        if self._feeds:
            return 0.0
        self._mark = None
        return None

    def _every_s(self) -> float:
        longest_s = _LONGEST_IN_CALL_S if any(feed.open for feed in self._feeds.values()) else _LONGEST_S
        return min(max((self._clock.monotonic_s() - self._heard_s) / _QUIET_PARTS, QUICK_S), longest_s)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudged.wait()

    async def _look(self, now_s: float) -> None:
        mark, sizes, seqs = await self._streams.news(self._mark)
        if self._mark is None or now_s - self._all_s > _ALL_S:
            self._unseen, self._all_s = {*self._feeds}, now_s
        grown = {name.run for name, size in sizes.items() if self._has_grown(name, size)}
        grown |= {run for run, seq in seqs.items() if run in self._feeds and seq > self._feeds[run].seq}
        unseen, self._unseen = self._unseen, set()
        feeds = {run: self._feeds[run] for run in grown | unseen if run in self._feeds}
        if feeds:
            await self._look_at(feeds, {**seqs, **(await self._log.seqs([*unseen]) if unseen else {})})
        self._mark = mark

    def _has_grown(self, name: StreamName, size: int) -> bool:
        return name.run in self._feeds and size > self._feeds[name.run].sizes.get(name, 0)

    async def _look_at(self, feeds: dict[RunId, WatchedRun], seqs: Mapping[RunId, Seq]) -> None:
        """Tell what has come of these runs, whose histories have grown that far."""
        known = {name: size for feed in feeds.values() for name, size in feed.sizes.items()}
        chunks: dict[RunId, list[Chunk]] = {}
        found = await self._streams.chunks(feeds, known, _PAGE)
        for chunk in found:
            chunks.setdefault(chunk.name.run, []).append(chunk)
        for run, feed in feeds.items():  # what needs no event to be understood is sent at once
            if run in chunks and all(_is_known(feed, chunk) for chunk in chunks[run]):
                self._tell(run, feed, RunUpdate((), chunks.pop(run)))
        for run, feed in feeds.items():
            events: list[ReadEvent] = []
            if run in chunks or seqs.get(run, 0) > feed.seq:
                recorded = await self._log.events(run, feed.seq, _PAGE)
                events = [await self._read_event(each, feed.tenant) for each in recorded]
            is_whole = len(events) < _PAGE  # else pieces may be of calls that come in the next page, and are read again then
            results, pieces = await self._split(run, feed, events, chunks.get(run, ()))
            if events or results or pieces:
                self._tell(run, feed, RunUpdate(events, [*results, *(pieces if is_whole else ())]))
            if not is_whole or len(found) == _PAGE:
                self._unseen.add(run)
        if self._unseen:
            self.nudge()  # there is more

    async def _split(
        self, run: RunId, feed: WatchedRun, events: Sequence[ReadEvent], chunks: Sequence[Chunk]
    ) -> tuple[list[Chunk], list[Chunk]]:
        """Return the results that may be sent with these events, and all other pieces."""
        results = [chunk for chunk in chunks if chunk.name.stream == TOOLS]
        known = dict(feed.sizes)
        known.update({chunk.name: chunk.first + chunk.size for chunk in results})
        results += await self._results(run, events, known)
        ready = _ready(results, events[-1].seq if events else feed.seq)
        return ready, [chunk for chunk in chunks if chunk.name.stream != TOOLS]

    def _tell(self, run: RunId, feed: WatchedRun, news: RunUpdate) -> None:
        now_s = self._heard_s = self._clock.monotonic_s()
        for seq, event, *_ in news.events:
            feed.seq = seq
            if isinstance(event, ev.ModelCallHeld):
                feed.open.add(source_of(event.call))
            elif isinstance(event, _OF_CALLS):
                source = source_of(event.call)
                feed.open.discard(source)
                if isinstance(event, ev.ModelCallSettled):
                    feed.over[source] = now_s
        for name, first, size, _ in news.chunks:
            feed.sizes[name] = first + size
        for source, since_s in list(feed.over.items()):
            if since_s + _FORGOTTEN_S > now_s:
                break
            del feed.over[source]
            feed.sizes = {name: size for name, size in feed.sizes.items() if call_of(name.stream) != source}
        for listener in feed.listeners:
            listener.hear(news)


def _is_known(feed: WatchedRun, chunk: Chunk) -> bool:
    """True if the source of a piece is known: of a call the event that began it comes first, and a result comes after the reply
    that it answers."""
    stream = chunk.name.stream
    return stream != TOOLS if not is_call(stream) else call_of(stream) in feed.open


def _ready(results: Sequence[Chunk], seq: int) -> list[Chunk]:
    """Return the first of these results, as far as they belong behind the event `seq` or an earlier one."""
    return [*takewhile(lambda chunk: (place_of(chunk.content) or 0) <= seq, results)]


def _all_told(follower: Follower, events: Sequence[ReadEvent], chunks: Sequence[Chunk]) -> Iterator[StreamEvent]:
    """Tell events and pieces in order: a result behind the event that it belongs behind, any other piece at the end."""
    at = 0
    for heard in events:
        while at < len(chunks) and (chunks[at].name.stream == TOOLS) and _is_before(chunks[at], heard.seq):
            yield from _chunk_events(follower, chunks[at])
            at += 1
        yield from follower.event(*heard)
    for chunk in chunks[at:]:
        yield from _chunk_events(follower, chunk)


def _chunk_events(follower: Follower, chunk: Chunk) -> Iterator[StreamEvent]:
    return follower.chunk(chunk.name.stream, chunk.first, chunk.content)


def _is_before(result: Chunk, seq: int) -> bool:
    after = place_of(result.content)
    return after is not None and after < seq
