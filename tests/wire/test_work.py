"""What a connected worker does, and what it has done for it: calls, tools, errors, bounds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.model_server import ModelServer
from holdfast.wire import Client
from tests.wire.conftest import Hire
from tests.wire.kit import Process, Server, until


@pytest.fixture(scope="module")
def worker(server: Server) -> Any:
    hired = server.worker("hand")
    hired.says("Connected to")
    yield hired
    hired.end()


async def test_a_task_is_done_by_a_worker_that_has_no_store(client: Client, worker: Process) -> None:
    view = await client.result(await client.submit("echo", {"word": "ü"}))
    assert (view.status, view.output) == ("completed", {"said": {"word": "ü"}, "pid": worker.pid})
    assert worker.pid != os.getpid()
    trace = view.run.replace("-", "")
    worker.says(f"echoes  run_id={view.run} step_id=do#1 attempt=1 tenant=default workflow=echo trace_id={trace} span_id=")


async def test_a_task_continues_the_trace_of_the_client(client: Client, worker: Process) -> None:
    caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    view = await client.result(await client.traced(caller).submit("trace", {}))
    assert view.output == caller, "a server that sends no spans passes its client's place on"


async def test_an_error_of_a_task_has_the_class_that_the_worker_gave_it(client: Client, worker: Process) -> None:
    view = await client.result(await client.submit("fail"))
    assert view.error is not None
    assert (view.status, view.error["error_class"]) == ("failed", "validation")
    assert "the picture is no picture" in view.error["message"]


async def test_a_worker_without_keys_calls_models_through_the_server(
    client: Client, worker: Process, models: ModelServer, server: Server
) -> None:
    before = len(models.calls)
    view = await client.result(await client.submit("think", {}))
    assert len(view.output) == 3
    assert [call.user for call in models.calls[before:]][:1] == ["one"]
    assert {call.user for call in models.calls[before:]} == {"one", "two", "three"}
    server.process.says(r"do#1 \| heard: ")


async def test_what_a_dead_workers_calls_came_to_is_what_the_next_worker_gets(
    client: Client, hire: Hire, models: ModelServer, tmp_path: Path
) -> None:
    """The model is not called a second time for what stands in the journal."""
    before = len(models.calls)
    hire("victim")
    run = await client.submit("think", {"die": str(tmp_path / "died")})
    hire("replacement")
    view = await client.result(run)
    assert view.status == "completed"
    assert sorted(call.user for call in models.calls[before:]) == ["one", "three", "two"]
    assert (tmp_path / "died").exists()


async def test_a_tool_that_runs_once_runs_once_though_its_worker_dies_after_it(
    client: Client, hire: Hire, tmp_path: Path
) -> None:
    hire("postman")
    run = await client.submit("post", {"text": "hello", "file": str(tmp_path / "notes"), "die": str(tmp_path / "died")})
    hire("second-postman")
    view = await client.result(run)
    assert view.output == {"said": "noted hello", "denied": "denied"}
    assert (tmp_path / "notes").read_text() == "hello\n"
    assert (tmp_path / "died").exists()


async def test_an_output_that_is_too_large_for_a_message_fails_its_step_in_words(client: Client, hire: Hire) -> None:
    hire("large")
    view = await client.result(await client.submit("big", {"bytes": 5_000_000}))
    assert view.error is not None
    assert view.error["error_class"] == "validation"
    assert "5000002 bytes, and a message at most 4194304" in view.error["message"]
    fits = await client.result(await client.submit("big", {"bytes": 4_000_000}))
    assert len(fits.output) == 4_000_000


async def test_a_time_out_is_kept_by_the_server_and_calls_the_job_off(client: Client, hire: Hire) -> None:
    hire("slow")
    view = await client.result(await client.submit("late"))
    assert view.error is not None
    assert (view.status, view.error["error_class"]) == ("failed", "timeout")


async def test_a_cancelled_run_calls_its_job_off_at_the_worker(client: Client, hire: Hire, tmp_path: Path) -> None:
    hire("obedient")
    begun = tmp_path / "begun"
    run = await client.submit("hold", {"begun": str(begun), "go": str(tmp_path / "go")})
    await asyncio.to_thread(until, begun)
    await client.cancel(run, reason="changed my mind", by="ida")
    lines = await asyncio.to_thread(until, begun, 2)
    assert lines[1].startswith("cancelled ")
    view = await client.result(run)
    assert view.status == "cancelled"
