"""A look into the store for metrics: what runs and waits, gates, doubts, pools, workers, sinks.

It is taken when the metrics are read, every `EVERY_S` at the most, in a task of its own: no run waits for it, and a reader
waits `_FIRST_S` at the most. Where the lane is led, the leader of the default lane looks for all. Elsewhere each process
whose metrics are read does, since no process knows whether another one's are read; dashboards and alerts take the maximum.

Never here: a metric's name (observe.metrics), a count without a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from holdfast.core.capacity.lending import DeclaredPool, Share
from holdfast.errors import CursorLost, HoldfastError, UsageError
from holdfast.observe import metrics
from holdfast.observe.metrics import MAX_CHARS, MAX_VALUES
from holdfast.ports import Clock, FollowerRow, GateCount, Report, Store
from holdfast.ports.metric import Metric, Sample

log = logging.getLogger("holdfast")

EVERY_S: Final = 15.0
"""Prometheus' own interval is as long, or longer."""
_FIRST_S: Final = 2.0
"""Time that a reader waits for a look while there is none yet."""
_TAKES_S: Final = 30.0
"""A look that takes longer is given up: the store has other things to do."""

_decode_report = msgspec.json.Decoder(Report).decode


class StoreLook:
    """The latest look of one process."""

    def __init__(self, store: Store, clock: Clock, is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` returns whether this process is the one that looks now."""
        self._store = store
        self._clock = clock
        self._is_wanted = is_wanted
        self._found: list[Sample] = []
        self._looked_s: float | None = None
        self._took_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def samples(self) -> Sequence[Sample]:
        """Return the gauges of the latest look, and begin another if it is time. Empty where another process looks."""
        if not self._is_wanted():
            self._looked_s, self._found = None, []
            return ()
        now_s = self._clock.monotonic_s()
        is_first = self._looked_s is None
        if self._task is None and (self._looked_s is None or now_s - self._looked_s >= EVERY_S):
            self._task = asyncio.create_task(self._look(), name="holdfast-metrics-look")
        if is_first and self._task is not None:
            await asyncio.wait([self._task], timeout=_FIRST_S)
        if self._looked_s is None:
            return ()
        age_s = self._clock.monotonic_s() - self._looked_s
        return [*self._found, Sample(metrics.LOOK_AGE, (), age_s), Sample(metrics.LOOK_DURATION, (), self._took_s)]

    async def aclose(self) -> None:
        """Give up the look that is being taken."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        began_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(_TAKES_S):
                found = [*await self._counts(), *await self._pools(), *await self._workers(), *await self._sinks()]
        except (HoldfastError, TimeoutError) as problem:
            log.info("holdfast could not look into the store for metrics, and tries again: %s", problem)
        except Exception:
            log.exception("holdfast could not look into the store for metrics, and tries again")
        else:
            self._found, self._looked_s = found, self._clock.monotonic_s()
            self._took_s = self._looked_s - began_s
        finally:
            self._task = None

    async def _counts(self) -> list[Sample]:
        store, now_ms = self._store, self._store.clock.now_ms()
        counts = await store.census.counts()
        hashes = await store.views.wanted_hashes(now_ms)
        due_ms = await store.views.next_due_ms(hashes) if hashes else None
        lag_s = 0.0 if due_ms is None else max(0, now_ms - due_ms) / 1000
        return [
            *_by_label(metrics.RUNS, counts.runs.items()),
            *_by_label(metrics.RUNS_WAITING, counts.waits.items()),
            *_by_label(metrics.QUEUE_DEPTH, [(reason, counts.queue.get(reason, 0)) for reason in _REASONS]),
            *_of_gates(counts.gates, now_ms),
            Sample(metrics.SWEEP_LAG, (), lag_s),
            Sample(metrics.HELD, (), counts.held_nanousd),
            Sample(metrics.IN_DOUBT, (), counts.in_doubt_nanousd),
            *_by_label(metrics.DOUBTS_OPEN, counts.doubts.items()),
            Sample(metrics.LETTERS_OPEN, (), counts.dead_letters),
        ]

    async def _pools(self) -> list[Sample]:
        found: list[Sample] = []
        for pool in (await self._store.lending.pools())[: MAX_VALUES["pool"]]:
            found += _of_pool(pool, await self._store.lending.pool_shares(pool.name))
        return found

    async def _workers(self) -> list[Sample]:
        """Return the utilisation of each process that executes steps, and of each worker that is connected to one."""
        described = [_decode_report(each) for each in await self._store.sessions.described()]
        reports = [each for each in described if each.hashes][: MAX_VALUES["worker"]]
        labels = await self._store.sessions.labels({each.worker for each in reports})
        found = []
        for report in reports:
            name = labels.get(report.worker, report.worker)
            found.append(_utilisation(name, report))
            found += [_utilisation(each.worker, each) for each in report.connected]
        return found[: MAX_VALUES["worker"]]

    async def _sinks(self) -> list[Sample]:
        """Return how far the sinks of events are behind, and the channels of notifications."""
        found, now_ms = [], self._store.clock.now_ms()
        for row in await self._store.followers.listed():
            if (lag_ms := await self._lag_ms(row, now_ms)) is not None:
                found.append(Sample(metrics.FOLLOWER_LAG, (row.name,), max(0, lag_ms) / 1000))
            found.append(Sample(metrics.DROPPED, (row.name,), row.dropped))
        oldest: dict[str, float] = {}
        came: Counter[tuple[str, str]] = Counter()
        for each in await self._store.outbox.figures():
            age_s = 0.0 if each.oldest_at_ms is None else max(0, now_ms - each.oldest_at_ms) / 1000
            oldest[each.channel] = max(age_s, oldest.get(each.channel, 0.0))
            for outcome, count in (("sent", each.sent), ("failed", each.failed), ("dead", each.dead)):
                came[each.channel, outcome] += count
        found += [
            Sample(metrics.NOTIFICATIONS, (channel[:MAX_CHARS], outcome), count) for (channel, outcome), count in came.items()
        ]
        return [*found, *_by_label(metrics.OUTBOX_AGE, oldest.items())]

    async def _lag_ms(self, row: FollowerRow, now_ms: int) -> int | None:
        """Return the age of the oldest event that a sink has not taken; None where no process feeds it, or it has not begun."""
        if row.waiting_since_ms is not None:
            return now_ms - row.waiting_since_ms
        if row.until_ms <= now_ms or row.cursor is None:
            return None
        try:
            left, _ = await self._store.tail.after(row.cursor, 1)
        except (UsageError, CursorLost):  # it follows archives, or begins again
            return None
        return now_ms - left[0].recorded.at_ms if left else 0


_REASONS: Final = ("slot", "worker", "admission", "money", "tokens", "effect")
"""Always shown: an empty queue is 0 in its graph, and no gap."""


def _by_label(metric: Metric, values: Iterable[tuple[str, float]]) -> list[Sample]:
    return [Sample(metric, (label[:MAX_CHARS],), value) for label, value in values]


def _of_gates(counts: Sequence[GateCount], now_ms: int) -> Iterator[Sample]:
    oldest_ms: dict[str, int] = {}
    for each in counts:
        yield Sample(metrics.GATES_OPEN, (each.reason, each.age), each.gates)
        oldest_ms[each.reason] = min(each.oldest_at_ms, oldest_ms.get(each.reason, now_ms))
    for reason, at_ms in oldest_ms.items():
        yield Sample(metrics.GATES_OLDEST, (reason,), max(0, now_ms - at_ms) / 1000)


def _of_pool(pool: DeclaredPool, shares: Sequence[Share]) -> Iterator[Sample]:
    living = [share for share in shares if share.life != "dead"]
    used, wanted = sum(share.used for share in living), sum(share.wanted for share in living)
    labels = (pool.name[:MAX_CHARS],)
    yield Sample(metrics.POOL_LIMIT, labels, pool.limit)
    yield Sample(metrics.POOL_USED, labels, used)
    yield Sample(metrics.POOL_WANTED, labels, wanted)
    yield Sample(metrics.POOL_HEADROOM, labels, max(0, pool.limit - used))


def _utilisation(name: str, report: Report) -> Sample:
    busy = max(0, report.slots - report.free)
    return Sample(metrics.UTILISATION, (name[:MAX_CHARS], report.lane), busy / report.slots if report.slots else 0.0)
