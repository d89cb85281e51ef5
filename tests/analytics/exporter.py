"""A process that exports a store to ClickHouse: `python -m tests.analytics.exporter STORE URL`. It lives until it is killed."""

from __future__ import annotations

import asyncio
import sys

from holdfast.analytics.clickhouse import Address, ClickHouse
from holdfast.compose import open_store
from holdfast.engine.background.follower import Follower
from holdfast.platform.machine import MachineClock
from holdfast.platform.spare_time import SpareTime


async def main(where: str, url: str) -> None:
    store = await open_store(where)
    sink = ClickHouse("clickhouse", Address(url, "holdfast", "default", str), 50)
    Follower(store, MachineClock(), sink, "the first", lambda: True, SpareTime().share()).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
