"""What children cost: COUNT runs of one bare step each, and the same as the children of one run.

    python bench/children.py STORE COUNT

STORE is what `Engine.open` takes; a path must not exist yet. Prints one JSON line. Compare figures of one machine, taken one
after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from holdfast import Context, Engine, flow, step
from holdfast.core.facts.events import StepStarted
from holdfast.platform.machine import collect_rarely, run_quickly


@step
async def plain(number: int) -> int:
    return number


@flow
async def leaf(ctx: Context, given: dict[str, int]) -> int:
    return await plain(given["number"])


@flow
async def parent(ctx: Context, given: dict[str, int]) -> int:
    return len(await ctx.gather(*(ctx.child(leaf, {"number": number}) for number in range(given["count"]))))


async def main(store: str, count: int) -> None:
    async with Engine.open(store, workflows=[parent, leaf]) as engine:
        begun_s = time.perf_counter()
        runs = await asyncio.gather(*(engine.start(leaf, {"number": number}) for number in range(count)))
        await asyncio.gather(*(run.result() for run in runs))
        alone_s = time.perf_counter() - begun_s
        begun_s = time.perf_counter()
        run = await engine.start(parent, {"count": count})
        assert await run.result() == count
        below_s = time.perf_counter() - begun_s
        attempts = sum(isinstance(each.event, StepStarted) for each in await run.events())
    said = {"count": count, "runs_s": round(alone_s, 2), "children_s": round(below_s, 2)}
    found = {**said, "ratio": round(below_s / alone_s, 2), "attempts_of_the_parent": attempts}
    print(json.dumps(found))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("count", type=int)
    said = parser.parse_args()
    collect_rarely()
    run_quickly(main(said.store, said.count))
