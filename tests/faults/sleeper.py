"""A process on a PostgreSQL store, to be frozen, kept busy or given a wrong clock: `python -m tests.faults.sleeper HOW URL …`

It does one thing for each line that it is given, and says one line of what came of it.
"""

from __future__ import annotations

import asyncio
import sys
import time

from holdfast import Engine, Workflow, task
from holdfast.core.values.ids import SessionId
from holdfast.core.views.status import status
from holdfast.stores.postgres import PostgresStore
from tests.stores.story import TINY, Story


def say(*words: object) -> None:
    print(*words, flush=True)


async def told() -> list[str]:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.split()


def naps() -> Workflow:
    """A run that sleeps for half an hour, and so past the next full hour of nobody's clock."""
    wf = Workflow("naps")

    @wf.node("nap")
    @task
    async def nap(state, ctx):
        await ctx.sleep(1800)
        return "awake"

    return wf


async def session(url: str, name: str, lease_s: str) -> None:
    """Hold a session with work in flight."""
    store, story = await PostgresStore.connect(url, lease_s=float(lease_s)), Story(session=name)
    await store.sessions.open(SessionId(name), "a process", [TINY.hash])
    await store.log.append([story.start()])
    say(story.run)
    while words := await told():
        match words:
            case ["alive"]:
                say(store.sessions.alive(SessionId(name)))
            case ["renew"]:
                say(await store.sessions.renew(SessionId(name)))
            case ["block", seconds]:
                time.sleep(float(seconds))
                say(store.sessions.alive(SessionId(name)))
    await store.aclose()


async def worker(url: str, wrong_s: str) -> None:
    """Work on runs that sleep, and start one, by a clock on the wall that is wrong."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + float(wrong_s)
    time.time_ns = lambda: right_ns() + int(wrong_s) * 10**9
    store = await PostgresStore.connect(url)
    async with Engine.open(store, workflows=[naps()]) as engine:
        run = await engine.start(naps())
        say(run.id, store.clock.now_ms(), int(time.time() * 1000))
        while words := await told():
            await run.until(lambda state: status(state) == "waiting")
            await asyncio.sleep(float(words[0]))
            say(await run.status())
    await store.aclose()


if __name__ == "__main__":
    how, *rest = sys.argv[1:]
    asyncio.run(globals()[how](*rest))
