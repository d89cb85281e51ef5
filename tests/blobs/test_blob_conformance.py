"""Every place for large payloads against every promise: a store's table, a folder, a bucket over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.ports import Blobs
from holdfast.stores.blobs.bucket import Bucket
from holdfast.stores.blobs.folder import Folder
from holdfast.stores.blobs.moved import FallbackBlobs
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.object_server import ObjectServer
from tests.simulation.store import Disk, Mount, SimulatedStore

pytest.register_assert_rewrite("tests.blobs.conformance")

from tests.blobs.conformance import BlobConformance, Connect, ConnectPlace, PlaceConformance  # noqa: E402 - its asserts are to be rewritten

PLACES = ["sqlite", "postgres", "simulated", "folder", "bucket", "moved"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with ObjectServer(buckets=["payloads"]) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture(params=PLACES)
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as opened:
        kind: str = request.param
        disk = Disk(asyncio.get_running_loop().time)
        if kind == "bucket":
            request.getfixturevalue("server")

        database: str = request.getfixturevalue("database") if kind == "postgres" else ""

        async def in_postgres() -> Blobs:
            store = await PostgresStore.connect(database)
            opened.push_async_callback(store.aclose)
            return store.blobs

        async def table() -> Blobs:
            store = await SqliteStore.connect(tmp_path / "holdfast.db")
            opened.push_async_callback(store.aclose)
            return store.blobs

        async def again() -> Blobs:
            match kind:
                case "sqlite":
                    return await table()
                case "postgres":
                    return await in_postgres()
                case "simulated":
                    return SimulatedStore.on(Mount(disk)).blobs
                case "folder":
                    return Folder.open(tmp_path)
                case "bucket":
                    return Bucket.open("payloads", "some/prefix", {})
                case _:
                    return FallbackBlobs(Folder.open(tmp_path), await table())

        yield again


@pytest.fixture(params=["folder", "bucket"])
def connect_place(request: pytest.FixtureRequest, tmp_path: Path) -> ConnectPlace:
    if request.param == "folder":
        return lambda: Folder.open(tmp_path)
    request.getfixturevalue("server")
    return lambda: Bucket.open("payloads", "some/prefix", {})


class TestBlobs(BlobConformance):
    pass


class TestPlaces(PlaceConformance):
    """What can be told to let go of old months by itself."""
