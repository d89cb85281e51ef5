"""One serving process for a module's tests, a model provider behind it, and an end for whatever they start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from holdfast.testing.model_server import ModelServer
from holdfast.wire import Client
from tests.wire.kit import Process, Server, ended


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wire")


@pytest.fixture(scope="module")
def models(folder: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=folder / "model-calls.jsonl") as running:
        yield running


@pytest.fixture(scope="module")
def server(folder: Path, models: ModelServer) -> Iterator[Server]:
    """It has the provider's key, and nobody else has."""
    serving = Server(folder, "--yaml", **models.environment)
    with ended(serving.process):
        yield serving


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client.connect(server.address) as connected:
        yield connected


Hire = Callable[..., Process]


@pytest.fixture
def hire(server: Server) -> Iterator[Hire]:
    """Starts workers, says when they are connected, and ends them with the test."""
    hired: list[Process] = []

    def start(name: str, *words: str, **how: object) -> Process:
        worker = server.worker(name, *words, **how)  # type: ignore[arg-type]
        hired.append(worker)
        worker.says(f"Connected to .* as {name}:")
        return worker

    with ended():
        yield start
    with ended(*hired):
        pass
