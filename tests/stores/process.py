"""Another process on a SQLite store, for tests that kill, freeze or crowd it: `python -m tests.stores.process WHAT PATH ...`

It says one line for each thing that it has done, and takes a line when it is to go on.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

from holdfast.core.facts import commands as cmd
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.values.payload import inline
from holdfast.errors import StoreFull
from holdfast.stores.sqlite import SqliteStore
from tests.stores.story import TINY, Story


def say(*words: object) -> None:
    print(*words, flush=True)


async def told() -> str:
    text: str = await asyncio.to_thread(sys.stdin.readline)
    return text.strip()


async def append(path: Path, count: str = "1000000") -> None:
    """Append to a run of its own for as long as it may live, saying which events were acknowledged."""
    store, story = await SqliteStore.connect(path), Story()
    say("run", story.run)
    await store.log.append([story.start()])
    for number in range(int(count)):
        fates = await store.log.append([story.does(cmd.RaiseLimit("steps", 10_000 + number))])
        assert list(fates) == [None], fates
        say(story.state.seq)
    await store.aclose()


async def first(path: Path) -> None:
    """Open a store that may not be there yet, at a signal."""
    say("ready")
    await told()
    store, story = await SqliteStore.connect(path), Story()
    fates = await store.log.append([story.start()])
    say(story.run, fates[0])
    await store.aclose()


async def session(path: Path, name: str, lease_s: str) -> None:
    """Hold a session with work in flight, and say when asked whether it is alive."""
    store, story = await SqliteStore.connect(path, lease_s=float(lease_s)), Story(session=name)
    await store.sessions.open(SessionId(name), "a process", [TINY.hash], name.encode())
    await store.log.append([story.start()])
    say(story.run)
    while await told():
        say(store.sessions.alive(SessionId(name)))


async def forks(path: Path, name: str, lease_s: str) -> None:
    """Hold a session, as `session` does, with a forked child that outlives this process."""
    store, story = await SqliteStore.connect(path, lease_s=float(lease_s)), Story(session=name)
    await store.sessions.open(SessionId(name), "a process", [TINY.hash])
    await store.log.append([story.start()])
    forked, told_so = os.pipe()
    child = os.fork()
    if not child:
        os.write(told_so, b".")  # it has let go of what is its parent's
        os.close(sys.stdout.fileno())  # whoever waits for the parent's last word must not wait for this one's
        time.sleep(60)
        os._exit(0)
    os.read(forked, 1)
    say(child)
    await told()


async def hold(path: Path) -> None:
    """Hold the write lock until told otherwise."""
    store = await SqliteStore.connect(path)
    async with store.log.exclusive(RunId("any")):
        say("holding")
        await told()
    await store.aclose()


async def full(path: Path) -> None:
    """Fill a disk that has room for a megabyte, get more room, and go on. Says how many were taken before and after."""
    store, story = await SqliteStore.connect(path), Story()
    await store.log.append([story.start()])
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, most))
    taken = 0
    while True:
        signal = story.does(cmd.SendSignal("more", inline("x" * 50_000)))
        try:
            fates = await store.log.append([signal])
        except StoreFull as problem:
            say("full", taken, str(problem).partition(". ")[0])
            break
        assert list(fates) == [None], fates
        taken += 1
    say(len(await store.log.events(story.run)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    say(*(await store.log.append([signal])), story.state.seq)
    await store.aclose()


if __name__ == "__main__":
    what, path, *rest = sys.argv[1:]
    asyncio.run(globals()[what](Path(path), *rest))
