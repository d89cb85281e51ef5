"""The limits that the model server enforces, as a client meets them and as its journal tells of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from holdfast.testing.model_server import ModelServer, RateLimit, Usage
from holdfast.testing.rate_limit import Turnstile
from holdfast.testing.wire import Call
from holdfast.testing.wires.anthropic import AnthropicWire

HAIKU = "claude-haiku-4-5"
FOR_EVER_S = 600.0


async def ask(server: ModelServer, words: str = "Hello", max_tokens: int = 100) -> None:
    body = {"model": HAIKU, "max_tokens": max_tokens, "messages": [{"role": "user", "content": words}]}
    async with httpx2.AsyncClient(base_url=server.anthropic_url, headers={"x-api-key": "any"}, timeout=None) as client:
        (await client.post("/v1/messages", json=body)).raise_for_status()


def serving(tmp_path: Path, limit: RateLimit, latency_s: float = 0.0) -> ModelServer:
    return ModelServer(journal=tmp_path / "calls.jsonl", limits={HAIKU: limit}, latency_s=latency_s)


def call(max_tokens: int = 100) -> Call:
    return AnthropicWire().read({"model": HAIKU, "max_tokens": max_tokens, "messages": [{"role": "user", "content": "?"}]})


def test_requests_beyond_the_limit_are_refused_with_a_time_after_which_they_fit() -> None:
    turnstile = Turnstile(RateLimit(requests_per_min=60, capacity_s=2.0))
    assert [turnstile.enter(call(), 100.0) for _ in range(3)] == [None, None, 1.0]
    assert turnstile.enter(call(), 100.9) == 1.0
    assert turnstile.enter(call(), 101.0) is None


def test_tokens_are_charged_at_their_most_and_come_back_with_the_reply() -> None:
    turnstile, first = Turnstile(RateLimit(tokens_per_min=600)), call(400)
    assert turnstile.enter(first, 100.0) is None
    assert turnstile.enter(call(400), 100.0) is not None
    turnstile.leave(first, Usage(10, 20), 100.0)
    assert turnstile.enter(call(400), 100.0) is None


async def test_a_refusal_is_a_429_that_uses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, RateLimit(requests_per_min=2)) as server:
        await ask(server)
        await ask(server)
        with pytest.raises(httpx2.HTTPStatusError) as refused:
            await ask(server)
        assert 0 < int(refused.value.response.headers["retry-after"]) <= 30
    assert [call.status for call in server.calls] == [200, 200, 429]
    assert [call.used is None for call in server.calls] == [False, False, True]


async def test_calls_at_once_are_counted_until_they_end_however_they_end(tmp_path: Path) -> None:
    with serving(tmp_path, RateLimit(concurrent=1), latency_s=FOR_EVER_S) as server:
        leaving = asyncio.create_task(ask(server))
        await until(lambda: len(server.calls) == 1)
        with pytest.raises(httpx2.HTTPStatusError):
            await ask(server)
        leaving.cancel()
        await asyncio.wait([leaving])
        await until(lambda: server.calls[0].outcome == "client_left")
        staying = asyncio.create_task(ask(server))
        await until(lambda: len(server.calls) == 3)
        assert server.calls[-1].status == 200
        staying.cancel()
        await asyncio.wait([staying])


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not met():
            await asyncio.sleep(0.005)


async def test_other_models_are_not_limited(tmp_path: Path) -> None:
    with ModelServer(journal=tmp_path / "calls.jsonl", limits={"other": RateLimit(requests_per_min=1)}) as server:
        for _ in range(3):
            await ask(server)
