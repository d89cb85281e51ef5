"""Every store against every promise. A new store is one more entry of STORES."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.core.views.sealing import Sealing
from holdfast.errors import KeyMissing
from holdfast.ports import Store, TenantKey
from holdfast.stores.encryption import AesCodec
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from tests.simulation.store import Disk, Mount, SimulatedStore
from tests.stores.conformance import Connect, StoreConformance

DISKS: dict[Path, Disk] = {}


async def simulated(folder: Path) -> Store:
    """A store in memory, on the same disk as all others of this folder."""
    disk = DISKS.setdefault(folder, Disk(asyncio.get_running_loop().time))
    return SimulatedStore.on(Mount(disk))


class KeysOfAll:
    """Keeps ports.TenantKeys for every tenant that there may be."""

    def __init__(self) -> None:
        self._known: dict[bytes, TenantKey] = {}

    def current(self, tenant: str) -> TenantKey:
        secret = hashlib.sha256(tenant.encode()).digest()
        return self._known.setdefault(secret[:8], TenantKey(tenant, secret[:8], secret))

    def find(self, id: bytes) -> TenantKey:  # noqa: A002 - the port's word
        if id not in self._known:
            raise KeyMissing
        return self._known[id]


SEALING = Sealing(AesCodec(KeysOfAll()))

STORES: dict[str, Callable[[Path, str], Awaitable[Store]]] = {
    "sqlite": lambda folder, _: SqliteStore.connect(folder / "holdfast.db"),
    "encrypted sqlite": lambda folder, _: SqliteStore.connect(folder / "holdfast.db", sealing=SEALING),
    "encrypted postgres": lambda _, database: PostgresStore.connect(database, sealing=SEALING),
    "simulated": lambda folder, _: simulated(folder),
    "postgres": lambda _, database: PostgresStore.connect(database),
    "oldest postgres": lambda _, database: PostgresStore.connect(database),
    "pooled postgres": lambda _, database: PostgresStore.connect(database),
}
DATABASES = {
    "postgres": "database",
    "encrypted postgres": "database",
    "oldest postgres": "oldest_database",
    "pooled postgres": "pooled_database",
}


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
