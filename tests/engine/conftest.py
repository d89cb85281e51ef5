"""What the engine's tests share: a store in a fresh directory, and a real model server behind the real SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as running:
        yield running


@pytest.fixture
def model(server: ModelServer) -> Providers:
    """The providers' real SDKs, talking to the model server."""
    return Providers(environment=server.environment)
