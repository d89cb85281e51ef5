"""The real clock and the real source of names, as ports; and how a process of ours uses the machine's memory. The only
place that asks the machine for any of it.

Never here: store time, which the store tells.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import secrets
import time
import uuid
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import AppendId, RunId, SessionId
from holdfast.platform import lasting_loop

T = TypeVar("T")

_COLLECT_EVERY: Final = (50_000, 20, 100)
"""Objects before the youngest are looked through, and how often that is done before the older ones are. A thousand runs
in memory are some hundred thousand objects, none of them garbage: to look through them at Python's own pace (700, 10,
10) cost a quarter of all time. What we leave in cycles is small, and found a little later."""


def collect_rarely() -> None:
    """Have this process look for garbage less often, and never in what is loaded by now. For our own commands: how a
    program that uses Holdfast collects its garbage is its own affair."""
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)


def run_quickly(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, in the event loop of uvloop where that is installed (the extra `fleet`), and in one that a callback
    which exits does not end: for our own commands that work on runs."""
    with asyncio.Runner(loop_factory=lasting_loop.fastest()) as runner:
        return runner.run(work)


def resources() -> Resources:
    """Return the cores and memory that this machine lets its processes use. GPUs have to be declared."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return Resources(cpu_m=len(os.sched_getaffinity(0)) * 1000, memory_mb=pages * page_bytes >> 20)


class MachineClock:
    """Keeps the Clock port. CLOCK_BOOTTIME counts the time that the machine was asleep; a lease does too."""

    def monotonic_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LeapingTime:
    """The machine's time of day in milliseconds plus all leaps: for runs that need not wait in real time."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def reach(self, due_at_ms: int) -> None:
        """Leap to a moment; not back."""
        self._ahead_ms += max(0, due_at_ms - self())


def salt() -> bytes:
    """Return random text that cannot be guessed."""
    return secrets.token_bytes(16)


def new_trace() -> str:
    """A trace id (W3C Trace Context): 32 hexadecimal digits."""
    return secrets.token_hex(16)


def new_secret() -> str:
    """256 bits of chance as text."""
    return secrets.token_urlsafe(32)


class RandomIds:
    """Keeps the Ids port."""

    def __init__(self) -> None:
        # Chance once and a number each time: asking the kernel for chance costs as much as writing an event.
        self._appends = secrets.token_hex(10)
        self._number = itertools.count(1)

    def run(self, now_ms: int) -> RunId:
        """A UUIDv7 (RFC 9562 §5.7): 48 bits of time, 74 of chance."""
        bits = (now_ms & (1 << 48) - 1) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
        return RunId(str(uuid.UUID(int=bits)))

    def session(self) -> SessionId:
        return SessionId(secrets.token_hex(8))

    def append(self) -> AppendId:
        return AppendId(f"{self._appends}-{next(self._number)}")

    def approval(self) -> str:
        return secrets.token_hex(6)
