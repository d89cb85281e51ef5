"""What the tests of replays share: a real model server, and the wires to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as running:
        yield running


@pytest.fixture
def model(server: ModelServer) -> Providers:
    return Providers(environment=server.environment)
