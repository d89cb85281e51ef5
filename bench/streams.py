"""How soon whoever watches a run in another process hears what is said in it.

    python bench/streams.py STORE [--samples 200] [--watchers 1000]

STORE is what `Engine.open` takes: a path (of a file that does not exist yet) or postgresql://…. One process executes; this one
watches, and executes nothing. Prints one JSON line each for

- `value`: a value that user code writes after a pause of 20 to 500 ms, from `write` to the watcher's hands
- `model`: the first piece of a model call, from the model's lips to the watcher's hands; the model is a function
- `crowd`: the same values to so many watchers of one run in this process, to each and to the last of them
- `spoken to all`: a model call that so many watch, its first piece and every piece, to each of them
- `each his own`: so many runs, each watched by one, of which one after another asks a model: the first piece and every piece
- `flood`: values as fast as they are taken: so many a second, written and heard
- `idle`: what it costs to watch a run in which nothing is said

With it stand, where that says something, the part of a core that was used here meanwhile, and the reads of the store.

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
from holdfast.platform.machine import collect_rarely, run_quickly
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
        pieces = []
        for _ in range(6):
            pieces.append(f"{time.monotonic_ns()} ")
            yield TextDelta(pieces[-1])
            await asyncio.sleep(0.03)
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
    await ctx.wait_signal("begin")
    for number in range(count):
        await ctx.model("lips", f"number {number}", max_tokens=100, stream=True)


@flow
async def own(ctx: Context, given: dict[str, float]) -> None:
    await ctx.wait_signal("begin")
    await ctx.model("lips", "say it", max_tokens=100, stream=True)


@flow
async def flood(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.stream("bench").write(number)


@flow
async def silence(ctx: Context, _: None) -> None:
    await ctx.wait_signal("end")


async def execute(store: str, asked: Connection) -> None:
    """The other process: it executes what is started, until it is told to end."""
    async with Engine.open(store, workflows=[values, calls, own, flood, silence], model=Lips(), settings=SETTINGS):
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


class Effort:
    """What this process has taken so far: of a core, and reads of the store."""

    reads = 0

    def __init__(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.used_s, self.at_s, self.reads_there = used.ru_utime + used.ru_stime, time.monotonic(), Effort.reads

    @classmethod
    def count(cls, engine: Engine) -> None:
        """Count what is read from now on."""
        store = engine.runtime.store
        for port, name in ((store.streams, "news"), (store.streams, "chunks"), (store.log, "seqs"), (store.log, "events")):
            setattr(port, name, cls._counted(getattr(port, name)))

    @classmethod
    def _counted(cls, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*asked: Any, **more: Any) -> Any:
            cls.reads += 1
            return read(*asked, **more)

        return counted

    def so_far(self) -> dict[str, float]:
        now = Effort()
        took_s = now.at_s - self.at_s
        reads = now.reads_there - self.reads_there
        return {"of_a_core": round((now.used_s - self.used_s) / took_s, 3), "reads_a_second": round(reads / took_s)}


async def hear(engine: Engine, run: str, first: list[float], every: list[float]) -> None:
    """How late the first piece of each text in a run is heard, and every piece; one may hold what was said several times."""
    async for told in engine.watch_stream(run):
        if told.kind == "text":
            late = [late_ms(int(said)) for said in told.text.split()]
            every += late
            if told.offset == 0:
                first.append(late[0])


async def spoken(engine: Engine, count: int, watchers: int) -> None:
    """A run whose models so many hear."""
    run = await engine.start(calls, count)
    first, every = list[float](), list[float]()
    hearing = [asyncio.create_task(hear(engine, run.id, first, every)) for _ in range(watchers)]
    await asyncio.sleep(3)  # until they are there
    began = Effort()
    await engine.signal(run.id, "begin")
    await asyncio.gather(*hearing)
    assert len(every) == 6 * count * watchers, "each has heard all of it once"
    found("spoken to all, first piece", first, watchers=watchers)
    found("spoken to all, every piece", every, **began.so_far())


async def each_his_own(engine: Engine, count: int, watchers: int) -> None:
    """So many runs, each heard by one, of which `count` speak."""
    runs = await asyncio.gather(*(engine.start(own, {}) for _ in range(watchers)))
    first, every = list[float](), list[float]()
    hearing = [asyncio.create_task(hear(engine, run.id, first, every)) for run in runs]
    await asyncio.gather(*(run.settled() for run in runs))
    began = Effort()
    for run in runs[:count]:
        await engine.signal(run.id, "begin")
        await asyncio.sleep(random.uniform(0.0, 0.1))
    await asyncio.gather(*hearing[:count])
    found("each his own, first piece", first, runs=watchers)
    found("each his own, every piece", every, **began.so_far())
    await asyncio.sleep(5)
    began = Effort()
    await asyncio.sleep(5)
    say({"what": "each his own, idle", "quiet_s": 10, **began.so_far()})
    for task in hearing[count:]:
        task.cancel()
    await asyncio.gather(*hearing[count:], return_exceptions=True)


async def measure(store: str, samples: int, watchers: int) -> None:
    async with Engine.open(store, execute=False) as engine:
        Effort.count(engine)
        (late,), _ = await heard_by(engine, samples, 1, 0.5)
        found("value", late)

        run = await engine.start(calls, samples // 2)
        first = list[float]()
        await engine.signal(run.id, "begin")
        await hear(engine, run.id, first, [])
        found("model", first)

        crowd, came_s = await heard_by(engine, samples // 2, watchers, 0.3)
        found("crowd, all of them", [late for one in crowd for late in one], watchers=watchers, came_s=round(came_s, 1))
        found("crowd, the last of them", [max(one) for one in zip(*crowd, strict=True)], watchers=watchers)

        await spoken(engine, samples // 4, watchers)
        await each_his_own(engine, samples, watchers)

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
            began = Effort()
            await asyncio.sleep(5)
            say({"what": "idle", "quiet_s": 5 + 3 * after_s, **began.so_far()})
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
