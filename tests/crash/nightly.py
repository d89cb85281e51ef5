"""A program in which two fire the same schedules at once, and which dies at one of the points at which something lasts.

usage: python -m tests.crash.nightly DIRECTORY LIFE [AT]

One schedule makes up for all the months that nobody was there, one for the last only.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast import Context, Engine, flow
from holdfast.core.nouns.schedules import LONGEST_CATCH_UP_S
from holdfast.engine.background.schedule_runner import ScheduleRunner
from holdfast.errors import NotFound
from tests.crash.killing import dies_at

STORE = "holdfast.db"
OVERLAPS = {"all": "allow", "last": "skip"}
AWAY_S = 200 * 86_400


@flow
async def report(ctx: Context, at: dict[str, str]) -> str:
    return at["at"]


async def _set(engine: Engine) -> None:
    """The schedules, as of two hundred days ago, unless an earlier life has set them."""
    for name, overlap in OVERLAPS.items():
        with suppress(NotFound):
            if (await engine.schedule(name)).created_ms == 0:
                continue
        made = await engine.set_schedule(
            name, report, "0 0 1 * *", time_field="at", overlap=overlap, catch_up_s=LONGEST_CATCH_UP_S
        )  # type: ignore[call-overload]
        found = await engine.store.schedules.find("default", name)
        assert found is not None
        since_ms = made.created_ms - AWAY_S * 1000
        moved = msgspec.structs.replace(made, created_ms=0, checked_ms=since_ms, due_at_ms=since_ms)
        await engine.store.schedules.replace(moved, found.revision)


async def main(directory: Path) -> None:
    async with (
        asyncio.timeout(60),
        Engine.open(directory / STORE, workflows=[report]) as one,
        Engine.open(directory / STORE, execute=False) as other,
    ):
        await _set(one)
        while not all([await _is_done(one, name) for name in OVERLAPS]):
            await asyncio.gather(*(ScheduleRunner(engine.runtime).turn() for engine in (one, other)))
        await one.idle()


async def _is_done(engine: Engine, name: str) -> bool:
    found = await engine.schedule(name)
    return bool(found.fired) and not found.pending


if __name__ == "__main__":
    folder, life, *at = sys.argv[1:]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(Path(folder)))
