"""The queue of a fleet on Redis (6.2 or newer) or Valkey: jobs in streams, news over publish and subscribe.

    PREFIX:ready:LANE       stream, group `leaders`: jobs for the leader
    PREFIX:worker:SESSION   stream, group `worker`: jobs that were placed with one worker
    PREFIX:reports:LANE     hash: the latest that each worker said of itself; and a channel of the same name
    PREFIX:news             channel: how far runs are

Nothing is trimmed: an entry goes when it is acknowledged. Groups are made again when they are gone, because Redis may be
flushed, restarted or replaced by a stale copy at any time; what was lost with it is found in the store. What cannot be
written (Redis away, its memory full) is dropped, and that is said once; so is what cannot be read.

Never here: a decision about a run or a worker; a fence. XACK of an entry that somebody else has claimed succeeds, so
nothing may follow from it: only an append to the store says whose work counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from holdfast.core.capacity.lanes import DEFAULT
from holdfast.core.values.ids import RunId, Seq, SessionId
from holdfast.ports import DeliveredJob, Job, Report

log = logging.getLogger("holdfast")

T = TypeVar("T")

DEFAULT_PREFIX: Final = "holdfast"
MAX_WAITING: Final = 100_000
"""Maximum number of jobs that wait for a leader; the sweep finds the rest. There may be no leader."""
MAX_AT_ONCE: Final = 500
_NEW: Final = ">"
_ITS_OWN: Final = "0"
_BLOCK_MS: Final = 2_000
_ANSWER_S: Final = 5.0
"""What takes longer than that, a blocking read included, is taken for lost."""
_CLAIM_IDLE_MS: Final = 0
"""A new leader takes all that the one before it left: of two, the store knows one."""
_FORGOTTEN_S: Final = 24 * 3600
"""Seconds without a new job after which a worker's stream is removed."""
_PAUSES_S: Final = (0.05, 0.2, 1.0)
_TROUBLE: Final = (RedisError, OSError, TimeoutError)

_encode = msgspec.json.Encoder().encode
_decode_job = msgspec.json.Decoder(Job).decode
_decode_report = msgspec.json.Decoder(Report).decode
_decode_seqs = msgspec.json.Decoder(dict[RunId, Seq]).decode


class RedisQueue:
    """Keeps ports.Queue. One listener of each kind at a time."""

    def __init__(self, url: str, prefix: str = DEFAULT_PREFIX, lane: str = DEFAULT) -> None:
        """`url` as redis-py takes it; nothing is connected yet. `lane` is the one that this process leads or works in.
        Raises ValueError for a URL that cannot be read."""
        self._redis: Redis = Redis.from_url(
            url,
            socket_connect_timeout=_ANSWER_S,
            socket_timeout=_ANSWER_S,
            health_check_interval=15,
            retry=Retry(NoBackoff(), 0),  # a read whose reply was lost is caught up with, not repeated in silence
        )
        self._prefix = prefix
        self._ready = self._ready_of(lane)
        self._workers = f"{prefix}:worker:"
        self._reports = f"{prefix}:reports:{lane}"
        self._news = f"{prefix}:news"
        self._listening: dict[str, PubSub] = {}
        self._waiting: dict[str, int] = {}
        """How many jobs wait in the lanes that were offered some."""
        self._caught_up: dict[str, SessionId] = {}
        """Of each stream, who has been given what had been read and not acknowledged before."""
        self._troubled = False

    # --- Saying -------------------------------------------------------------------------------------------------------

    def _ready_of(self, lane: str) -> str:
        return f"{self._prefix}:ready:{lane}"

    async def offer(self, jobs: Sequence[Job], lane: str = DEFAULT) -> None:
        ready = self._ready_of(lane)
        if not jobs or (self._waiting.get(lane, 0) > MAX_WAITING and not await self._has_room(lane)):
            return
        async with self._pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.xadd(ready, {"job": _encode(job)})
            pipe.xlen(ready)
            replies = await self._say(pipe.execute)
        if replies:
            self._waiting[lane] = replies[-1]

    async def _has_room(self, lane: str) -> bool:
        self._waiting[lane] = await self._say(lambda: self._redis.xlen(self._ready_of(lane))) or 0
        return self._waiting[lane] <= MAX_WAITING

    async def report(self, report: Report) -> None:
        said = _encode(report)
        async with self._pipeline(transaction=False) as pipe:
            pipe.hset(self._reports, report.worker, said)
            pipe.publish(self._reports, said)
            await self._say(pipe.execute)

    async def notify(self, seqs: Mapping[RunId, Seq]) -> None:
        if seqs:
            await self._say(lambda: self._redis.publish(self._news, _encode(seqs)))

    async def place(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        stream = self._workers + worker
        async with self._pipeline(transaction=False) as pipe:
            for handed in deliveries:
                pipe.xadd(stream, {"job": _encode(handed.job)})
            pipe.expire(stream, _FORGOTTEN_S)
            # Also where the memory was too full for the line above: what is kept waiting would keep it full for ever.
            for handed in deliveries:
                _finish(pipe, self._ready, "leaders", handed.receipt)
            await self._say(pipe.execute)

    async def drop(self, useless: Sequence[DeliveredJob]) -> None:
        async with self._pipeline(transaction=False) as pipe:
            for handed in useless:
                _finish(pipe, self._ready, "leaders", handed.receipt)
            await self._say(pipe.execute)

    async def acknowledge(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        async with self._pipeline(transaction=False) as pipe:
            for handed in deliveries:
                _finish(pipe, self._workers + worker, "worker", handed.receipt)
            await self._say(pipe.execute)

    def _pipeline(self, *, transaction: bool) -> Any:
        """Commands that go out together; their types say that each must be awaited, which is not so in a pipeline."""
        return self._redis.pipeline(transaction=transaction)

    async def _say(self, speak: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of `speak`; None if Redis could not be reached."""
        try:
            told = await speak()
        except _TROUBLE as problem:
            self._report_trouble(problem)
            return None
        self._troubled = False
        return told

    def _report_trouble(self, problem: BaseException) -> None:
        if not self._troubled:
            self._troubled = True
            log.warning("holdfast's Redis does not answer (%s). Work goes on, and is found a little later.", problem)

    # --- Hearing ------------------------------------------------------------------------------------------------------

    async def offered(self, leader: SessionId) -> Sequence[DeliveredJob]:
        return await self._received(self._ready, "leaders", leader, lambda: self._read_leftovers(leader))

    async def _read_leftovers(self, leader: SessionId) -> list[DeliveredJob]:
        """Everything that was read by leaders before and not placed."""
        found: list[DeliveredJob] = []
        start = "0-0"
        while True:
            try:
                start, entries, *_ = await self._redis.xautoclaim(
                    self._ready, "leaders", leader, _CLAIM_IDLE_MS, start, count=MAX_AT_ONCE
                )
            except ResponseError as problem:
                if "NOGROUP" not in str(problem) and not isinstance(problem, OutOfMemoryError):
                    raise
                return found
            found += await self._readable(self._ready, "leaders", entries)
            if start in ("0-0", b"0-0"):
                return found

    async def placed(self, worker: SessionId) -> Sequence[DeliveredJob]:
        stream = self._workers + worker
        return await self._received(stream, "worker", worker, lambda: self._read_stream(stream, "worker", worker, _ITS_OWN))

    async def _received(
        self, stream: str, group: str, consumer: SessionId, pending: Callable[[], Awaitable[list[DeliveredJob]]]
    ) -> Sequence[DeliveredJob]:
        """New entries; first what is `pending`: of others before, or of a read whose reply was lost."""
        if self._caught_up.get(stream) != consumer:
            found = await self._patiently(pending)
            self._caught_up[stream] = consumer
            if found:
                return found
        return await self._patiently(lambda: self._read_stream(stream, group, consumer, _NEW))

    async def _read_stream(self, stream: str, group: str, consumer: str, after: str) -> list[DeliveredJob]:
        try:
            return await self._readable(stream, group, await self._entries(stream, group, consumer, after))
        except OutOfMemoryError:
            return await self._relieve(stream)

    async def _entries(self, stream: str, group: str, consumer: str, after: str) -> list[Any]:
        try:
            said = await self._redis.xreadgroup(group, consumer, {stream: after}, MAX_AT_ONCE, _BLOCK_MS)
        except ResponseError as problem:
            if "NOGROUP" not in str(problem):
                raise
            # Never made, or lost with everything else; from its first entry, which another process may have added already.
            await self._redis.xgroup_create(stream, group, id="0", mkstream=True)
            return []
        streams = said.items() if isinstance(said, dict) else said
        return [entry for _, entries in streams or () for entry in _flat(entries)]

    async def _relieve(self, stream: str) -> list[DeliveredJob]:
        """Take entries out of a Redis that is too full to note who reads them; nobody else is given them. Raises
        OutOfMemoryError where there are none, so that somebody else's must make room."""
        entries: Any = await self._redis.xrange(stream, count=MAX_AT_ONCE)
        if not entries:
            raise OutOfMemoryError("its memory is full")
        await self._redis.xdel(stream, *[receipt for receipt, _ in entries])
        return _deliveries_of(entries)[0]

    async def _readable(self, stream: str, group: str, entries: Sequence[Any]) -> list[DeliveredJob]:
        """Return entries as jobs. An entry that cannot be read here, from a later version or another program, is dropped."""
        jobs, strange = _deliveries_of(entries)
        if strange:
            log.warning("holdfast drops %d jobs in Redis that it cannot read, of %s.", len(strange), stream)
            async with self._pipeline(transaction=False) as pipe:
                for receipt in strange:
                    _finish(pipe, stream, group, receipt)
                await pipe.execute()
        return jobs

    async def reclaim(self, worker: SessionId) -> Sequence[Job]:
        stream = self._workers + worker
        async with self._pipeline(transaction=True) as pipe:
            pipe.xrange(stream)
            pipe.delete(stream)
            pipe.hdel(self._reports, worker)
            replies = await self._say(pipe.execute)
        return [handed.job for handed in _deliveries_of(replies[0])[0]] if replies else ()

    async def reported(self) -> Sequence[Report]:
        return await self._patiently(self._next_reports, self._reports)

    async def _next_reports(self) -> list[Report]:
        if await self._listens(self._reports):
            return _decode_all(_decode_report, [await self._receive(self._reports)])
        latest: Any = self._redis.hgetall(self._reports)
        return _decode_all(_decode_report, (await latest).values())

    async def news(self) -> Mapping[RunId, Seq]:
        return await self._patiently(self._next_news, self._news)

    async def _next_news(self) -> Mapping[RunId, Seq]:
        if not await self._listens(self._news):
            return {}
        understood = _decode_all(_decode_seqs, [await self._receive(self._news)])
        return understood[0] if understood else {}

    async def _listens(self, channel: str) -> bool:
        """Listen to `channel`; whether that was so already, so that nothing has been missed."""
        if channel in self._listening:
            return True
        ear = self._redis.pubsub(ignore_subscribe_messages=True)
        await ear.subscribe(channel)
        self._listening[channel] = ear
        return False

    async def _receive(self, channel: str) -> bytes:
        """The next message."""
        while True:
            message = await self._listening[channel].get_message(timeout=_BLOCK_MS / 1000)
            if message is not None:
                said: bytes = message["data"]
                return said

    async def _patiently(self, hear: Callable[[], Awaitable[T]], channel: str | None = None) -> T:
        """Return the result of `hear`, tried again, ever more slowly, for as long as Redis is away."""
        failures = 0
        while True:
            try:
                heard = await hear()
            except _TROUBLE as problem:
                self._report_trouble(problem)
                self._caught_up.clear()
                await self._listen_no_more(channel)
                await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                failures += 1
                continue
            self._troubled = False
            return heard

    async def _listen_no_more(self, channel: str | None) -> None:
        ear = self._listening.pop(channel, None) if channel is not None else None
        if ear is not None:
            await ear.aclose()  # type: ignore[no-untyped-call]

    async def aclose(self) -> None:
        for channel in list(self._listening):
            await self._listen_no_more(channel)
        await self._redis.aclose()


def _deliveries_of(entries: Sequence[Any]) -> tuple[list[DeliveredJob], list[str]]:
    """Entries of a stream as jobs, and the receipts of those that cannot be read. One that is no longer there (deleted
    while it was claimed) is neither."""
    jobs: list[DeliveredJob] = []
    strange: list[str] = []
    for receipt, fields in entries:
        if receipt is None or fields is None:
            continue
        name = receipt.decode() if isinstance(receipt, bytes) else receipt
        understood = _decode_all(_decode_job, [fields.get(b"job", b"")])
        if understood:
            jobs.append(DeliveredJob(understood[0], name))
        else:
            strange.append(name)
    return jobs, strange


def _decode_all(decode: Callable[[bytes], T], messages: Iterable[bytes]) -> list[T]:
    """Return the messages that can be decoded. The others are no hints for this process."""
    found: list[T] = []
    for each in messages:
        try:
            found.append(decode(each))
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            log.debug("holdfast cannot read a message from Redis: %s", problem)
    return found


def _flat(entries: Sequence[Any]) -> Sequence[Any]:
    """redis-py answers with one more layer of lists in protocol 3."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _finish(pipe: Any, stream: str, group: str, receipt: str) -> None:
    """The entry is done with. Nothing for a job that came from no stream."""
    if receipt:
        pipe.xack(stream, group, receipt)
        pipe.xdel(stream, receipt)
