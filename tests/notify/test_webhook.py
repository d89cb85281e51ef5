"""Webhooks: what a receiver gets, what its answer means, and which addresses are never asked."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from holdfast.errors import UsageError
from holdfast.notify import posting
from holdfast.notify.webhook import WebhookChannel
from holdfast.platform import http_exchange
from holdfast.ports.channel import MAX_BODY_BYTES, Channel, Refused, Retry, Sent
from tests.notify.messages import message
from tests.tools.server import Server, bomb, does_and_drops, does_and_hangs, says

SECRETS = ("whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3", "whsec_" + "b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xk")


def now_ms() -> int:
    return int(time.time() * 1000)


def channel(url: str, **more: Any) -> WebhookChannel:
    return WebhookChannel(url, SECRETS, now_ms, **{"allow_private": ["127.0.0.0/8"], **more})


async def test_the_official_package_verifies_what_arrives_under_both_keys() -> None:
    with Server() as server:
        sends: Channel = channel(f"{server.url}/in?x=1")
        assert await sends.send(message()) == Sent()
        assert await sends.send(message()) == Sent()
        await sends.aclose()
    first, again = server.asked
    assert (first.method, first.target, first.headers["content-type"]) == ("POST", "/in?x=1", "application/json")
    assert (
        (first.body, first.headers["webhook-id"]) == (again.body, again.headers["webhook-id"]) == (message().body, "msg_0001")
    )
    for secret in SECRETS:
        assert Webhook(secret).verify(first.body, first.headers) == {"type": "gate_opened", "data": {"run": "r-1"}}


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, {}, Sent()),
        (204, {}, Sent()),
        (202, {}, Sent()),
        (410, {}, Refused("127.0.0.1 answered HTTP 410: it takes no more messages at this address.", disable=True)),
        (400, {}, Retry("127.0.0.1 answered HTTP 400.")),
        (401, {}, Retry("127.0.0.1 answered HTTP 401.")),
        (404, {}, Retry("127.0.0.1 answered HTTP 404.")),
        (500, {}, Retry("127.0.0.1 answered HTTP 500.")),
        (429, {}, Retry("127.0.0.1 answered HTTP 429.", after_s=60.0)),
        (502, {}, Retry("127.0.0.1 answered HTTP 502.", after_s=60.0)),
        (504, {}, Retry("127.0.0.1 answered HTTP 504.", after_s=60.0)),
        (429, {"Retry_After": "7"}, Retry("127.0.0.1 answered HTTP 429.", after_s=7.0)),
        (503, {"Retry_After": "120"}, Retry("127.0.0.1 answered HTTP 503.", after_s=120.0)),
    ],
)
async def test_an_answer_means_what_the_specification_says(status: int, headers: dict[str, str], expected: Any) -> None:
    with Server(says(status, **headers)) as server:
        assert await channel(server.url).send(message()) == expected
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(status: int) -> None:
    with Server(says(status, Location="/elsewhere")) as server:
        result = await channel(server.url).send(message())
    assert isinstance(result, Retry)
    assert "a redirect, which is never followed" in result.text
    assert [each.target for each in server.asked] == ["/"]


@pytest.mark.parametrize("behaviour", [does_and_drops, does_and_hangs])
async def test_a_lost_or_late_answer_is_tried_again(behaviour: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "TIMEOUT_S", 0.3)
    with Server(behaviour) as server:
        assert isinstance(await channel(server.url).send(message()), Retry)
    assert len(server.asked) == 1


async def test_nobody_there_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert isinstance(await channel(f"http://127.0.0.1:{port}").send(message()), Retry)


async def test_an_answer_is_read_up_to_a_bound_and_a_large_one_is_taken() -> None:
    with Server(bomb(50_000_000)) as server:
        assert await channel(server.url).send(message()) == Sent()


async def test_a_message_over_20_kb_is_not_sent() -> None:
    with Server() as server:
        result = await channel(server.url).send(message(body=b"x" * (MAX_BODY_BYTES + 1)))
    assert isinstance(result, Refused)
    assert not result.disable
    assert server.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.1.2.3", "169.254.169.254", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_refused_without_a_connection(host: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    with Server() as server:
        sends = WebhookChannel(f"https://{host}:{server.port}/", SECRETS, now_ms)
        result = await sends.send(message())
    assert isinstance(result, Refused)
    assert "no public address" in result.text
    assert server.connections == 0


async def test_a_name_is_resolved_once_so_it_cannot_change_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = http_exchange.resolve

    async def resolve(host: str, port: int, allowed: Any) -> list[str]:
        asked.append(host)
        return await real("127.0.0.1", port, allowed)

    monkeypatch.setattr(http_exchange, "resolve", resolve)
    with Server() as server:
        sends = channel(f"http://receiver.invalid:{server.port}/")
        assert await sends.send(message()) == Sent()
    assert asked == ["receiver.invalid"]
    assert server.asked[0].headers["host"] == f"receiver.invalid:{server.port}"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com/in", "must begin with https"),
        ("ftp://example.com/in", "must begin with https:// or http://"),
        ("https://ann:secret@example.com/", "a user or a password"),
        ("https://example.com/in#x", "never sent"),
        ("https://", "no host"),
        ("https://exa mple.com/", "ASCII without spaces"),
        ("https://example.com/\r\nX: 1", "ASCII without spaces"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_at_the_start(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        WebhookChannel(url, SECRETS, now_ms)


def test_a_webhook_without_a_secret_is_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="needs a secret"):
        WebhookChannel("https://example.com/", (), now_ms)
