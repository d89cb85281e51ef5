"""A process that begins runs and exports their spans, until it is killed: `python -m tests.telemetry.dying STORE ENDPOINT`."""

from __future__ import annotations

import asyncio
import sys

from holdfast import Context, Engine, flow, step
from holdfast.settings import Settings, TelemetryRules

MAX_RUNS = 20
STEPS = 60
"""A run lasts longer than the time between two batches, so that one is cut in the middle."""


@step
async def one(number: int) -> int:
    await asyncio.sleep(0)
    return number


@flow
async def counting(ctx: Context, run: int) -> int:
    for number in range(STEPS):
        await one(number)
        await ctx.sleep(0.02)
    return run


def settings(store: str, endpoint: str) -> Settings:
    return Settings(store=store, telemetry=TelemetryRules(endpoint=endpoint))


async def main(store: str, endpoint: str) -> None:
    async with Engine.open(store, settings=settings(store, endpoint), workflows=[counting]) as engine:
        while not [row for row in await engine.store.followers.listed() if row.cursor is not None]:
            await asyncio.sleep(0.01)
        for number in range(MAX_RUNS):
            await (await engine.start(counting, number)).result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
