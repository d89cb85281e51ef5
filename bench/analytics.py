"""Many events through the follower into the ClickHouse engine: how long it takes, and whether the sums are those of the log.

    python -m bench.analytics [EVENTS] [FOLDER]

The store is SQLite with histories as the tests of stores make them; the engine is the one that `make clickhouse` installs,
behind the HTTP port of its tests. It prints what the log, the roll-up of the store and the three tables of ClickHouse say that
all calls cost, in nano-dollars. With a FOLDER that it has filled before, it only reads.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from holdfast.analytics.row import cost_of
from holdfast.compose import open_store
from holdfast.ports import Store
from tests.analytics.engine import Engine, feed, rolled_up
from tests.stores.story import BORN_MS, Story

OF_ONE = 26
"""Events of one run: its beginning, eleven calls and its draft."""
AT_ONCE = 200


async def filled(store: Store, events: int) -> None:
    """Fill the store with runs, two hundred side by side."""
    for first in range(0, events // OF_ONE + 1, AT_ONCE):
        stories = [Story(tenant=f"tenant {n % 7}", at_ms=BORN_MS + n * 60_000) for n in range(first, first + AT_ONCE)]
        await store.log.append([story.start() for story in stories])
        for call in range(11):
            path = str(call)
            await store.log.append([story.hold(10**9 + n * call, path) for n, story in enumerate(stories)])
            await store.log.append([story.settle(10**6 + n * 7 + call, path) for n, story in enumerate(stories)])
        await store.log.append([story.draft() for story in stories])


async def of_the_log(store: Store) -> tuple[int, int]:
    """The number of events, and what they say that calls have cost, read from one end to the other."""
    count = cost = 0
    cursor: str | None = None
    while True:
        events, cursor = await store.tail.after(cursor, 10_000)
        count, cost = count + len(events), cost + sum(cost_of(each.recorded.event) for each in events)
        if len(events) < 10_000:
            return count, cost


async def main(events: int, folder: Path) -> None:
    store = await open_store(str(folder / "runs.db"))
    began_s = time.monotonic()

    def took(what: str) -> None:
        nonlocal began_s
        now_s = time.monotonic()
        print(f"{what}: {now_s - began_s:.1f} s", flush=True)  # noqa: T201
        began_s = now_s

    if await store.tail.end() == "0":
        await filled(store, events)
        took("histories made and appended")
    count, logged = await of_the_log(store)
    took(f"log read: {count} events")
    with Engine(folder / "engine") as engine:
        await feed(store, engine.sink(batch=10_000), count)
        took("exported")
        ((rows, of_events),) = engine.ask("select count(), sum(cost_nanousd) from events final")
        took("select over events final")
        ((of_calls,),) = engine.ask("select sum(cost_nanousd) from calls final")
        ((of_view,),) = engine.ask("select toInt64(sum(cost_nanousd)) from call_costs")
        took("selects over calls and call_costs")
    counted = sum(row.cost_nanousd for row in await rolled_up(store))
    took("roll-up of the store")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"this process: {used.ru_utime + used.ru_stime:.0f} s of a processor, {used.ru_maxrss // 1024} MB at most")  # noqa: T201
    sums = {"log": logged, "roll-up": counted, "events": of_events, "calls": of_calls, "call_costs": of_view}
    print(*(f"{name}: {value}" for name, value in sums.items()), sep="\n")  # noqa: T201
    print("equal" if len({*sums.values()}) == 1 and rows == count else "NOT EQUAL")  # noqa: T201
    await store.aclose()


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    asyncio.run(main(wanted, where))
