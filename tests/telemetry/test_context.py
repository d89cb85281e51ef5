"""Whoever is called from a step continues its trace: users' own spans, tools, scripts, child runs; and a caller's place reaches it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Context, Engine, Workflow, flow, http_tool, task
from holdfast.core.facts.events import RunStarted
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.trace import attempt_span, call_span
from holdfast.core.views.span_parts import Span
from holdfast.core.views.spans import spans
from holdfast.settings import Settings, TelemetryRules
from tests.actions.jobs.kit import workflow
from tests.engine.kit import bounded
from tests.tools.server import Server, says

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{PARENT}-01"
NOBODY = "http://127.0.0.1:9"
"""No receiver: nothing is waited for."""


@pytest.fixture
def own() -> Iterator[tuple[trace.Tracer, InMemorySpanExporter]]:
    """A user's tracer, as the official SDK makes it, and where its spans go."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("users"), exporter
    provider.shutdown()


def traced(path: Path, **rules: Any) -> Settings:
    return Settings(store=f"sqlite:///{path / 'h.db'}", telemetry=TelemetryRules(endpoint=NOBODY, **rules))


async def spans_of(engine: Engine, run: str) -> list[Span]:
    return spans(await engine.store.log.events(RunId(run)))


@bounded
async def test_users_own_spans_are_below_the_attempt_that_they_are_in(
    tmp_path: Path, own: tuple[trace.Tracer, InMemorySpanExporter]
) -> None:
    tracer, exporter = own
    wf = Workflow("own")

    @wf.node("waits")
    @task
    async def waits(state: Any) -> None:
        with tracer.start_as_current_span("async"):
            pass

    @wf.node("threaded")
    @task
    def threaded(state: Any) -> None:
        with tracer.start_as_current_span("threaded"):
            pass

    wf.edge("waits", "threaded")
    settings = traced(tmp_path)
    async with Engine.open(settings.store, settings=settings, workflows=[wf]) as engine:
        with tracer.start_as_current_span("caller"):
            run = await engine.start(wf)
        await run.result()
        found = {span.span_id: span for span in await spans_of(engine, run.id)}
    mine = {span.name: span for span in exporter.get_finished_spans()}
    for name, node in (("async", "waits"), ("threaded", "threaded")):
        parent = mine[name].parent
        assert parent is not None
        assert f"{parent.trace_id:032x}" == f"{mine['caller'].context.trace_id:032x}"
        assert f"{parent.span_id:016x}" == attempt_span(RunId(run.id), StepId(f"{node}#1"), 1)
        assert found[f"{parent.span_id:016x}"].kind == "attempt"
    (first,) = [span for span in found.values() if span.kind == "run"]
    assert first.parent_id == f"{mine['caller'].context.span_id:016x}"


_LATE = """
import asyncio, sys
from holdfast import Context, Engine, flow
from holdfast.core.views.spans import spans
from holdfast.settings import Settings, TelemetryRules

@flow
async def late(ctx: Context, data: str) -> str:
    from opentelemetry import trace
    return f"{trace.get_current_span().get_span_context().span_id:016x}"

async def main(rules):
    settings = Settings(store=sys.argv[1], telemetry=rules)
    async with Engine.open(settings.store, settings=settings, workflows=[late]) as engine:
        run = await engine.start(late, "x")
        found = await run.result()
        print(found, *(each.span_id for each in spans(await engine.store.log.events(run.id)) if each.kind == "attempt"))

assert "opentelemetry.trace" not in sys.modules
asyncio.run(main(TelemetryRules(endpoint=sys.argv[2])))
"""


def test_opentelemetry_imported_inside_a_step_finds_the_attempt(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _LATE, f"sqlite:///{tmp_path / 'h.db'}", NOBODY]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    current, attempt = said.stdout.split()
    assert current == attempt


@bounded
async def test_a_flow_that_stays_in_memory_is_below_the_attempt_in_which_it_goes_on(
    tmp_path: Path, own: tuple[trace.Tracer, InMemorySpanExporter]
) -> None:
    tracer, exporter = own

    @flow
    async def stays(ctx: Context, data: str) -> None:
        with tracer.start_as_current_span("before"):
            pass
        await ctx.wait_signal("go")
        with tracer.start_as_current_span("after"):
            pass

    settings = traced(tmp_path)
    async with Engine.open(settings.store, settings=settings, workflows=[stays]) as engine:
        run = await engine.start(stays, "x")
        await run.settled()
        await engine.signal(run.id, "go")
        await run.result()
        attempts = [span.span_id for span in await spans_of(engine, run.id) if span.kind == "attempt"]
    parents = [f"{span.parent.span_id:016x}" for span in exporter.get_finished_spans() if span.parent is not None]
    assert parents == attempts


@bounded
async def test_an_http_tool_passes_on_its_own_span_and_a_child_has_the_trace(tmp_path: Path) -> None:
    with Server(says(200, {}), says(200, {}), says(200, {})) as server:
        schema = {"type": "object"}
        ping = http_tool("ping", "GET", f"{server.url}/x", parameters=schema, allow_private=["127.0.0.0/8"])

        @flow(tools=[ping])
        async def below(ctx: Context, data: str) -> None:
            await ctx.tool(ping)

        @flow
        async def above(ctx: Context, data: str) -> None:
            await ctx.child(below, "y")

        settings = traced(tmp_path)
        async with Engine.open(settings.store, settings=settings, workflows=[above, below]) as engine:
            run = await engine.traced(CALLER).start(above, "x")
            await run.result()
            (child,) = [span.facts["child"] for span in await spans_of(engine, run.id) if span.kind == "child"]
            (called,) = [span for span in await spans_of(engine, child) if span.kind == "tool_call"]
            assert called.trace_id == TRACE
            assert server.asked[0].headers["traceparent"] == f"00-{TRACE}-{called.span_id}-01"
            assert called.span_id == call_span(called.facts["call"])
        away = Settings(store=settings.store)
        async with Engine.open(away.store, settings=away, workflows=[above, below]) as engine:
            await (await engine.traced(CALLER).start(above, "x")).result()
            await (await engine.start(above, "x")).result()
        assert server.asked[1].headers["traceparent"] == CALLER, "without spans of its own, the caller's place is passed on"
        assert "traceparent" not in server.asked[2].headers


@bounded
async def test_what_is_not_sampled_is_passed_on_as_that(tmp_path: Path) -> None:
    with Server(says(200, {})) as server:
        ping = http_tool("ping", "GET", f"{server.url}/x", parameters={"type": "object"}, allow_private=["127.0.0.0/8"])

        @flow(tools=[ping])
        async def calling(ctx: Context, data: str) -> None:
            await ctx.tool(ping)

        settings = traced(tmp_path, sampling=0.0)
        async with Engine.open(settings.store, settings=settings, workflows=[calling]) as engine:
            await (await engine.start(calling, "x")).result()
    assert server.asked[0].headers["traceparent"].endswith("-00")


@bounded
async def test_a_script_has_its_place_in_the_trace_in_its_environment(tmp_path: Path) -> None:
    wf = workflow(
        """
        jobs:
          a:
            runs-on: any
            steps:
              - id: show
                run: echo "place=$TRACEPARENT" >> "$GITHUB_OUTPUT"
            outputs:
              place: ${{ steps.show.outputs.place }}
        """
    )
    settings = traced(tmp_path)
    async with Engine.open(settings.store, settings=settings, workflows=[wf]) as engine:
        run = await engine.traced(CALLER).start(wf)
        output = await run.result()
        attempts = {span.span_id for span in await spans_of(engine, run.id) if span.kind == "attempt"}
    version, trace_id, parent, flags = output["jobs"]["a"]["outputs"]["place"].split("-")
    assert (version, trace_id, flags) == ("00", TRACE, "01")
    assert parent in attempts


@bounded
async def test_a_run_keeps_the_place_of_its_caller_and_none_that_is_malformed(tmp_path: Path) -> None:
    wf = Workflow("kept")

    @wf.node("a")
    @task
    def a(state: Any) -> None: ...

    async with Engine.open(f"sqlite:///{tmp_path / 'h.db'}", workflows=[wf]) as engine:
        kept = []
        for header in (CALLER, "nonsense", None):
            run = await engine.traced(header).start(wf)
            await run.result()
            event = (await engine.store.log.events(RunId(run.id)))[0].event
            assert isinstance(event, RunStarted)
            kept.append(event.traceparent)
    assert kept == [CALLER, "", ""]
