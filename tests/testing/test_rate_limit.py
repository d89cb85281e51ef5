"""The limits that the model server enforces, as a client meets them and as its journal tells of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx2
import pytest

from holdfast.testing.model_server import ModelServer, RateLimit

HAIKU = "claude-haiku-4-5"


async def ask(server: ModelServer, words: str = "Hello", max_tokens: int = 100) -> None:
    body = {"model": HAIKU, "max_tokens": max_tokens, "messages": [{"role": "user", "content": words}]}
    async with httpx2.AsyncClient(base_url=server.anthropic_url, headers={"x-api-key": "any"}, timeout=None) as client:
        (await client.post("/v1/messages", json=body)).raise_for_status()


def serving(tmp_path: Path, limit: RateLimit, latency_s: float = 0.0) -> ModelServer:
    return ModelServer(journal=tmp_path / "calls.jsonl", limits={HAIKU: limit}, latency_s=latency_s)


async def test_requests_beyond_the_limit_are_refused_with_a_time_after_which_they_fit(tmp_path: Path) -> None:
    with serving(tmp_path, RateLimit(requests_per_min=60, capacity_s=2.0)) as server:
        await ask(server)
        await ask(server)
        with pytest.raises(httpx2.HTTPStatusError) as refused:
            await ask(server)
        assert refused.value.response.headers["retry-after"] == "1"
        await asyncio.sleep(1.0)
        await ask(server)
    assert [call.status for call in server.calls] == [200, 200, 429, 200]
    assert [call.used is None for call in server.calls] == [False, False, True, False], "a refusal uses nothing"


async def test_tokens_are_charged_at_their_most_and_come_back_with_the_reply(tmp_path: Path) -> None:
    with serving(tmp_path, RateLimit(tokens_per_min=600), latency_s=0.3) as server:
        first = asyncio.create_task(ask(server, max_tokens=400))
        await asyncio.sleep(0.15)
        with pytest.raises(httpx2.HTTPStatusError):
            await ask(server, max_tokens=400)
        await first
        await ask(server, max_tokens=400)


async def test_calls_at_once_are_counted_until_they_end_however_they_end(tmp_path: Path) -> None:
    with serving(tmp_path, RateLimit(concurrent=1), latency_s=5.0) as server:
        leaving = asyncio.create_task(ask(server))
        await asyncio.sleep(0.3)
        with pytest.raises(httpx2.HTTPStatusError):
            await ask(server)
        leaving.cancel()
        await asyncio.wait([leaving])
        ends = time.monotonic() + 3
        while "client_left" not in [call.outcome for call in server.calls] and time.monotonic() < ends:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        staying = asyncio.create_task(ask(server))
        await asyncio.sleep(0.3)
        assert server.calls[-1].status == 200
        staying.cancel()
        await asyncio.wait([staying])


async def test_other_models_are_not_limited(tmp_path: Path) -> None:
    with ModelServer(journal=tmp_path / "calls.jsonl", limits={"other": RateLimit(requests_per_min=1)}) as server:
        for _ in range(3):
            await ask(server)
