"""Requests that Holdfast makes for itself are no lines at level info; those of a user's own client stay as they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import httpx2
import pytest

from holdfast.cli.doctor import facts
from holdfast.cli.process.dev_server import DevServer
from holdfast.models.family import provider_of
from holdfast.platform.quiet_requests import quiet_requests
from holdfast.telemetry.exporter import TRACES, HttpExporter
from holdfast.telemetry.names import Naming
from holdfast.telemetry.otlp import Encoder
from tests.notify.messages import message
from tests.notify.test_webhook import channel
from tests.telemetry.test_metrics import push
from tests.tools.server import Server


async def spans(url: str) -> None:
    encoder = Encoder(Naming("1.41.0", lambda model: provider_of(model, {})[0]), {}, "1")
    exporter = HttpExporter(url, TRACES, encoder.json)
    await exporter.send([], {})
    await exporter.aclose()


async def metrics(url: str) -> None:
    pushes = push(url)
    await pushes.push()
    await pushes.aclose()


async def notification(url: str) -> None:
    await channel(url).send(message())


async def provider(url: str) -> None:
    await facts._reached("openai", url)


async def dev_server(url: str) -> None:
    await DevServer(url, "token").answers(None)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


OWN = [spans, metrics, notification, provider, dev_server]


@pytest.mark.parametrize("own", OWN)
async def test_own_requests_are_lines_at_level_debug_only(
    server: Server, caplog: pytest.LogCaptureFixture, own: Callable[[str], Awaitable[None]]
) -> None:
    with caplog.at_level(logging.INFO):
        await own(server.url)
    assert server.asked
    assert [each.getMessage() for each in caplog.records if each.name == "httpx2"] == []
    with caplog.at_level(logging.DEBUG):
        await own(server.url)
    assert {each.levelname for each in caplog.records if each.name == "httpx2"} == {"DEBUG"}


async def test_a_request_of_the_user_at_the_same_time_is_a_line_as_before(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:

        async def own() -> None:
            with quiet_requests():
                await http.get(f"{server.url}/own")

        with caplog.at_level(logging.INFO):
            await asyncio.gather(own(), http.get(f"{server.url}/theirs"), own())
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "httpx2"]
    assert [(level, "/theirs" in text) for level, text in lines] == [("INFO", True)]
