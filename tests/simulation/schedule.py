"""A schedule among the faults: somebody sets it, pauses it, changes it, makes up for what has passed and removes it; and who
judges what it starts.

Never here: when a line fires; the judge has the calendar of it, and nothing of the rules.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

from holdfast.authoring.context import Context
from holdfast.authoring.flow import flow
from holdfast.compose import Engine
from holdfast.core.nouns.schedules import MAX_COUNTED, QUEUE_LOOK_MS, Schedule, nominal_times, stamp
from holdfast.core.values.ids import RunId
from holdfast.errors import InvalidInput, NotFound
from tests.simulation.chance import spread_s

NAME: Final = "nightly"
KEYS: Final = f"schedule/{NAME}/"
_LONGEST_S: Final = 1_500
_SLACK_MS: Final = 600_000
"""How far behind a schedule may be though nobody troubles it: each process looks once in a while, and may be away."""

Ask = Callable[[Callable[[Engine], Awaitable[Any]]], Awaitable[Any]]


@flow(name="nightly")
async def nightly(ctx: Context, input: dict[str, str]) -> str:  # noqa: A002 - the word of the public surface
    """Goes on for a while, as its time says."""
    await ctx.sleep(zlib.crc32(input["at"].encode()) % _LONGEST_S)
    return input["at"]


class Timetable:
    """The schedule of a program, if it has one, and its books."""

    def __init__(
        self, stream: Random, tenant: str, fault: Callable[[str, str, str], None], clocks_agree: Callable[[], bool]
    ) -> None:
        """`clocks_agree`: whether all processes go by the same time."""
        self._stream = stream
        self._tenant = tenant
        self._fault = fault
        self._clocks_agree = clocks_agree
        self._cron = stream.choice(("*/5 * * * *", "*/20 * * * *", "0 * * * *"))
        self._overlap = stream.choice(("skip", "queue", "allow", "cancel"))
        self._how: dict[str, Any] = {
            "jitter_s": stream.choice((0, 0, 120)),
            "catch_up_s": stream.choice((60, 3600, 86_400)),
            "overlap": self._overlap,
        }
        self.made_up: set[str] = set()
        """Times that somebody wanted made up for: their runs are his, and may go on beside others."""
        self.runs: dict[str, RunId] = {}
        self.over: dict[str, str] = {}
        """How runs have ended, or are about to."""

    # --- Who has it ---------------------------------------------------------------------------------------------------

    async def live(self, ask: Ask, calm: Callable[[], bool]) -> None:
        """Set it, trouble it, remove it; where all is `calm` in the end, it goes on by itself first."""
        await ask(self._set)
        for _ in range(self._stream.randrange(4)):
            await asyncio.sleep(spread_s(self._stream, 60.0, 7_200.0))
            await self._trouble(ask)
        await asyncio.sleep(spread_s(self._stream, 600.0, 14_400.0))
        if calm():
            await self._see_it_go_on(ask)
        try:
            await ask(lambda engine: engine.remove_schedule(NAME, tenant=self._tenant))
        except NotFound:
            pass  # it was asked twice

    async def _set(self, engine: Engine) -> None:
        wanted = {"of": self._stream.choice(("sales", "orders"))}
        await engine.set_schedule(
            NAME, nightly, self._cron, tenant=self._tenant, input=wanted, time_field="at", by="ann", **self._how
        )

    async def _trouble(self, ask: Ask) -> None:
        match self._stream.choice(("set", "pause", "backfill", "nothing")):
            case "set":
                await ask(self._set)
            case "pause":
                await ask(lambda engine: engine.pause_schedule(NAME, tenant=self._tenant))
                await asyncio.sleep(spread_s(self._stream, 1.0, 7_200.0))
                await ask(lambda engine: engine.resume_schedule(NAME, tenant=self._tenant))
            case "backfill":
                await ask(self._make_up)
            case _:
                pass

    async def _make_up(self, engine: Engine) -> None:
        now_ms = engine.now_ms()
        since_ms = now_ms - int(spread_s(self._stream, 600.0, 7_200.0)) * 1000
        schedule = await engine.schedule(NAME, tenant=self._tenant)
        for at_ms in nominal_times(schedule, since_ms - 1):
            if at_ms > now_ms:
                break
            self.made_up.add(stamp(at_ms))
        try:
            await engine.backfill_schedule(NAME, since_ms, now_ms, tenant=self._tenant)
        except InvalidInput:
            pass  # its process's clock has been set back since

    async def _see_it_go_on(self, ask: Ask) -> None:
        await asyncio.sleep(2 * 3600 + _SLACK_MS / 1000)

        async def look(engine: Engine) -> tuple[Schedule, int]:
            return await engine.schedule(NAME, tenant=self._tenant), engine.now_ms()

        found, now_ms = await ask(look)
        oldest_ms = now_ms - _SLACK_MS - int(found.jitter_s * 1000) - QUEUE_LOOK_MS
        due = [at_ms for at_ms in (next(nominal_times(found, found.checked_ms)), *found.pending) if at_ms < oldest_ms]
        if due and found.queued_ms is None and self._clocks_agree():
            self._fault("a schedule goes on once faults stop", "?", f"{stamp(due[0])} of {found} at {stamp(now_ms)}")

    # --- Its judge ----------------------------------------------------------------------------------------------------

    def started(self, run: RunId, key: str, at_ms: int, *, clocks_agree: bool) -> None:
        """A run has begun under a key. Its time has come by the clock of whoever wrote it down, and where `clocks_agree` by all."""
        if not key.startswith(KEYS):
            return
        time = key.removeprefix(KEYS)
        if time in self.runs:
            self._fault("a time has one run", run, f"{time} has {self.runs[time]}")
        if clocks_agree and stamp(at_ms) < time:
            self._fault("no run starts before its time", run, f"{time} at {stamp(at_ms)}")
        going_on = self._going_on()
        if self._overlap in ("skip", "queue") and going_on and time not in self.made_up:
            self._fault("no time has its run while the one before goes on", run, f"{time} beside {going_on}")
        self.runs[time] = run

    def _going_on(self) -> list[str]:
        """The times whose runs have not ended, but for those that somebody wanted made up for."""
        return [
            time for time, run in self.runs.items() if self.over.get(run) in (None, "cancelling") and time not in self.made_up
        ]

    def changed(self, before: Schedule, after: Schedule) -> None:
        """A schedule was written in the place of itself."""
        begun = before.pending[: after.fired - before.fired]
        if missing := [stamp(at_ms) for at_ms in begun if stamp(at_ms) not in self.runs]:
            self._fault("what is said to be started is", "?", f"{missing}")
        left = [at_ms for at_ms in before.pending[len(begun) :] if at_ms not in after.pending]
        if left and left[0] <= after.checked_ms:
            self._fault("what is to be started stays so until it is, or is due again", "?", f"{left} in {after}")
        new = [at_ms for at_ms in after.pending if at_ms not in before.pending]
        counted = after.missed + after.skipped - before.missed - before.skipped
        if new or counted:
            passed = 0
            for at_ms in nominal_times(before, before.checked_ms):
                if at_ms > after.checked_ms:
                    break
                passed += 1
            left_out, uncounted_s = passed - len(new) - counted, after.uncounted_s - before.uncounted_s
            if left_out != 0 and not (counted >= MAX_COUNTED and 0 < left_out <= uncounted_s):
                self._fault("each time is started, skipped or missed, once", "?", f"{passed} passed, from {before} to {after}")

    def close(self) -> None:
        """All is over."""
        going_on = [time for time in self._going_on() if self.runs[time] not in self.over]
        if self._overlap == "cancel" and len(going_on) > 1:
            self._fault("what goes on is cancelled for the next", "?", f"{going_on}")
