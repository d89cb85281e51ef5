"""One hostile input at one door: what came of it, the longest that the event loop stood still, the memory and time it took.

A pause is counted in the processor time of this process, not by a clock. While the loop is not held it ticks every few
milliseconds, so whatever this process computes between two ticks it has computed while the loop could not run: in the loop
itself, or in a thread that kept the interpreter to itself. What other processes do to the machine lengthens neither.

Memory is the peak of what the process has resident, above what it had before; the kernel is asked to forget the peak first.

Never here: an input, what is right.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

EVERY_S = 0.002
_PROCESS = Path("/proc/self")
_FORGET_PEAK = "5"


class Measured(msgspec.Struct, frozen=True):
    """What came of an input, in words; the longest pause; the time that it took the process; the memory it took at most."""

    outcome: str
    pause_s: float
    took_s: float
    grown_mb: float


class Probe:
    """A task that ticks on the loop."""

    def __init__(self) -> None:
        self.pause_s = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        ticking = asyncio.create_task(self._tick())
        await asyncio.sleep(5 * EVERY_S)
        self.pause_s = 0.0  # of what the trial itself has prepared
        try:
            yield
        finally:
            await asyncio.sleep(5 * EVERY_S)  # the last pause ends with a tick
            ticking.cancel()

    async def _tick(self) -> None:
        before_s = time.process_time()
        while True:
            await asyncio.sleep(EVERY_S)
            now_s = time.process_time()
            self.pause_s = max(self.pause_s, now_s - before_s)
            before_s = now_s


async def measured(door: Callable[[Any], Awaitable[str]], sent: Any) -> Measured:
    """Send it in, and see."""
    gc.collect()
    (_PROCESS / "clear_refs").write_text(_FORGET_PEAK)
    before_mb, began_s, probe = _resident_mb("VmRSS"), time.process_time(), Probe()
    async with probe.watching():
        try:
            outcome = await door(sent)
        except Exception as problem:
            outcome = f"{type(problem).__name__}: {problem}"
    took_s = time.process_time() - began_s
    return Measured(outcome[:2000], probe.pause_s, took_s, _resident_mb("VmHWM") - before_mb)


def _resident_mb(which: str) -> float:
    found = re.search(rf"^{which}:\s+(\d+) kB", (_PROCESS / "status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024
