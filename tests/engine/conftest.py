"""What the engine's tests share: a store in a fresh directory, and a real model server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import everything_in
from tests.empty import empty_store

REPLAYS = "HOLDFAST_RESIDENT_FLOWS_MB", "0"
"""What has a process keep no flow that waits in its memory."""


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every flow that waited be replayed."""
    monkeypatch.setenv(*REPLAYS)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where an empty store is. The same workflows run on each, unchanged; on one of them every flow that waited is replayed."""
    if request.param == "postgres":
        monkeypatch.setenv(*REPLAYS)
        database: str = request.getfixturevalue("database")
        return database
    return f"sqlite:///{empty_store(tmp_path / 'holdfast.db')}"


@pytest.fixture
def stored(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> Callable[[], bytes]:
    """Reads everything that the store has on its disk."""
    if store.startswith("postgresql"):
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return lambda: everything_in(postgres, store.partition("schema=")[2])
    return lambda: b"".join(path.read_bytes() for path in tmp_path.glob("holdfast.db*") if path.is_file())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as running:
        yield running


@pytest.fixture
def model(server: ModelServer) -> Providers:
    """The wires of the providers, talking to the model server."""
    return Providers(environment=server.environment)
