"""Feeds the sinks that follow the tail of the store: each by one process at a time, from where it has come, in loops of their
own.

An unavailable sink delays no run: the events that it has not taken stay in the store. The process holds one batch. While it is
busy with runs, its sinks get a small share of its time, and catch up afterwards. Never here: what a sink does with events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.core.facts.events import RunMigrated, RunStarted
from holdfast.core.values.ids import RunId
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import CursorLost
from holdfast.platform.spare_time import TimeShare
from holdfast.ports import Clock, CommittedEvent, FollowerRow, Sink, SinkUnavailable, Store, Tail, TailEvent

log = logging.getLogger("holdfast")

LEASE_MS: Final = 15_000
"""After the death of the process that feeds a sink, another does within this time."""
_RENEWED_MS: Final = 5_000
_LOOK_S: Final = 0.5
"""Interval between two looks for new events, and so the delay of a sink."""
_NOT_HERE_S: Final = 2.0
"""Interval between two tries to take the turn."""
_TAKES_S: Final = 60.0
"""A sink that takes longer for a batch is one that does not answer."""
_LAST_S: Final = 2.0
"""Time in which a process that ends gives a sink what it has not taken."""
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0
_TRIES: Final = 5
"""So often an event is given to a sink that fails with it, and with it alone; then the sink goes on without it."""
_MAX_RUNS: Final = 10_000
"""Runs whose owner is remembered."""
_BUSY_BATCH: Final = 64
"""Events at a time while the process is busy: a few milliseconds in which no run goes on."""
_LATE_MS: Final = 3_600_000
"""Between the time of an event and its commit."""
_SAID_EVERY_S: Final = 60.0


class _Owner(NamedTuple):
    """The owner of a run, as each of its events names it."""

    tenant: str
    workflow: str
    version: int


class Follower:
    """Feeds one sink, while it is this process's turn."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sink: Sink,
        holder: str,
        is_wanted: Callable[[], bool],
        time: TimeShare,
        tail: Tail | None = None,
    ) -> None:
        """`holder` is a name that no other process has. `is_wanted` returns whether this process is one that feeds sinks
        now, in the part `time` of its spare time. The sink gets the events of `tail`, by default those of the store's."""
        self._store = store
        self._tail = store.tail if tail is None else tail
        self._clock = clock
        self._sink = sink
        self._holder = holder
        self._is_wanted = is_wanted
        self._time = time
        self._row: FollowerRow | None = None
        self._size = sink.batch
        """Fewer at a time after an error, down to the event that causes it."""
        self._failed = 0
        self._pause_s = 0.0
        self._said_s: float | None = None
        self._owners: OrderedDict[RunId, _Owner] = OrderedDict()
        self._loop = BackgroundLoop(
            f"holdfast-follower-{sink.name}",
            self._turn,
            clock,
            fault=f"holdfast can no longer feed {sink.name}",
            outage=Outage(f"holdfast cannot read what {sink.name} is to be given, and tries again: %s", _LONGEST_PAUSE_S),
        )

    async def begin(self) -> None:
        """Keep where the sink begins, before anything happens that it is to have; also while another process feeds it, which
        may have died before it could. Raises StoreError."""
        if self._sink.begins == "now":
            await self._store.followers.begin(self._sink.name, await self._tail.end())

    def start(self) -> None:
        self._loop.start()

    async def aclose(self) -> None:
        """Give the sink what there is, within a bound, and leave the turn to others."""
        await self._loop.aclose()
        try:
            async with asyncio.timeout(_LAST_S):
                while self._is_wanted() and await self._feed(at_once=True) == 0:
                    pass
        except Exception as problem:  # noqa: BLE001 - the next process gives it the same
            log.debug("holdfast leaves events for %s to the next process: %s", self._sink.name, problem)
        if self._row is not None:
            try:
                async with asyncio.timeout(_LAST_S):
                    await self._store.followers.release(self._sink.name, self._holder)
            except Exception as problem:  # noqa: BLE001 - its turn ends by itself a little later
                log.debug("holdfast leaves %s to others only when its turn is over: %s", self._sink.name, problem)

    async def _turn(self) -> float:
        pause_s = await self._time.of(self._feed())
        return max(pause_s, self._time.pause_s())

    async def _feed(self, *, at_once: bool = False) -> float:
        if not self._is_wanted():
            if self._row is not None:
                await self._store.followers.release(self._sink.name, self._holder)
                self._row = None
            return _NOT_HERE_S
        if (row := await self._held()) is None:
            return _NOT_HERE_S
        size = min(self._size, _BUSY_BATCH) if self._time.is_busy and not at_once else self._size
        try:
            batch, cursor = await self._tail.after(row.cursor, size)
        except CursorLost as problem:
            return self._begin_again(row, problem)
        if not batch:
            self._time.rest()
            self._row = msgspec.structs.replace(row, cursor=cursor)
            return _LOOK_S
        self._time.go_on()
        return await self._give(row, batch, cursor, is_full=len(batch) >= size)

    async def _held(self) -> FollowerRow | None:
        """Return how far the sink has come; None where another process feeds it."""
        row, now_ms = self._row, self._store.clock.now_ms()
        if row is not None and now_ms < row.until_ms - LEASE_MS + _RENEWED_MS:
            return row
        kept = await self._store.followers.hold(self._sink.name, self._holder, LEASE_MS)
        if kept is None or row is None:
            self._row = kept
        else:  # where nothing is new the cursor moves in memory alone
            self._row = msgspec.structs.replace(row, until_ms=kept.until_ms)
        if kept is not None and kept.cursor is None and self._sink.begins == "now":
            await self.begin()
            self._row = await self._store.followers.hold(self._sink.name, self._holder, LEASE_MS)
        return self._row

    def _begin_again(self, row: FollowerRow, problem: CursorLost) -> float:
        log.warning(
            "holdfast gives %s again what it had: its place among the events of the store is no longer known (%s)",
            self._sink.name,
            problem,
        )
        self._row = msgspec.structs.replace(row, cursor=None)
        return 0.0

    async def _give(self, row: FollowerRow, batch: Sequence[TailEvent], cursor: str, *, is_full: bool) -> float:
        had_ms = row.had_all_at_ms - _LATE_MS if self._sink.begins == "now" else 0
        events = [
            CommittedEvent(each.run, *owner, each.recorded)
            for each in batch
            if each.recorded.at_ms >= had_ms  # older ones come where a lost cursor made it begin again
            if (owner := await self._owner(each)) is not None
        ]
        try:
            async with asyncio.timeout(_TAKES_S):
                dropped = await self._sink.take(events) if events else 0
        except SinkUnavailable as problem:
            return await self._wait(row, batch, str(problem), problem.retry_after_s)
        except TimeoutError:
            return await self._wait(row, batch, f"no answer within {_TAKES_S:.0f} s")
        except Exception as problem:  # a fault of the sink: it gets fewer at a time, and what it can never take is left out
            if len(batch) == 1 and self._failed >= _TRIES:
                log.exception(
                    "holdfast leaves out event %s of run %s for %s", batch[0].recorded.seq, batch[0].run, self._sink.name
                )
                dropped = 1
            else:
                self._size, self._failed = max(1, len(batch) // 2), self._failed + 1 if len(batch) == 1 else 0
                return await self._wait(row, batch, f"{type(problem).__name__}: {problem}")
        return await self._move(row, len(batch), dropped, cursor, is_full=is_full)

    async def _move(self, row: FollowerRow, count: int, dropped: int, cursor: str, *, is_full: bool) -> float:
        if row.problem:
            log.warning("holdfast feeds %s again", self._sink.name)
        self._failed, self._pause_s, self._said_s = 0, 0.0, None
        self._size = min(self._sink.batch, 2 * self._size)
        self._row = row = msgspec.structs.replace(
            row,
            cursor=cursor,
            had_all_at_ms=row.had_all_at_ms if is_full else self._store.clock.now_ms(),
            waiting_since_ms=None,
            taken=row.taken + count,
            dropped=row.dropped + dropped,
            problem="",
        )
        if not await self._store.followers.move(row):
            self._row = None
        return 0.0 if is_full else _LOOK_S

    async def _wait(
        self, row: FollowerRow, batch: Sequence[TailEvent], problem: str, retry_after_s: float | None = None
    ) -> float:
        """Keep why the sink does not go on, and return after how long it is tried again."""
        now_s = self._clock.monotonic_s()
        if self._said_s is None or now_s - self._said_s >= _SAID_EVERY_S:
            log.warning("holdfast cannot feed %s and tries again: %s", self._sink.name, problem)
            self._said_s = now_s
        if problem != row.problem:
            since_ms = row.waiting_since_ms or min(each.recorded.at_ms for each in batch)
            self._row = row = msgspec.structs.replace(row, waiting_since_ms=since_ms, problem=problem[:500])
            if not await self._store.followers.move(row):
                self._row = None
        self._pause_s = min(2 * self._pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        return self._pause_s if retry_after_s is None else min(max(retry_after_s, _FIRST_PAUSE_S), 10 * _LONGEST_PAUSE_S)

    async def _owner(self, each: TailEvent) -> _Owner | None:
        """Return to whom an event's run belongs; None where the run was removed for good."""
        event, owner = each.recorded.event, self._owners.get(each.run)
        if isinstance(event, RunStarted):
            owner = _Owner(event.tenant, event.workflow, event.version)
        elif owner is None:
            row = await self._store.views.run(each.run)
            owner = None if row is None else _Owner(row.tenant, row.workflow, row.version)
        if owner is not None:
            if isinstance(event, RunMigrated):
                owner = owner._replace(version=event.version)
            self._owners[each.run] = owner
            self._owners.move_to_end(each.run)
            if len(self._owners) > _MAX_RUNS:
                self._owners.popitem(last=False)
        return owner
