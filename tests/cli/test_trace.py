"""`holdfast runs trace`: what took time in a run and its children, for people, for viewers and as OTLP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.testing import CliRunner

from holdfast import Context, Engine, flow, step
from holdfast.cli.app import app
from holdfast.cli.runs.trace import tree
from holdfast.errors import UsageError
from tests.telemetry.receiver import in_base64


@step
def measure(what: str) -> str:
    return what


@flow
async def inner(ctx: Context, what: str) -> str:
    return await measure(what)


@flow
async def outer(ctx: Context, what: str) -> str:
    await ctx.child(inner, what)
    await ctx.wait_signal("go")
    return what


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A store, and a run that waits."""
    store = f"sqlite:///{tmp_path / 'h.db'}"
    monkeypatch.chdir(tmp_path)

    async def make() -> str:
        async with Engine.open(store, workflows=[outer, inner]) as engine:
            run = await engine.start(outer, "canary-7f3a")
            await run.settled()
            while (await run.state()).active:
                await asyncio.sleep(0.01)
            return run.id

    return store, asyncio.run(make())


def typed(*words: str) -> Any:
    return CliRunner().invoke(app, ["runs", "trace", *words])


def test_a_run_is_a_tree_with_its_children_in_eighty_columns(made: tuple[str, str]) -> None:
    store, run = made
    shown = typed(run, "--store", store)
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("run outer ")
    assert any(line.strip("├└│ ").startswith("run inner ") for line in lines), "the child's run is inside"
    assert any("function measure" in line for line in lines)
    (waits,) = [line for line in lines if "waits for a signal (go)" in line]
    assert waits.split()[-1] == "open"
    assert "canary-7f3a" not in shown.output


def test_a_trace_is_read_by_the_official_parser_and_by_viewers(made: tuple[str, str], tmp_path: Path) -> None:
    store, run = made
    shown = typed(run, "--store", store, "--json")
    request = Parse(in_base64(shown.output.encode()), ExportTraceServiceRequest())
    names = {span.name for span in request.resource_spans[0].scope_spans[0].spans}
    assert {"invoke_workflow outer", "invoke_workflow inner", "start inner", "function measure"} <= names
    written = typed(run, "--store", store, "--chrome", "trace.json")
    assert written.exit_code == 0, written.output
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {
        f"{row['name']} {row['run_id']}" for row in _runs(store, run)
    }
    again = typed(run, "--store", store, "--chrome", "trace.json")
    assert isinstance(again.exception, UsageError)


def _runs(store: str, run: str) -> list[dict[str, Any]]:
    from holdfast.cli.runs import trace

    rows, _ = asyncio.run(trace._read(run, store))
    return [row for row in rows if row["kind"] == "run" and row["ended_at"] is not None]


def test_long_names_and_deep_trees_are_cut_to_the_width() -> None:
    rows = [
        {
            "span_id": f"{depth}",
            "parent_id": f"{depth - 1}" if depth else None,
            "kind": "step",
            "name": "a very long name of a node " * 3,
            "seq": depth,
            "began_at": "2026-03-01T09:30:00.250Z",
            "took_ms": 4 * 86_400_000,
            "cost_usd": "123.456789",
            "outcome": "completed",
            "error_class": None,
            "facts": {"part": 1},
        }
        for depth in range(60)
    ]
    lines = list(tree(rows, 80))
    assert len(lines) == 61
    assert all(len(line) <= 80 for line in lines)


JOBS = """
jobs:
  a:
    runs-on: any
    steps:
      - run: exit 0
  b:
    runs-on: any
    steps:
      - run: exit 3
  c:
    runs-on: any
    if: ${{ 1 > 2 }}
    steps:
      - run: exit 0
"""


def test_a_job_that_failed_or_was_skipped_does_not_look_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    store = f"sqlite:///{tmp_path / 'h.db'}"
    CliRunner().invoke(app, ["run", "jobs.yaml", "--store", store])
    listed = CliRunner().invoke(app, ["runs", "list", "--store", store, "--json"])
    run = json.loads(listed.stdout)[0]["run_id"]
    lines = [line.strip("├└│ ") for line in typed(run, "--store", store).output.splitlines()]
    shown = {name: [line.split("  ")[0] for line in lines if line.startswith(f"step {name}")] for name in "ab"}
    assert shown == {"a": ["step a"], "b": ["step b: job_failed"]}, lines
    assert sum(line.startswith("attempt 1: job_failed") for line in lines) == 1, lines
    assert [line.split("  ")[0] for line in lines if line.startswith("script")] == ["script 1", "script 1: script_failed"]
    said = " ".join(CliRunner().invoke(app, ["runs", "explain", run, "--store", store]).output.split())
    assert "It has started 3 steps," in said, said
    assert "1 completed, 1 failed, 1 skipped." in said, said
