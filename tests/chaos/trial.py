"""A trial: a fleet under load, faults in it, and the verdict once it was left in peace. A seed repeats what was done to it.

Never here: what a fault is, what is right.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from holdfast import Engine
from holdfast.settings import Settings
from tests.chaos import faults
from tests.chaos.fleet import Fleet
from tests.chaos.flows import POOL, POOL_SLOTS, crossing, errand, handing, lending, script, trip
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.crash.world import World

SETTLE_S = 90.0
"""When the faults are over, everything ends within this."""
_BEFORE_S = 1.5


class Verdict(NamedTuple):
    """What became of one load."""

    name: str
    runs: int
    ended: int
    seconds: int
    refused_s: int
    settle_s: float
    slowest_s: float
    fallen: int
    wrong: list[str]

    def __str__(self) -> str:
        share = 100 * self.refused_s / self.seconds
        return (
            f"{self.name:20} {self.ended:4}/{self.runs:4} runs ended, {self.settle_s:5.1f} s after the last fault; starts or"
            f" decisions refused in {self.refused_s:3} of {self.seconds:3} s ({share:2.0f} %), slowest {self.slowest_s:4.1f} s;"
            f" {self.fallen} processes fell; {len(self.wrong)} wrong"
        )


class Scene(NamedTuple):
    """What a trial takes place in."""

    fleet: Fleet
    world: World
    engine: Engine


@asynccontextmanager
async def scene(directory: Path, *, standby: bool, workers: int = 3, hands: int = 2) -> AsyncIterator[Scene]:
    """A world, a fleet in it, and the engine of those who use the fleet."""
    directory.mkdir(exist_ok=True)
    with (
        World(directory, ()) as world,
        Fleet(directory, world.environment, workers=workers, standby=standby, hands=hands) as fleet,
    ):
        users = Settings(store=fleet.url, queue=fleet.redis.url)
        watching = asyncio.create_task(fleet.watch())
        try:
            async with Engine.open(fleet.url, execute=False, settings=users) as engine:
                await engine.set_pool(POOL, slots=POOL_SLOTS)
                yield Scene(fleet, world, engine)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def trial(
    on: Scene, name: str, chosen: Iterator[str], *, seed: int, starts_per_s: float, say: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Do what `chosen` names, one after the other, under load; then leave all in peace, and judge."""
    chance = random.Random(seed)
    flows = [errand, lending, trip, crossing, errand, script, crossing, *([handing] if on.fleet.hands else [])]
    load = Load(on.engine, on.world, seed=seed, starts_per_s=starts_per_s, flows=flows)
    fell_before = {member.name: len(member.falls) for member in on.fleet.members}
    answering = asyncio.create_task(load.answer())
    try:
        async with load.flowing():
            await asyncio.sleep(_BEFORE_S)
            for fault in chosen:
                if answering.done():  # a person who has failed says so at once
                    answering.result()
                say(f"{load.seconds:4} s: {fault}")
                try:
                    await faults.EVERY[fault](on.fleet, chance)
                except TimeoutError:  # it is judged all the same what became of the runs
                    load.wrong.append(f"{fault} was not over within {faults.MAX_S:g} s")
            await asyncio.sleep(_BEFORE_S)
        seconds, over_s = load.seconds, time.monotonic()
        await load.see_through(SETTLE_S)
        settle_s = time.monotonic() - over_s
        answering.cancel()
        with suppress(asyncio.CancelledError):  # a person who failed before says so
            await answering
        wrong = await judge(on.engine, load, on.world)
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
    # Nobody but a fault ends a process: what is away is waited for.
    fallen = [fall for member in on.fleet.members for fall in member.falls[fell_before[member.name] :]]
    return Verdict(
        name, len(load.started), len(load.ended), seconds, load.refused_s, settle_s, load.most_s, len(fallen), [*wrong, *fallen]
    )


def at_random(fleet: Fleet, *, seed: int, within_s: float) -> Iterator[str]:
    """Faults by chance, until the time is over."""
    chance = random.Random(seed)
    names = faults.possible(fleet)
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        yield chance.choice(names)
