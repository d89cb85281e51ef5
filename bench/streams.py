"""How soon whoever watches a run in another process hears what is said in it.

    python bench/streams.py STORE [--samples 200] [--watchers 1000]

STORE is what `Engine.open` takes: a path (of a file that does not exist yet) or postgresql://…. One process executes; this one
watches, and executes nothing. Prints one JSON line each for

- `value`: a value that user code writes after a pause of 20 to 500 ms, from `write` to the watcher's hands
- `model`: the first piece of a model call, from the model's lips to the watcher's hands; the model is a function
- `crowd`: the same values to so many watchers of one run in this process, to the first and to the last of them
- `flood`: values as fast as they are taken: so many a second, written and heard
- `idle`: what it costs to watch a run in which nothing is said: of a core, here

Both processes read the machine's one monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from multiprocessing.connection import Connection
from typing import Any

from holdfast import Context, Engine, flow
from holdfast.core.streams import Told
from holdfast.machine import collect_rarely, run_quickly
from holdfast.ports import ModelReply, ModelRequest, TextDelta, Usage
from holdfast.settings import DeclaredModel, Settings

SETTINGS = Settings(models={"lips": DeclaredModel(input_usd_per_mtok=Decimal(1), output_usd_per_mtok=Decimal(1))})


class Lips:
    """A model that says what time it is, after a moment, and then something every 10 ms."""

    async def prepare(self, model: str) -> None:
        pass

    async def request(self, request: ModelRequest) -> ModelReply:
        raise NotImplementedError

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReply]:
        await asyncio.sleep(random.uniform(0.05, 0.3))
        pieces = [f"{time.monotonic_ns()}", *[" and so on"] * 5]
        for piece in pieces:
            yield TextDelta(piece)
            await asyncio.sleep(0.01)
        yield ModelReply("".join(pieces), (), None, Usage(10, 10), "stop", None, None)


@flow
async def values(ctx: Context, given: dict[str, float]) -> None:
    await ctx.stream("ready").write(True)
    await ctx.wait_signal("begin")
    for _ in range(int(given["count"])):
        await asyncio.sleep(random.uniform(0.02, given["pause_s"]))
        await ctx.stream("bench").write(time.monotonic_ns())


@flow
async def calls(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.model("lips", f"number {number}", max_tokens=100, stream=True)


@flow
async def flood(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.stream("bench").write(number)


@flow
async def silence(ctx: Context, _: None) -> None:
    await ctx.wait_signal("end")


async def execute(store: str, asked: Connection) -> None:
    """The other process: it executes what is started, until it is told to end."""
    async with Engine.open(store, workflows=[values, calls, flood, silence], model=Lips(), settings=SETTINGS):
        asked.send("ready")
        await asyncio.to_thread(asked.recv)


def executing(store: str, asked: Connection) -> None:
    collect_rarely()
    run_quickly(execute(store, asked))


def late_ms(said_ns: int) -> float:
    return (time.monotonic_ns() - said_ns) / 1e6


def say(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def found(name: str, late: list[float], **more: Any) -> None:
    ordered = sorted(late)
    shares = {f"p{share}_ms": round(ordered[len(ordered) * share // 100], 1) for share in (50, 95, 99)}
    say({"what": name, "samples": len(late), **shares, **more})


async def heard_values(engine: Engine, run: str, late: list[float], ready: Callable[[], None]) -> None:
    async for told in engine.watch_stream(run):
        if told.stream == "ready":
            ready()
        elif told.kind == "value":
            late.append(late_ms(told.value))


async def heard_by(engine: Engine, count: int, watchers: int, pause_s: float) -> tuple[list[list[float]], float]:
    """How late each of the watchers heard each value; and how long it took until all of them had come."""
    run = await engine.start(values, {"count": count, "pause_s": pause_s})
    late: list[list[float]] = [[] for _ in range(watchers)]
    are_there = asyncio.Barrier(2)
    came = iter(range(watchers, 0, -1))
    tasks: list[asyncio.Task[Any]] = []

    def ready() -> None:
        if next(came) == 1:
            tasks.append(asyncio.create_task(are_there.wait()))

    began_s = time.monotonic()
    tasks += [asyncio.create_task(heard_values(engine, run.id, each, ready)) for each in late]
    await are_there.wait()
    came_s = time.monotonic() - began_s
    await engine.signal(run.id, "begin")
    await asyncio.gather(*tasks)
    assert all(len(each) == count for each in late), "each has heard each once"
    return late, came_s


def is_first(told: Told) -> bool:
    return told.kind == "text" and told.offset == 0


async def measure(store: str, samples: int, watchers: int) -> None:
    async with Engine.open(store, execute=False) as engine:
        (late,), _ = await heard_by(engine, samples, 1, 0.5)
        found("value", late)

        run = await engine.start(calls, samples // 2)
        late = [late_ms(int(told.text.split()[0])) async for told in engine.watch_stream(run.id) if is_first(told)]
        found("model", late)

        crowd, came_s = await heard_by(engine, samples // 2, watchers, 0.3)
        found("crowd, all of them", [late for one in crowd for late in one], watchers=watchers, came_s=round(came_s, 1))
        found("crowd, the last of them", [max(one) for one in zip(*crowd, strict=True)], watchers=watchers)

        began_s, count = time.monotonic(), 20_000
        run = await engine.start(flood, count)
        heard = 0
        async for _ in engine.watch_stream(run.id):
            heard += 1
        assert heard == count
        say({"what": "flood", "values_a_second": round(count / (time.monotonic() - began_s))})

        run = await engine.start(silence, None)
        watching = asyncio.create_task(heard_values(engine, run.id, [], lambda: None))
        for after_s in (0, 10):
            await asyncio.sleep(after_s)
            began, began_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            await asyncio.sleep(5)
            ended = resource.getrusage(resource.RUSAGE_SELF)
            used_s = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
            share = used_s / (time.monotonic() - began_s)
            say({"what": "idle", "quiet_s": 5 + 3 * after_s, "of_a_core": round(share, 3)})
        await engine.signal(run.id, "end")
        await watching


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--watchers", type=int, default=1000)
    asked = parser.parse_args()
    here, there = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=executing, args=(asked.store, there))
    other.start()
    try:
        here.recv()
        collect_rarely()
        run_quickly(measure(asked.store, asked.samples, asked.watchers))
        here.send("end")
        other.join(30)
    finally:
        other.terminate()


if __name__ == "__main__":
    main()
