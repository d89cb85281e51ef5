"""A process that archives a month, for tests that kill it: `python -m tests.stores.archiver DATABASE MONTH`."""

from __future__ import annotations

import asyncio
import sys

from holdfast.stores.postgres import PostgresAdministration


async def main(database: str, month: str) -> None:
    administration = await PostgresAdministration.connect(database)
    print("ready", flush=True)
    await administration.archive(month)
    await administration.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
