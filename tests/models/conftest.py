"""What the tests of models share: a provider on a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.models.providers import Providers
from tests.models.provider import Wire, environment


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    yield wire
    listening.close()


@pytest.fixture
async def wired(wire: Wire) -> AsyncIterator[Providers]:
    providers = Providers(environment=environment(wire.port))
    yield providers
    await providers.aclose()
