"""Spans arrive at a foreign receiver, whole and once each by their ids, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, flow, step, tool
from holdfast.settings import Settings, TelemetryRules
from holdfast.telemetry.exporter import TIMEOUT_S
from tests.engine.kit import bounded
from tests.telemetry.receiver import Received, grpc_receiver, http_receiver, values

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CANARY = "canary-7f3a@example.com"


@step
def measure(what: str) -> str:
    return f"{what} is fine"


@tool(effect="idempotent")
def send(to: str) -> str:
    """Send it."""
    return f"sent to {to}"


@flow
async def traced(ctx: Context, text: str) -> str:
    await measure(text)
    await ctx.tool(send, to=text)
    await ctx.wait_signal("go")
    return text


@asynccontextmanager
async def exporting(path: Path, endpoint: str, **rules: Any) -> AsyncIterator[Engine]:
    store = f"sqlite:///{path / 'holdfast.db'}"
    settings = Settings(store=store, telemetry=TelemetryRules(endpoint=endpoint, **rules))
    async with Engine.open(store, settings=settings, workflows=[traced]) as engine:
        async with asyncio.timeout(10):  # what is exported begins with what comes after this
            while not [row for row in await engine.store.followers.listed() if row.cursor is not None]:
                await asyncio.sleep(0.01)
        yield engine


async def one_run(engine: Engine, received: Received) -> str:
    run = await engine.traced(CALLER).start(traced, CANARY)
    await received.until("invoke_workflow traced")
    await engine.signal(run.id, "go")
    await run.result()
    await received.until("invoke_workflow traced", 2)
    return run.id


def check_tree(received: Received, run: str) -> None:
    ids = {span.span_id for span in received.spans}
    for span in received.spans:
        assert span.trace_id.hex() == CALLER.split("-")[1]
        assert span.parent_span_id in ids or span.parent_span_id.hex() == CALLER.split("-")[2]
        assert values(span.attributes)["holdfast.run.id"] == run
    assert {"service.name": "agents"} in received.resources
    wait = received.only("interrupt.waiting")
    seen = values(wait.attributes)
    assert seen["holdfast.wait"] == "signal"
    assert seen["interrupt.wait_time"] == (wait.end_time_unix_nano - wait.start_time_unix_nano) / 1e9
    called = received.only("execute_tool send")
    assert values(called.attributes)["gen_ai.operation.name"] == "execute_tool"
    assert received.names["function measure"] == 1
    last = received.named("invoke_workflow traced")[-1]
    assert [link.span_id for link in last.links] == [received.named("invoke_workflow traced")[0].span_id]


@bounded
async def test_a_run_arrives_over_http_before_it_waits_and_when_it_ends(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        async with exporting(tmp_path, endpoint, service_name="agents") as engine:
            check_tree(received, await one_run(engine, received))
        assert received.schemas == {"https://opentelemetry.io/schemas/1.41.0"}


@bounded
async def test_a_run_arrives_over_grpc_with_the_headers_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTLP_TOKEN", "Bearer s3cret")
    async with grpc_receiver() as (endpoint, received):
        rules = {"protocol": "grpc", "service_name": "agents", "headers": {"Authorization": "OTLP_TOKEN"}}
        async with exporting(tmp_path, endpoint, **rules) as engine:
            check_tree(received, await one_run(engine, received))
        assert {headers["authorization"] for headers in received.headers} == {"Bearer s3cret"}


@bounded
async def test_payloads_stay_at_home_unless_they_are_wanted_and_then_without_addresses(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        async with exporting(tmp_path, endpoint) as engine:
            await one_run(engine, received)
        assert CANARY not in b"".join(received.bodies).decode()
        assert "is fine" not in b"".join(received.bodies).decode()
        before = {span.span_id for span in received.spans}
        async with exporting(tmp_path, endpoint, payloads=True) as engine:
            run = await engine.start(traced, CANARY)
            await engine.signal(run.id, "go")
            await run.result()
            await received.until("invoke_workflow traced", 3)
        assert CANARY not in b"".join(received.bodies).decode()
        sent = {span.span_id: span for span in received.spans if span.name == "execute_tool send"}  # one may come twice
        (called,) = [span for span in sent.values() if "gen_ai.tool.call.arguments" in values(span.attributes)]
        assert called.span_id not in before
        assert "@redacted.invalid" in values(called.attributes)["gen_ai.tool.call.arguments"]


@bounded
async def test_a_receiver_that_is_away_or_busy_gets_everything_later(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        received.answers = [503, 429, 401]
        async with exporting(tmp_path, endpoint) as engine:
            run = await engine.start(traced, "x")
            await engine.signal(run.id, "go")
            assert await run.result() == "x", "no run waits for its trace"
            await received.until("invoke_workflow traced")
            (row,) = await engine.store.followers.listed()
            assert (row.name, row.dropped) == ("traces", 0)


@bounded
async def test_an_engine_ends_without_waiting_for_a_receiver_that_hangs(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        received.goes_on.clear()
        try:
            async with asyncio.timeout(TIMEOUT_S - 1), exporting(tmp_path, endpoint) as engine:
                run = await engine.start(traced, "x")
                await engine.signal(run.id, "go")
                assert await run.result() == "x"
                while not received.headers:
                    await asyncio.sleep(0.02)
        finally:
            received.goes_on.set()
        async with exporting(tmp_path, endpoint):
            await received.until("invoke_workflow traced")


@bounded
async def test_a_span_that_the_receiver_refuses_is_dropped_alone_and_counted(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        received.refuses = {"execute_tool send"}
        async with exporting(tmp_path, endpoint) as engine:
            run = await engine.start(traced, "x")
            await engine.signal(run.id, "go")
            await run.result()
            await received.until("invoke_workflow traced")
            assert received.names["function measure"] == 1
            assert received.names["execute_tool send"] == 0
            async with asyncio.timeout(10):
                while not (await engine.store.followers.listed())[0].dropped:
                    await asyncio.sleep(0.02)


@bounded
async def test_a_trace_that_its_caller_does_not_record_is_not_sent(tmp_path: Path) -> None:
    with http_receiver() as (endpoint, received):
        async with exporting(tmp_path, endpoint) as engine:
            unrecorded = await engine.traced(f"{CALLER[:-2]}00").start(traced, "x")
            await engine.signal(unrecorded.id, "go")
            await unrecorded.result()
            other = await engine.start(traced, "y")
            await engine.signal(other.id, "go")
            await other.result()
            await received.until("invoke_workflow traced")
        assert {values(span.attributes)["holdfast.run.id"] for span in received.spans} == {other.id}
