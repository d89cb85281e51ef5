"""Output of jobs on its way into the store: the beginning and the end of each attempt, in pieces, off the way of runs.

Lines come at any speed and are written once a second, so the output of a worker's last second dies with it. Nothing waits for
the store: while it is away, the oldest unwritten output is given up. Never here: masking, a screen.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from holdfast.core.values.ids import RunId
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import StoreError
from holdfast.ports import Clock, JobLogs, LogPlace

_PIECE_BYTES: Final = 64 * 1024
HEAD_BYTES: Final = 2 * 1024 * 1024
TAIL_BYTES: Final = 2 * 1024 * 1024
"""Of each attempt of a job: so much of its beginning, and of its end at least so much less a piece."""
_EVERY_S: Final = 1.0
_AWAY_S: Final = 5.0
"""The longest pause between two tries while the store is away."""
_MAX_WAITING: Final = 256
"""Pieces of this process that the store has not got yet: 16 MiB."""
_LAST_WORDS_S: Final = 5.0

_log = logging.getLogger(__name__)


class JobLog:
    """The output of one attempt of a job."""

    def __init__(self, logs: JobLogWriter, run: RunId, job: str, attempt: int, tenant: str) -> None:
        self._logs = logs
        self._name = (run, job, attempt)
        self._tenant = tenant
        self._first = 0
        self._piece = bytearray()
        self._tail: deque[tuple[LogPlace, int]] = deque()
        self._tail_bytes = 0

    def add(self, line: str) -> None:
        """A line, masked."""
        content = line.encode("utf-8", "replace") + b"\n"
        while content:
            size = _PIECE_BYTES
            while size < len(content) and content[size] & 0xC0 == 0x80:  # within a character, of four bytes at most
                size -= 1
            part, content = content[:size], content[size:]
            if len(self._piece) + len(part) > _PIECE_BYTES:
                self._next_piece()
            self._piece += part
            self._logs.put(LogPlace(*self._name, self._first), self._piece, self._tenant)

    def _next_piece(self) -> None:
        size = len(self._piece)
        if self._first >= HEAD_BYTES:
            self._tail.append((LogPlace(*self._name, self._first), size))
            self._tail_bytes += size
        while self._tail_bytes > TAIL_BYTES:
            place, cut = self._tail.popleft()
            self._tail_bytes -= cut
            self._logs.cut(place)
        self._first += size
        self._piece = bytearray()


class JobLogWriter:
    """The writer of job output of one process."""

    def __init__(self, job_logs: JobLogs, clock: Clock) -> None:
        self._stored = job_logs
        self._clock = clock
        self._pieces: dict[LogPlace, tuple[bytearray, str]] = {}
        self._cut: dict[LogPlace, None] = {}
        self._loop = BackgroundLoop(
            "holdfast-job-logs",
            self._turn,
            clock,
            fault="holdfast can no longer store what jobs print",
            outage=Outage("holdfast: what jobs have printed cannot be stored for now: %s", _AWAY_S),
        )

    def begin(self, run: RunId, job: str, attempt: int, tenant: str = "") -> JobLog:
        return JobLog(self, run, job, attempt, tenant)

    def put(self, place: LogPlace, piece: bytearray, tenant: str) -> None:
        """A piece of a tenant's run has grown."""
        self._pieces[place] = piece, tenant
        if len(self._pieces) > _MAX_WAITING:
            del self._pieces[next(iter(self._pieces))]
        self._loop.start()

    def cut(self, place: LogPlace) -> None:
        """A piece is too much."""
        self._pieces.pop(place, None)
        self._cut[place] = None
        if len(self._cut) > _MAX_WAITING:
            del self._cut[next(iter(self._cut))]  # it stays, and is more than was promised

    async def aclose(self) -> None:
        """Write what there is, if the store takes it in time."""
        await self._loop.aclose()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._write()
        except (TimeoutError, StoreError):
            _log.warning("the end of what jobs have printed is not in the store, which does not answer")

    async def _turn(self) -> float | None:
        await self._clock.sleep(_EVERY_S)
        await self._write()
        return 0.0 if self._pieces or self._cut else None

    async def _write(self) -> None:
        pieces, self._pieces = self._pieces, {}
        cut, self._cut = self._cut, {}
        if not pieces and not cut:
            return
        try:
            await self._stored.keep([(place, bytes(piece), tenant) for place, (piece, tenant) in pieces.items()], list(cut))
        except (StoreError, asyncio.CancelledError):
            self._pieces = {**pieces, **self._pieces}
            self._cut = {**cut, **self._cut}
            raise
