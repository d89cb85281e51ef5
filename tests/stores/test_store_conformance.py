"""Every store against every promise. A new store is one more entry of STORES."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.ports import Store
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from tests.simulation.store import Disk, Mount, SimulatedStore

pytest.register_assert_rewrite("tests.stores.conformance")

from tests.stores.conformance import Connect, StoreConformance  # noqa: E402 - its asserts are to be rewritten

DISKS: dict[Path, Disk] = {}


async def simulated(folder: Path) -> Store:
    """A store in memory, on the same disk as all others of this folder."""
    disk = DISKS.setdefault(folder, Disk(asyncio.get_running_loop().time))
    return SimulatedStore.on(Mount(disk))


STORES: dict[str, Callable[[Path, str], Awaitable[Store]]] = {
    "sqlite": lambda folder, _: SqliteStore.connect(folder / "holdfast.db"),
    "simulated": lambda folder, _: simulated(folder),
    "postgres": lambda _, database: PostgresStore.connect(database),
    "oldest postgres": lambda _, database: PostgresStore.connect(database),
    "pooled postgres": lambda _, database: PostgresStore.connect(database),
}
DATABASES = {"postgres": "database", "oldest postgres": "oldest_database", "pooled postgres": "pooled_database"}


@pytest.fixture(params=STORES)
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    opened: list[Store] = []
    database: str = request.getfixturevalue(DATABASES[request.param]) if request.param in DATABASES else ""

    async def again() -> Store:
        opened.append(await STORES[request.param](tmp_path, database))
        return opened[-1]

    yield again
    for store in opened:
        await store.aclose()


class TestStores(StoreConformance):
    pass
