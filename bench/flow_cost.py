"""What an operation of a flow costs, by how its code is written: CPU of its process, Python function calls, commits.

    python bench/flow_cost.py [--operations 500] [--rounds 9] [--against FOLDER]

A run is one flow of OPERATIONS bare steps that return a number, on SQLite in a temporary folder: one after the other, each of
them in a time-out, side by side in asyncio.gather, and in ctx.gather. Each figure is the median of ROUNDS processes. With
`--against` the figures of the Holdfast in FOLDER (the `src` of another checkout) stand beside it: its process and ours take
turns, and the ratio is the median of those of each pair, with the lowest and the highest; beside it that of the least of
each side. Function calls are those of the event loop's thread. Prints one JSON line for each shape.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

from holdfast import Context, Engine, Workflow, flow, step
from holdfast.platform.machine import collect_rarely, run_quickly

HOUR_S = 3600


@step
async def plain(number: int) -> int:
    return number


@flow
async def sequence(ctx: Context, count: int) -> int:
    for number in range(count):
        await plain(number)
    return count


@flow
async def timed(ctx: Context, count: int) -> int:
    for number in range(count):
        async with asyncio.timeout(HOUR_S):
            await plain(number)
    return count


@flow
async def gathered(ctx: Context, count: int) -> int:
    return len(await asyncio.gather(*(plain(number) for number in range(count))))


@flow
async def branches(ctx: Context, count: int) -> int:
    return len(await ctx.gather(*(plain(number) for number in range(count))))


SHAPES: dict[str, Workflow] = {wf.name: wf for wf in (sequence, timed, gathered, branches)}


async def measure(folder: str, shape: str, count: int) -> dict[str, float]:
    """Of one operation: CPU in µs, function calls, commits."""
    collect_rarely()
    calls = commits = 0

    def call(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call"

    async with Engine.open(f"{folder}/holdfast.db", workflows=[SHAPES[shape]]) as engine:
        append = engine.runtime.runs.flush.append

        def counted(*one: Any, **how: Any) -> Any:
            nonlocal commits
            commits += 1
            return append(*one, **how)

        engine.runtime.runs.flush.append = counted  # type: ignore[method-assign]
        await (await engine.start(SHAPES[shape], 5)).result()  # what is made once is made
        commits, began_s = 0, time.process_time()
        await (await engine.start(SHAPES[shape], count)).result()
        cpu_s, found = time.process_time() - began_s, commits
        sys.setprofile(call)
        await (await engine.start(SHAPES[shape], count)).result()
        sys.setprofile(None)
    return {"cpu_us": cpu_s / count * 1e6, "calls": calls / count, "commits": found / count}


def measured(source: str, shape: str, count: int) -> dict[str, float] | None:
    """The same in a process of its own, by the Holdfast in a folder; None where that cannot do it."""
    said = subprocess.run(
        [sys.executable, __file__, "--shape", shape, "--operations", str(count)],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, float] | None = json.loads(said.stdout) if said.returncode == 0 else None
    return found


def compared(shape: str, count: int, rounds: int, ours: str, other: str | None) -> dict[str, Any]:
    mine: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for number in range(rounds):
        pair = [(ours, mine), *([(other, theirs)] if other is not None else [])]
        for source, found in pair if number % 2 else reversed(pair):
            if (one := measured(source, shape, count)) is not None:
                found.append(one)
    line: dict[str, Any] = {"shape": shape} | {each: _median(mine, each) for each in mine[0]}
    if other is not None:
        line["before"] = {each: _median(theirs, each) for each in theirs[0]} if theirs else "it cannot do that"
    if theirs:
        ratios = sorted(one["cpu_us"] / two["cpu_us"] for one, two in zip(mine, theirs, strict=True))
        line["cpu_ratio"] = [round(each, 3) for each in (statistics.median(ratios), ratios[0], ratios[-1])]
        line["least_ratio"] = round(min(one["cpu_us"] for one in mine) / min(one["cpu_us"] for one in theirs), 3)
        line["calls_ratio"] = round(line["calls"] / line["before"]["calls"], 3)
    return line


def _median(found: list[dict[str, float]], name: str) -> float:
    return round(statistics.median(each[name] for each in found), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", metavar="FOLDER")
    parser.add_argument("--shape", choices=SHAPES, help="only this one, once, in this process")
    asked = parser.parse_args()
    if asked.shape is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run_quickly(measure(folder, asked.shape, asked.operations))))  # noqa: T201 - what it is for
        return
    ours = str(Path(__file__).parents[1] / "src")
    for shape in SHAPES:
        line = compared(shape, asked.operations, asked.rounds, ours, asked.against)
        print(json.dumps(line), flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
